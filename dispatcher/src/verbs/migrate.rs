//! `migrate`: moves one rank to another node.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::layout::{Options, change};
use pcm_proto::control::LayoutChange;
use pcm_proto::ids::{NodeName, Rank};

const EXAMPLE: &str = "\
Example:
  pcmctl migrate 3 --rank 2 --to n1";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// The rank to move
    #[arg(long, value_name = "R")]
    rank: u32,
    /// The node to move it to
    #[arg(long, value_name = "NODE")]
    to: String,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let to = NodeName::new(&args.to).map_err(|error| Failure::usage(format!("node {:?}: {error}", args.to)))?;
    change(
        &args.options,
        LayoutChange::Migrate(vec![(Rank(args.rank), to)]),
        cluster,
    )
    .await
}
