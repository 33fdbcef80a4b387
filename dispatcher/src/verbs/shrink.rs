//! `shrink`: removes ranks from a job.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::layout::{Options, change};
use pcm_proto::control::LayoutChange;

const EXAMPLE: &str = "\
Example:
  pcmctl shrink 3 --to 2";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// New number of ranks
    #[arg(long, value_name = "N")]
    to: u32,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    change(&args.options, LayoutChange::Shrink { to: args.to }, cluster).await
}
