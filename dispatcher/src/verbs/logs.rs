//! `logs`: the end of one of a node's logs.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LogOf};
use pcm_proto::ids::NodeName;

const EXAMPLE: &str = "\
Example:
  pcmctl logs n1 --lines 50
  PCM_LOG=info,pcm_daemon::serve::reconfiguring=debug pcmctl up --local 4    logs one part in detail";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The node [default: the one that answers first]
    node: Option<String>,
    /// The log of the node's agent instead of its daemon's
    #[arg(long)]
    agent: bool,
    /// How many lines, newest last
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    lines: u32,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let node = args.node.as_deref().map(NodeName::new).transpose();
    let node = node.map_err(|error| Failure::usage(format!("node name: {error}")))?;
    let mut link = Link::open(cluster).await?;
    match link
        .ask(
            ControlToDaemon::Logs {
                node,
                of: if args.agent { LogOf::Agent } else { LogOf::Daemon },
                lines: args.lines,
            },
            ASK_DEADLINE,
        )
        .await?
    {
        DaemonToControl::Logs(text) => output::print(&text)?,
        other => return Err(Failure::unexpected("Logs", &other)),
    }
    Ok(0)
}
