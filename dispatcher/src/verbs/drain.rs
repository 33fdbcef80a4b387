//! `drain`: moves all ranks off a node.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::output;
use pcm_proto::control::{ControlToDaemon, DRAIN_WITHIN, DaemonToControl};
use pcm_proto::ids::NodeName;
use std::time::Duration;

const EXAMPLE: &str = "\
Example:
  pcmctl drain n2 --deadline 30
  pcmctl join n2                     lets it take ranks again";

/// Added to the deadline, so that the daemon reports a missed deadline first.
const MARGIN: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Name of the node
    node: String,
    /// Seconds until the node must be empty: what cannot leave by then is ended, and continues elsewhere from a
    /// checkpoint if it can. Without a deadline it stays, and the answer says why
    #[arg(long, value_name = "S")]
    deadline: Option<f64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let node = NodeName::new(&args.node).map_err(|error| Failure::usage(format!("node {:?}: {error}", args.node)))?;
    let deadline = args.deadline.map(|seconds| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::usage(format!("--deadline {seconds} is no number of seconds")))
    });
    let deadline = deadline.transpose()?;
    let deadline_ms = deadline.map(|deadline| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
    let mut link = Link::open(cluster).await?;
    let request = ControlToDaemon::Drain {
        node: node.clone(),
        deadline_ms,
    };
    match link.ask(request, deadline.unwrap_or(DRAIN_WITHIN) + MARGIN).await? {
        DaemonToControl::Done if args.json => output::print_json(&serde_json::json!({"node": node, "drained": true}))?,
        DaemonToControl::Done => output::print(&format!("node {node} is empty and takes no new ranks\n"))?,
        other => return Err(Failure::unexpected("Drain", &other)),
    }
    Ok(0)
}
