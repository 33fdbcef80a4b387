//! `top`: current jobs, ranks and nodes, with keys to control them.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::top;
use std::io::IsTerminal;
use std::time::Duration;

const EXAMPLE: &str = "\
Keys: tab pane · arrows or j k row · s sort · r reverse · v nodes with their ranks, and back · / filter · m migrate a
rank · n number of ranks · d drain a node, or take a drained one back · c checkpoint · q quit. Every command is
confirmed with y. No colours.

Example:
  pcmctl top
  pcmctl top --every 2";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Seconds between updates
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0.1 to 3600".to_owned()),
    }
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "top needs a terminal: 'pcmctl jobs', 'pcmctl ps JOB' and 'pcmctl nodes' print once".to_owned(),
        ));
    }
    top::watch(cluster, Duration::from_secs_f64(args.every)).await?;
    Ok(0)
}
