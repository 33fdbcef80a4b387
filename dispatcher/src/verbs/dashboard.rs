//! `dashboard`: a page in the browser that shows and controls a running job.

use super::report;
use crate::cluster::ClusterDir;
use crate::commands::Order;
use crate::failure::Failure;
use crate::link::{self, ASK_DEADLINE, Link};
use crate::plan::{self, Held, Planned};
use crate::{courtesy, lookup, metrics, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::EventKind;
use pcm_proto::ids::JobId;
use pcm_proto::job::{JobState, JobStatus};
use pcm_view::dashboard::{Drawn, Format, Plan, RunningJob, Server, Shown, Source, alert, cluster};
use pcm_view::time::now_us;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::Mutex;

const EXAMPLE: &str = "\
The printed address contains a token, which permits control of the job. The page is served on loopback only; use
'ssh -L PORT:127.0.0.1:PORT HOST' from another machine. Ctrl-C ends it.

Example:
  pcmctl dashboard
  pcmctl dashboard 3 --port 8000
  pcmctl report 3 --out r.html --recording r.json; pcmctl dashboard --recording r.json";

/// Ranks of all jobs together that are drawn one by one.
const RANKS_SHOWN_MAX: u32 = 4096;

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
    // A missing recording or job is reported before the page has an address.
    let source = match args.recording {
        Some(path) => {
            report::read_recording(&path)?;
            PageSource::Recording(path)
        }
        None => {
            let mut link = Link::open(cluster).await?;
            let job = match &args.job {
                Some(text) => Some(lookup::job(&mut link, text).await?),
                None => None,
            };
            PageSource::Live {
                cluster: cluster.clone(),
                chosen: job,
                link: Mutex::new(None),
            }
        }
    };
    courtesy::give_way();
    let server = Server::bind(args.port).await;
    let server = server.map_err(|error| Failure::system(error.to_string()))?;
    output::print(&format!("{}\n", server.address()))?;
    tokio::select! {
        () = server.run(source) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(0)
}

/// Where the page has it from.
enum PageSource {
    /// A cluster, and the job of pages that choose none; without it, the newest that runs. The link is that of the
    /// looks.
    Live {
        cluster: ClusterDir,
        chosen: Option<JobId>,
        link: Mutex<Option<Box<Link>>>,
    },
    /// A file that `report` wrote.
    Recording(PathBuf),
}

impl PageSource {
    async fn new_link(&self) -> Result<Link, Failure> {
        match self {
            Self::Live { cluster, .. } => Link::open(cluster).await,
            Self::Recording(_) => Err(Failure::usage(
                "this page shows a recording: steer the job itself with 'pcmctl dashboard' or the other verbs",
            )),
        }
    }

    async fn show(&self, job: Option<JobId>) -> Result<Shown, Failure> {
        let (cluster, wanted, link) = match self {
            Self::Live { cluster, chosen, link } => (cluster, job.or(*chosen), link),
            Self::Recording(path) => {
                let recording = report::read_recording(path)?;
                return Ok(Shown {
                    job: Some(recording.job().0),
                    nodes: Vec::new(),
                    cluster: Drawn::default(),
                    html: recording.content(now_us()),
                });
            }
        };
        let mut kept = link.lock().await;
        let mut link = match kept.take() {
            Some(link) => link,
            None => Box::new(Link::open(cluster).await?),
        };
        let shown = show_job(&mut link, wanted).await;
        if !shown.as_ref().is_err_and(link::is_lost) {
            *kept = Some(link);
        }
        shown
    }
}

async fn show_job(link: &mut Link, wanted: Option<JobId>) -> Result<Shown, Failure> {
    let nodes = match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => nodes,
        other => return Err(Failure::unexpected("Nodes", &other)),
    };
    let all = lookup::jobs(link).await?;
    let running = all.iter().rev().find(|job| job.state != JobState::Ended);
    let newest = running.or(all.last()).map(|job| job.job);
    let job = wanted.or(newest);
    let jobs = running_jobs(link, all).await?;
    let html = match job {
        Some(job) => match report::recording_of(link, job).await {
            Ok(recording) => recording.content(now_us()),
            // The cluster is there, whatever became of the job.
            Err(failure) if !link::is_lost(&failure) => alert(&failure.message),
            Err(failure) => return Err(failure),
        },
        None => "<p>No job yet: start one with pcmctl run.</p>".to_owned(),
    };
    Ok(Shown {
        job: job.map(|job| job.0),
        cluster: cluster(&nodes, &jobs, job),
        nodes: nodes.into_iter().map(|node| node.name.to_string()).collect(),
        html,
    })
}

