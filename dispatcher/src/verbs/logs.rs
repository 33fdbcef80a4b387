//! `logs`: the end of a node's log, or new log levels.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LogOf, NodeState};
use pcm_proto::ids::NodeName;

const EXAMPLE: &str = "\
Levels are off, error, warn, info, debug, trace; for everything, or per part: pcm_daemon, pcm_core, pcm_fabric,
ios_agent and modules in them. A daemon's levels last as long as the node's keeper, also when the daemon is started
again; an agent's last as long as its daemon. A node starts with PCM_LOG as set for 'pcmctl up'.

Example:
  pcmctl logs n1 --lines 50
  pcmctl logs n1 --level pcm_core::node::jobs=debug
  pcmctl logs --agent --level default        restore the levels of the start, on every node";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The node [default: the one that answers first; with --level every node]
    node: Option<String>,
    /// The agent's log or levels instead of the daemon's
    #[arg(long)]
    agent: bool,
    /// Number of lines, newest last
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    lines: u32,
    /// Set log levels, as PART=LEVEL,…; 'default' restores the levels of the start
    #[arg(long, value_name = "LEVELS", conflicts_with = "lines")]
    level: Option<String>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let node = args.node.as_deref().map(NodeName::new).transpose();
    let node = node.map_err(|error| Failure::usage(format!("node name: {error}")))?;
    let of = if args.agent { LogOf::Agent } else { LogOf::Daemon };
    let mut link = Link::open(cluster).await?;
    let Some(levels) = args.level else {
        let lines = args.lines;
        let text = asked(&mut link, ControlToDaemon::Logs { node, of, lines }).await?;
        output::print(&text)?;
        return Ok(0);
    };
    let nodes = match node {
        Some(node) => vec![node],
        None => nodes_up(&mut link).await?,
    };
    for node in nodes {
        let request = ControlToDaemon::LogLevels {
            node: Some(node.clone()),
            of,
            levels: levels.clone(),
        };
        let all = asked(&mut link, request).await?;
        output::print(&format!("{node}: {all}\n"))?;
    }
    Ok(0)
}

async fn asked(link: &mut Link, request: ControlToDaemon) -> Result<String, Failure> {
    match link.ask(request, ASK_DEADLINE).await? {
        DaemonToControl::Logs(text) => Ok(text),
        other => Err(Failure::unexpected("Logs", &other)),
    }
}

async fn nodes_up(link: &mut Link) -> Result<Vec<NodeName>, Failure> {
    match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => {
            let answers = |state| matches!(state, NodeState::Up | NodeState::Draining);
            let nodes = nodes.into_iter().filter(|node| answers(node.state));
            Ok(nodes.map(|node| node.name).collect())
        }
        other => Err(Failure::unexpected("Nodes", &other)),
    }
}
