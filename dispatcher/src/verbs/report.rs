//! `report`: the history of a job as one self-contained HTML file.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::JobId;
use pcm_view::report::Recording;
use pcm_view::time::now_us;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example:
  pcmctl report 1 --out report.html";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name; it may have ended within the last hour
    job: String,
    /// The HTML file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the data of the report as JSON, for 'pcmctl dashboard --recording'
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
}

/// Asks a daemon for all that it knows of a job.
pub(crate) async fn recording_of(link: &mut Link, job: JobId) -> Result<Recording, Failure> {
    let (status, series) = match link.ask(ControlToDaemon::Series { job }, ASK_DEADLINE).await? {
        DaemonToControl::Series { status, series } => (status, *series),
        other => return Err(Failure::unexpected("Series", &other)),
    };
    let request = ControlToDaemon::Events {
        job: Some(job),
        follow: false,
    };
    let events = match link.ask(request, ASK_DEADLINE).await? {
        DaemonToControl::Events(events) => events,
        other => return Err(Failure::unexpected("Events", &other)),
    };
    Ok(Recording { status, series, events })
}

/// What `report --recording` wrote.
pub(crate) fn read_recording(path: &Path) -> Result<Recording, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
    serde_json::from_str(&text).map_err(|error| {
        let advice = "give a file that 'pcmctl report --recording' of this version wrote";
        Failure::usage(format!("{} is no recording ({error}): {advice}", path.display()))
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::file("write", path, &error))
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let recording = recording_of(&mut link, job).await?;
    if let Some(path) = &args.recording {
        let text = serde_json::to_string(&recording);
        let text = text.map_err(|error| Failure::system(format!("the recording: {error}")))?;
        write(path, &text)?;
    }
    write(&args.out, &recording.report(now_us()))?;
    output::print(&format!("{}\n", args.out.display()))?;
    Ok(0)
}
