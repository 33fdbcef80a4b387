//! Asks the daemon again and again and renders what it says; whoever looks gets the newest rendering. Goes on when a
//! daemon goes away, and says so.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{self, ASK_DEADLINE, Link};
use crate::verbs::report::Told;
use crate::view::escape;
use crate::{lookup, metrics, time};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::JobId;
use pcm_proto::job::JobState;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A migration is to be seen within a second of its event.
const EVERY: Duration = Duration::from_millis(400);
/// Who comes is to see something at once.
const NEWCOMERS_EVERY: Duration = Duration::from_millis(20);

/// Where the page has it from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A cluster; of no job in particular the newest that runs.
    Live { cluster: ClusterDir, job: Option<JobId> },
    /// A file that `report` wrote.
    Recording(PathBuf),
}

impl Source {
    pub(super) async fn link(&self) -> Result<Link, Failure> {
        match self {
            Self::Live { cluster, .. } => Link::open(cluster).await,
            Self::Recording(_) => Err(Failure::usage(
                "this page shows a recording: steer the job itself with 'pcmctl dashboard' or the other verbs",
            )),
        }
    }

    pub(super) async fn metrics(&self) -> Result<String, Failure> {
        metrics::gather(&mut self.link().await?).await
    }
}

/// What the page is sent.
#[derive(Debug, Serialize)]
struct Telling {
    job: Option<u64>,
    nodes: Vec<String>,
    html: String,
}

/// Tells until nobody can hear it any more.
pub(super) async fn tell(source: Source, told: watch::Sender<Arc<str>>) {
    let mut link = None;
    while !told.is_closed() {
        // Nobody looks: nobody is asked.
        let is_watched = told.receiver_count() > 1;
        if is_watched {
            let look = match &source {
                Source::Live { job, .. } => look(&source, &mut link, *job).await,
                Source::Recording(path) => Told::read(path).map(recorded),
            };
            let text = match look {
                Ok(telling) => telling,
                Err(failure) => {
                    if link::is_lost(&failure) {
                        link = None;
                    }
                    Telling {
                        job: None,
                        nodes: Vec::new(),
                        html: format!("<p role=\"alert\">{}</p>", escape(&failure.message)),
                    }
                }
            };
            let text = serde_json::to_string(&text).unwrap_or_default();
            told.send_if_modified(|before| {
                let is_new = **before != *text;
                if is_new {
                    *before = text.into();
                }
                is_new
            });
        }
        tokio::time::sleep(if is_watched { EVERY } else { NEWCOMERS_EVERY }).await;
    }
}

fn recorded(told: Told) -> Telling {
    Telling {
        job: Some(told.job().0),
        nodes: Vec::new(),
        html: told.content(time::now_us()),
    }
}

async fn look(source: &Source, link: &mut Option<Link>, wanted: Option<JobId>) -> Result<Telling, Failure> {
    let link = match link {
        Some(link) => link,
        None => link.insert(source.link().await?),
    };
    let nodes = match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => nodes,
        other => return Err(Failure::unexpected("Nodes", &other)),
    };
    let job = match wanted {
        Some(job) => Some(job),
        None => {
            let jobs = lookup::jobs(link).await?;
            let running = jobs.iter().rev().find(|job| job.state != JobState::Ended);
            running.or(jobs.last()).map(|job| job.job)
        }
    };
    let html = match job {
        Some(job) => Told::of(link, job).await?.content(time::now_us()),
        None => "<p>No job yet: start one with pcmctl run.</p>".to_owned(),
    };
    Ok(Telling {
        job: job.map(|job| job.0),
        nodes: nodes.into_iter().map(|node| node.name.to_string()).collect(),
        html,
    })
}
