//! `kill`: ends a job and waits until all of its processes are gone.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};

const EXAMPLE: &str = "\
The ranks get SIGTERM, and SIGKILL half a second later.

Example:
  pcmctl kill 3";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    match link.ask(ControlToDaemon::Kill { job }, ASK_DEADLINE).await? {
        DaemonToControl::Done if args.json => output::print_json(&serde_json::json!({"job": job, "killed": true}))?,
        DaemonToControl::Done => output::print(&format!("job {job} is ended\n"))?,
        other => return Err(Failure::unexpected("Kill", &other)),
    }
    Ok(0)
}
