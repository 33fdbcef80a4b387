//! `report`: the history of a job as one self-contained HTML file.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::view::{Story, content, document, event_words};
use crate::{lookup, output, time};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::Event;
use pcm_proto::ids::JobId;
use pcm_proto::job::JobStatus;
use pcm_proto::series::Series;
use serde::{Deserialize, Serialize};
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

/// All data about the history of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    status: JobStatus,
    series: Series,
    events: Vec<Event>,
}

impl Told {
    pub(crate) async fn of(link: &mut Link, job: JobId) -> Result<Self, Failure> {
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
        Ok(Self { status, series, events })
    }

    /// Reads a file of `report --recording`.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
        serde_json::from_str(&text).map_err(|error| {
            let advice = "give a file that 'pcmctl report --recording' of this version wrote";
            Failure::usage(format!("{} is not a recording ({error}): {advice}", path.display()))
        })
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(|error| Failure::system(format!("the recording: {error}")))?;
        std::fs::write(path, text).map_err(|error| Failure::file("write", path, &error))
    }

    pub(crate) fn job(&self) -> JobId {
        self.status.job
    }

    /// The part of a document that tells it.
    pub(crate) fn content(self, now_us: u64) -> String {
        let lines: Vec<String> = self.events.iter().map(event_words).collect();
        content(&Story::new(self.status, &self.events, &self.series, now_us), &lines)
    }
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let told = Told::of(&mut link, job).await?;
    if let Some(path) = &args.recording {
        told.write(path)?;
    }
    let html = document(
        &format!("Job {job}"),
        &format!("<main>{}</main>", told.content(time::now_us())),
    );
    std::fs::write(&args.out, html).map_err(|error| Failure::file("write", &args.out, &error))?;
    output::print(&format!("{}\n", args.out.display()))?;
    Ok(0)
}
