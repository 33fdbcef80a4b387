//! `summary`: how a job went, in a few lines.

use super::report::recording_of;
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{lookup, output};
use pcm_view::time::now_us;

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
