//! Asks for all that the numbers are made of.

use super::text::{JobSeen, Seen, write};
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::lookup;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::{Event, EventKind};
use pcm_proto::ids::JobId;
use pcm_proto::job::JobState;
use pcm_proto::refusal::{JOB_ENDED, UNKNOWN_JOB};
use pcm_view::dashboard::Format;

/// The numbers of this moment, as text.
pub(crate) async fn gather(link: &mut Link, format: Format) -> Result<String, Failure> {
    let nodes = match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => nodes,
        other => return Err(Failure::unexpected("Nodes", &other)),
    };
    let request = ControlToDaemon::Events {
        job: None,
        follow: false,
    };
    let events = match link.ask(request, ASK_DEADLINE).await? {
        DaemonToControl::Events(events) => events,
        other => return Err(Failure::unexpected("Events", &other)),
    };
    let mut jobs = Vec::new();
    for status in lookup::jobs(link).await? {
        if status.state == JobState::Ended {
            continue;
        }
        let (status, ranks) = match link.ask(ControlToDaemon::Ps { job: status.job }, ASK_DEADLINE).await {
            Ok(DaemonToControl::Ps { status, ranks }) => (status, ranks),
            Ok(other) => return Err(Failure::unexpected("Ps", &other)),
            // It ended a moment ago.
            Err(failure) if [JOB_ENDED, UNKNOWN_JOB].contains(&failure.code.as_str()) => continue,
            Err(failure) => return Err(failure),
        };
        let changes = changes_of(&events, status.job);
        jobs.push(JobSeen { status, ranks, changes });
    }
    Ok(write(&Seen { nodes, jobs }, format))
}

fn changes_of(events: &[Event], job: JobId) -> Vec<pcm_proto::event::Reconfigured> {
    let of_job = events.iter().filter(|event| event.job == Some(job));
    let done = of_job.filter_map(|event| match &event.kind {
        EventKind::Reconfigured(done) => Some((**done).clone()),
        _ => None,
    });
    done.collect()
}
