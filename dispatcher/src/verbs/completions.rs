//! `completions`: a script for shell completion of verbs and options.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::{cli, output};
use clap_complete::Shell;

const EXAMPLE: &str = "\
Example:
  eval \"$(pcmctl completions bash)\"";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The shell to write it for
    shell: Shell,
}

pub(crate) async fn run(args: Args, _cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "pcmctl", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
