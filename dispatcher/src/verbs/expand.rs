//! `expand`: adds ranks to a job.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::layout::{Options, change};
use pcm_proto::control::LayoutChange;
use pcm_proto::ids::NodeName;

const EXAMPLE: &str = "\
Example:
  pcmctl expand 3 --to 8
  pcmctl expand heat --to 6 --nodes n2,n3";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// New number of ranks
    #[arg(long, value_name = "N")]
    to: u32,
    /// Nodes for the new ranks, as a,b [default: where they are fastest]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    nodes: Vec<String>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let named = args
        .nodes
        .iter()
        .map(|name| NodeName::new(name).map_err(|error| Failure::usage(format!("--nodes {name:?}: {error}"))));
    let nodes = named.collect::<Result<_, _>>()?;
    change(&args.options, LayoutChange::Expand { to: args.to, nodes }, cluster).await
}
