//! `remove`: ends the daemon of an empty node.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::NodeName;
use std::time::Duration;

const EXAMPLE: &str = "\
Example:
  pcmctl drain n2 && pcmctl remove n2";

/// Longest time that another change of the cluster's record may delay this one.
const RECORD_LOCK_MAX: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Name of the node
    node: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let node = NodeName::new(&args.node).map_err(|error| Failure::usage(format!("node {:?}: {error}", args.node)))?;
    let mut link = Link::open(cluster).await?;
    match link
        .ask(ControlToDaemon::Remove { node: node.clone() }, ASK_DEADLINE)
        .await?
    {
        DaemonToControl::Done => {}
        other => return Err(Failure::unexpected("Remove", &other)),
    }
    let _lock = cluster.lock_within(RECORD_LOCK_MAX)?;
    let mut record = cluster.expect_record()?;
    record.nodes.retain(|known| known.spec.name != node);
    cluster.save(&record)?;
    if args.json {
        output::print_json(&serde_json::json!({"node": node, "removed": true}))?;
    } else {
        output::print(&format!("node {node} is removed\n"))?;
    }
    Ok(0)
}
