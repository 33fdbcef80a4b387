//! `logs`: the end of a node's log.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::NodeName;

const EXAMPLE: &str = "\
Example:
  pcmctl logs n1 --lines 50";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The node [default: the one that answers first]
    node: Option<String>,
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
