//! `slurm`: what helps people who run jobs under Slurm.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::output;

const EXAMPLE: &str = "\
Example:
  pcmctl slurm template > job.sh      # change the lines at its top, then: sbatch job.sh";

/// A job script that outlives the limit of its job.
const TEMPLATE: &str = include_str!("slurm_template.sh");

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// What to print
    #[arg(value_enum)]
    what: What,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// A job script that makes a checkpoint before its time limit, requeues itself and goes on
    Template,
}

#[expect(clippy::unused_async, reason = "verbs are called alike")]
pub(crate) async fn run(args: Args, _cluster: &ClusterDir) -> Result<i32, Failure> {
    match args.what {
        What::Template => output::print(TEMPLATE)?,
    }
    Ok(0)
}