/// The jobs that run with their ranks; of those beyond the limit only how many each node has.
async fn running_jobs(link: &mut Link, all: Vec<JobStatus>) -> Result<Vec<RunningJob>, Failure> {
    let (mut jobs, mut known) = (Vec::new(), 0);
    for status in all.into_iter().filter(|job| job.state != JobState::Ended) {
        known += status.size;
        let job = status.job;
        let ranks = match known <= RANKS_SHOWN_MAX {
            true => match link.ask(ControlToDaemon::Ps { job }, ASK_DEADLINE).await {
                Ok(DaemonToControl::Ps { ranks, .. }) => ranks,
                // It has ended meanwhile.
                Err(failure) if !link::is_lost(&failure) => Vec::new(),
                Err(failure) => return Err(failure),
                Ok(other) => return Err(Failure::unexpected("Ps", &other)),
            },
            false => Vec::new(),
        };
        jobs.push(RunningJob { status, ranks });
    }
    Ok(jobs)
}

/// The changes that a job has made, the oldest first.
async fn held(link: &mut Link, job: JobId) -> Result<Vec<Held>, Failure> {
    let (job, follow) = (Some(job), false);
    match link.ask(ControlToDaemon::Events { job, follow }, ASK_DEADLINE).await? {
        DaemonToControl::Events(events) => Ok(events
            .into_iter()
            .filter_map(|event| match event.kind {
                EventKind::Reconfigured(done) => Some(Held {
                    plan: done.plan,
                    pause_ms: done.pause_ms,
                }),
                _ => None,
            })
            .collect()),
        other => Err(Failure::unexpected("Events", &other)),
    }
}

fn understood(order: &[u8]) -> Result<Order, Failure> {
    serde_json::from_slice(order)
        .map_err(|error| Failure::usage(format!("the page sent an order that is not understood: {error}")))
}

impl Source for PageSource {
    async fn look(&self, job: Option<JobId>) -> Result<Shown, String> {
        self.show(job).await.map_err(|failure| failure.message)
    }

    async fn metrics(&self, format: Format) -> Result<String, String> {
        let numbers = async { metrics::gather(&mut self.new_link().await?, format).await };
        numbers.await.map_err(|failure: Failure| failure.message)
    }

    async fn plan(&self, order: &[u8]) -> Result<Plan, String> {
        let planned = async {
            let order = understood(order)?;
            let mut link = self.new_link().await?;
            let all = lookup::jobs(&mut link).await?;
            let jobs = running_jobs(&mut link, all).await?;
            let mut changes = BTreeMap::new();
            for job in plan::jobs_of(&order, &jobs) {
                changes.insert(job, held(&mut link, job).await?);
            }
            let Planned { text, undo } = plan::plan(&order, &jobs, &changes)?;
            let undo = undo.and_then(|order| serde_json::to_value(order).ok());
            Ok(Plan { text, undo })
        };
        planned.await.map_err(|failure: Failure| failure.message)
    }

    async fn carry_out(&self, order: &[u8]) -> Result<String, String> {
        let done = async {
            understood(order)?
                .carry_out(&mut self.new_link().await?, "dashboard")
                .await
        };
        done.await.map_err(|failure: Failure| failure.message)
    }
}
