//! `dashboard`: a page in the browser that shows and controls a running job.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::verbs::report::Told;
use crate::{dashboard, lookup, output};
use dashboard::Source;
use std::path::PathBuf;

const EXAMPLE: &str = "\
The printed address contains a token, which permits control of the job. The page is served on loopback only; use
'ssh -L PORT:127.0.0.1:PORT HOST' from another machine. Ctrl-C ends it.

Example:
  pcmctl dashboard
  pcmctl dashboard 3 --port 8000
  pcmctl report 3 --out r.html --recording r.json; pcmctl dashboard --recording r.json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name [default: the newest running one]
    job: Option<String>,
    /// Show a file of 'pcmctl report --recording', without a cluster; read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    recording: Option<PathBuf>,
    /// The port [default: the system chooses]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    // A missing job is reported before the page is served.
    let source = match &args.recording {
        Some(path) => {
            Told::read(path)?;
            Source::Recording(path.clone())
        }
        None => {
            let mut link = Link::open(cluster).await?;
            let job = match &args.job {
                Some(text) => Some(lookup::job(&mut link, text).await?),
                None => None,
            };
            let cluster = cluster.clone();
            Source::Live { cluster, job }
        }
    };
    let ready = |address: &str| output::print(&format!("{address}\n"));
    tokio::select! {
        served = dashboard::serve(source, args.port, ready) => served.map(|()| 0),
        _ = tokio::signal::ctrl_c() => Ok(0),
    }
}
