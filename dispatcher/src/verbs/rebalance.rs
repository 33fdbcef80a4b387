//! `rebalance`: gives the ranks shares of the data by the speed of their nodes.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::layout::{Options, change};
use pcm_proto::control::LayoutChange;

const EXAMPLE: &str = "\
Example:
  pcmctl rebalance 3";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    change(&args.options, LayoutChange::Rebalance, cluster).await
}
