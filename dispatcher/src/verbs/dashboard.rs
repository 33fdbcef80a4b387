//! `dashboard`: a page in the browser that shows a job while it runs, and steers it.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{dashboard, lookup, output};

const EXAMPLE: &str = "\
The address it prints holds a token: whoever has it may steer the job. The page is served on loopback only;
from another machine reach it with 'ssh -L PORT:127.0.0.1:PORT HOST'. Ctrl-C ends it.

Example:
  pcmctl dashboard
  pcmctl dashboard 3 --port 8000";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name [default: the newest that runs]
    job: Option<String>,
    /// The port [default: the system chooses]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    // A cluster that is not there is told before a page is.
    let mut link = Link::open(cluster).await?;
    let job = match &args.job {
        Some(text) => Some(lookup::job(&mut link, text).await?),
        None => None,
    };
    drop(link);
    let ready = |address: &str| output::print(&format!("{address}\n"));
    tokio::select! {
        served = dashboard::serve(cluster, job, args.port, ready) => served.map(|()| 0),
        _ = tokio::signal::ctrl_c() => Ok(0),
    }
}
