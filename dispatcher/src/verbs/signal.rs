//! `signal`: sends a signal to every rank of a job.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output, signals};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};

const EXAMPLE: &str = "\
Example:
  pcmctl signal 3 USR1";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// The signal, as USR1, SIGUSR1 or 10
    #[arg(value_name = "SIG", value_parser = signals::parse)]
    signal: i32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let signal = args.signal;
    match link.ask(ControlToDaemon::Signal { job, signal }, ASK_DEADLINE).await? {
        DaemonToControl::Done if args.json => output::print_json(&serde_json::json!({"job": job, "signal": signal}))?,
        DaemonToControl::Done => output::print(&format!("{} was sent to job {job}\n", signals::name(signal)))?,
        other => return Err(Failure::unexpected("Signal", &other)),
    }
    Ok(0)
}
