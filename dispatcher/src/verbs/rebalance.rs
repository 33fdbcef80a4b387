//! `rebalance`: changes the ranks' shares of the data, by the speed of their nodes or as given.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::layout::{Options, change};
use pcm_proto::control::LayoutChange;

const EXAMPLE: &str = "\
Example:
  pcmctl rebalance 3
  pcmctl rebalance 3 --shares 2,1,1      # rank 0 gets half of the data";

/// Largest value of a share.
const SHARE_MAX: i64 = 1_000_000;

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// The share of each rank, in rank order; without it the shares follow the speeds of the nodes
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=SHARE_MAX)
    )]
    shares: Vec<u32>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let wanted = if args.shares.is_empty() {
        LayoutChange::Rebalance
    } else {
        LayoutChange::Arrange {
            moves: Vec::new(),
            weights: args.shares,
        }
    };
    change(&args.options, wanted, cluster).await
}
