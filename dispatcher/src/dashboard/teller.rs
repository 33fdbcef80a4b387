//! Asks the daemon again and again and renders what it says; whoever looks gets the newest rendering. Goes on when a
//! daemon goes away, and says so.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{self, ASK_DEADLINE, Link};
use crate::verbs::report::Told;
use crate::view::escape;
use crate::{lookup, time};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::JobId;
use pcm_proto::job::JobState;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A migration is to be seen within a second of its event.
const EVERY: Duration = Duration::from_millis(400);

/// What the page is sent.
#[derive(Debug, Serialize)]
struct Telling {
    job: Option<u64>,
    nodes: Vec<String>,
    html: String,
}

/// Tells of `wanted`, or of the newest running job, until nobody can hear it any more.
pub(super) async fn tell(cluster: ClusterDir, wanted: Option<JobId>, told: watch::Sender<Arc<str>>) {
    let mut link = None;
    while !told.is_closed() {
        // Nobody looks: nobody is asked.
        if told.receiver_count() > 1 {
            let text = match look(&cluster, &mut link, wanted).await {
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
        tokio::time::sleep(EVERY).await;
    }
}

async fn look(cluster: &ClusterDir, link: &mut Option<Link>, wanted: Option<JobId>) -> Result<Telling, Failure> {
    let link = match link {
        Some(link) => link,
        None => link.insert(Link::open(cluster).await?),
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
