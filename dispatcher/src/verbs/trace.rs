//! `trace`: the MPI calls of a job for a limited time, as a file for Perfetto or Chrome.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::output;
use crate::trace::{Summary, Wanted, record};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLE: &str = "\
Recording starts now and ends after --seconds, with ctrl-C, or with the job. Open the file in ui.perfetto.dev or
chrome://tracing. Ranks never wait: entries recorded faster than they are fetched are lost, and counted.

Example:
  pcmctl trace heat --out heat.json --seconds 5";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Longest time to record
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// Most calls and iterations to record; a million take about 150 MB
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    entries_max: u64,
    /// Print a summary as a JSON document
    #[arg(long)]
    json: bool,
}

/// Nobody needs a trace of more than a day.
const SECONDS_MAX: f64 = 86_400.0;

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    if !(args.seconds > 0.0 && args.seconds <= SECONDS_MAX) {
        let message = format!(
            "--seconds {} is invalid: give a number up to {SECONDS_MAX}",
            args.seconds
        );
        return Err(Failure::usage(message));
    }
    let wanted = Wanted {
        job: args.job,
        out: args.out,
        limit: Duration::from_secs_f64(args.seconds),
        entries_max: args.entries_max,
    };
    let Summary { job, counts, seconds } = record(cluster, &wanted).await?;
    let text = if args.json {
        let document = json!({
            "job": job.0, "file": wanted.out, "seconds": seconds, "ranks": counts.ranks, "calls": counts.calls,
            "iterations": counts.iterations, "reconfigurations": counts.reconfigurations, "lost": counts.lost,
        });
        format!("{document}\n")
    } else {
        format!(
            "{}: {} calls, {} iterations and {} reconfigurations of {} ranks in {seconds:.1} s, {} entries lost\n",
            wanted.out.display(),
            counts.calls,
            counts.iterations,
            counts.reconfigurations,
            counts.ranks,
            counts.lost
        )
    };
    output::print(&text)?;
    Ok(0)
}
