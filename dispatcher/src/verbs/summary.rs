//! `summary`: how a job went, in a few lines; `run` and `restart` end with it.

use super::report::recording_of;
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{lookup, output};
use pcm_proto::ids::JobId;
use pcm_view::time::now_us;
use std::time::Duration;

/// What the summary of a job may hold up its user's next command.
const AT_END_WITHIN: Duration = Duration::from_secs(2);

const EXAMPLE: &str = "\
Example:
  pcmctl summary 1
  pcmctl summary heat";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name; it may have ended within the last hour
    job: String,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let recording = recording_of(&mut link, job).await?;
    output::print(&recording.summary(now_us()))?;
    Ok(0)
}

/// Prints it on standard error; without an answer in time there is none, for the job has ended anyway.
pub(super) async fn at_end(cluster: &ClusterDir, job: JobId) {
    let asking = async {
        let mut link = Link::open(cluster).await?;
        recording_of(&mut link, job).await
    };
    if let Ok(Ok(recording)) = tokio::time::timeout(AT_END_WITHIN, asking).await {
        for line in recording.summary(now_us()).lines() {
            output::tell(line);
        }
    }
}
