//! `checkpoint`: makes a checkpoint of a running job in the memory of its nodes, with `--dir` also in files.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{commands, lookup, output};
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than the daemon's own limits.
const MADE_WITHIN: Duration = Duration::from_secs(65);
const FILED_WITHIN: Duration = Duration::from_secs(605);
/// A wait of this length is explained.
const SAID_AFTER: Duration = Duration::from_secs(2);

const EXAMPLE: &str = "\
The checkpoint is in the memory of the job's nodes, each part on two nodes, until the next one replaces it. With --dir
it is also written into files in that directory, which all nodes must share; the files stay.

Example:
  pcmctl checkpoint 3
  pcmctl checkpoint heat --dir /shared/kept
  pcmctl checkpoint heat --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job's number or name
    job: String,
    /// Also write it into files in this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let within = if args.dir.is_some() { FILED_WITHIN } else { MADE_WITHIN };
    let into = args.dir.as_deref().map(directory).transpose()?;
    let asked = link.ask(ControlToDaemon::Checkpoint { job, into }, within);
    tokio::pin!(asked);
    let answer = match tokio::time::timeout(SAID_AFTER, &mut asked).await {
        Ok(answer) => answer?,
        Err(_) => {
            let within = within.as_secs();
            output::tell(format_args!(
                "job {job} makes its checkpoint when its ranks next call pcm_iterate: this waits up to {within} s"
            ));
            asked.await?
        }
    };
    match answer {
        DaemonToControl::Checkpointed {
            iteration,
            ranks,
            bytes,
            held_ms,
            directory,
        } if args.json => output::print_json(&serde_json::json!({
            "job": job, "iteration": iteration, "ranks": ranks, "bytes": bytes, "held_ms": held_ms,
            "directory": directory.map(|path| String::from_utf8_lossy(&path).into_owned())
        }))?,
        made @ DaemonToControl::Checkpointed { .. } => {
            output::print(&format!("job {job}: {}\n", commands::outcome_words(&made)))?;
        }
        other => return Err(Failure::unexpected("Checkpoint", &other)),
    }
    Ok(0)
}

/// The absolute path, because the ranks may run in another directory.
fn directory(path: &Path) -> Result<IntoFiles, Failure> {
    let path = std::path::absolute(path).map_err(|error| Failure::file("find", path, &error))?;
    Ok(IntoFiles::Directory(path.as_os_str().as_bytes().to_vec()))
}
