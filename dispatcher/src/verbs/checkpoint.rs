//! `checkpoint`: makes a checkpoint of a running job in the memory of its nodes, now.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{lookup, output, steer};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use std::time::Duration;

/// Above the time after which the daemon gives up itself.
const MADE_WITHIN: Duration = Duration::from_secs(65);

const EXAMPLE: &str = "\
It is kept in the memory of the job's nodes, each part on a second node too, and replaced by the next one.

Example:
  pcmctl checkpoint 3
  pcmctl checkpoint heat --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job's number or name
    job: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    match link.ask(ControlToDaemon::Checkpoint { job }, MADE_WITHIN).await? {
        DaemonToControl::Checkpointed {
            iteration,
            ranks,
            bytes,
            held_ms,
        } if args.json => output::print_json(&serde_json::json!({
            "job": job, "iteration": iteration, "ranks": ranks, "bytes": bytes, "held_ms": held_ms
        }))?,
        made @ DaemonToControl::Checkpointed { .. } => {
            output::print(&format!("job {job}: {}\n", steer::outcome_words(&made)))?;
        }
        other => return Err(Failure::unexpected("Checkpoint", &other)),
    }
    Ok(0)
}
