//! Links of `pcmctl` and what is asked over them. A request is answered by whoever is the right one for it: this
//! daemon, the node it names, the coordinator of its job, or all together.

use super::asks::{ANSWER_WITHIN, Purpose};
use super::daemon::Daemon;
use super::gather::Wanted;
use super::layout_requests::LayoutAsked;
use node_log::Shortened;
use pcm_core::job::coordinator::Input;
use pcm_core::node::requester::{LinkId, Requester};
use pcm_fabric::Sender;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState, Refusal};
use pcm_proto::event::Event;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobState, JobStatus};
use pcm_proto::peer::{Answer, CoordinatorToNode, DaemonToDaemon, Question};
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A node that joins is booted and has said that it is there within this time.
const JOIN_WITHIN: Duration = Duration::from_secs(15);

/// A change of layout has ended or was given up within this time: all its deadlines together.
pub(super) const LAYOUT_WITHIN: Duration = Duration::from_secs(400);

/// Highest signal number Linux has.
const SIGNAL_MAX: i32 = 64;

#[derive(Debug)]
struct Follow {
    job: Option<JobId>,
    /// Events up to here were told, but for stragglers of other nodes, which `told` sorts out.
    since_us: u64,
    told: BTreeSet<(u64, NodeName)>,
}

#[derive(Debug)]
struct Control {
    sender: Sender,
    attached: Option<JobId>,
    follow: Option<Follow>,
}

/// All links of `pcmctl`.
#[derive(Debug, Default)]
pub(super) struct Controls {
    links: BTreeMap<LinkId, Control>,
}

/// Clocks of nodes and delays of their answers may differ by so much without an event being missed.
const FOLLOW_OVERLAP_US: u64 = 2_000_000;

impl Controls {
    pub(super) fn attach(&mut self, link: LinkId, job: JobId) {
        if let Some(control) = self.links.get_mut(&link) {
            control.attached = Some(job);
        }
    }

    pub(super) fn detach(&mut self, link: LinkId) {
        if let Some(control) = self.links.get_mut(&link) {
            control.attached = None;
        }
    }

    pub(super) fn attached_to(&self, job: JobId) -> Option<LinkId> {
        self.links
            .iter()
            .find(|(_, control)| control.attached == Some(job))
            .map(|(link, _)| *link)
    }

    fn attached(&self, link: LinkId) -> Option<JobId> {
        self.links.get(&link)?.attached
    }

    /// The job and time a follower wants events of.
    pub(super) fn following(&self, link: LinkId) -> Option<(Option<JobId>, u64)> {
        let follow = self.links.get(&link)?.follow.as_ref()?;
        Some((follow.job, follow.since_us.saturating_sub(FOLLOW_OVERLAP_US)))
    }

    /// Of these events, those the follower was not told yet.
    pub(super) fn follow(&mut self, link: LinkId, events: &[Event]) -> Vec<Event> {
        let Some(follow) = self.links.get_mut(&link).and_then(|control| control.follow.as_mut()) else {
            return Vec::new();
        };
        let mut fresh = Vec::new();
        for event in events {
            if follow.told.insert((event.time_us, event.node.clone())) {
                follow.since_us = follow.since_us.max(event.time_us);
                fresh.push(event.clone());
            }
        }
        let oldest = follow.since_us.saturating_sub(2 * FOLLOW_OVERLAP_US);
        follow.told.retain(|(time_us, _)| *time_us >= oldest);
        fresh
    }

    /// Sends an answer. A `pcmctl` that does not take its answers loses its link.
    pub(super) fn tell(&self, link: LinkId, answer: &DaemonToControl) {
        let Some(control) = self.links.get(&link) else { return };
        if let Err(error) = control.sender.try_send(answer) {
            tracing::warn!(?link, %error, "an answer was not sent, the link is dropped");
            control.sender.abort();
        }
    }

    pub(super) fn take_senders(&mut self) -> Vec<Sender> {
        std::mem::take(&mut self.links)
            .into_values()
            .map(|control| control.sender)
            .collect()
    }
}

impl Daemon {
    pub(super) fn on_control_linked(&mut self, link: LinkId, sender: Sender) {
        self.controls.links.insert(
            link,
            Control {
                sender,
                attached: None,
                follow: None,
            },
        );
    }

    pub(super) fn on_control_lost(&mut self, link: LinkId, in_order: bool) {
        if let Some(Control {
            attached: Some(job), ..
        }) = self.controls.links.remove(&link)
        {
            self.on_audience_lost(job, link, in_order);
        }
    }

    /// Answers whoever asked. A `pcmctl` that does not take its answers loses its link.
    pub(super) fn answer(&mut self, to: Requester, answer: DaemonToControl) {
        match to {
            Requester::Control(link) => {
                self.out.control(link, answer);
            }
            Requester::Agent { number } => self.answer_agent(number, answer),
            Requester::Nobody => {}
            Requester::Peer { node, ask } => {
                let answer = Box::new(Answer::Control(Box::new(answer)));
                self.send(&node, DaemonToDaemon::Answer { ask, answer });
            }
        }
    }

    fn refuse(&mut self, to: Requester, code: &str, message: impl Into<String>) {
        self.answer(to, DaemonToControl::Refused(Refusal::new(code, message)));
    }

    pub(super) fn on_control_said(&mut self, link: LinkId, request: ControlToDaemon) {
        let from = Requester::Control(link);
        tracing::debug!(?link, request = %Shortened(&request));
        match request {
            ControlToDaemon::Run(spec) => self.on_run(from, *spec),
            ControlToDaemon::Attach { job, received } => self.on_attach(from, job, received),
            ControlToDaemon::Stdin(bytes) => {
                if let Some(job) = self.controls.attached(link) {
                    self.on_stdin(job, bytes);
                }
            }
            ControlToDaemon::OutputTaken { process, stream, bytes } => {
                if let Some(job) = self.controls.attached(link) {
                    self.on_output_taken(job, process, stream, bytes);
                }
            }
            ControlToDaemon::Nodes => {
                let nodes = self.nodes.reachable();
                self.gather(
                    from,
                    Wanted::Nodes,
                    &Question::Report,
                    nodes,
                    Duration::from_millis(500),
                );
            }
            ControlToDaemon::Jobs => {
                let mut nodes = self.nodes.reachable();
                nodes.push(self.own.clone());
                self.gather(from, Wanted::Jobs(Vec::new()), &Question::Jobs, nodes, ANSWER_WITHIN);
            }
            ControlToDaemon::Events { job, follow } => {
                let follower = follow.then_some(link);
                if let Some(control) = self.controls.links.get_mut(&link).filter(|_| follow) {
                    control.follow = Some(Follow {
                        job,
                        since_us: 0,
                        told: BTreeSet::new(),
                    });
                }
                self.gather_events(from, job, 0, follower);
            }
            ControlToDaemon::Down => self.on_down(from),
            request => self.on_addressed(from, request),
        }
    }

    /// Requests for one node, or for the coordinator of one job.
    fn on_addressed(&mut self, from: Requester, request: ControlToDaemon) {
        let node = match &request {
            ControlToDaemon::Signal { job, .. }
            | ControlToDaemon::Kill { job }
            | ControlToDaemon::Reconfigure { job, .. }
            | ControlToDaemon::Ps { job }
            | ControlToDaemon::Checkpoint { job, .. }
            | ControlToDaemon::Look { job }
            | ControlToDaemon::Trace { job, .. }
            | ControlToDaemon::Series { job } => {
                if !self.jobs.contains_key(job) && self.ended.find(*job).is_none() {
                    let job = *job;
                    return self.find_coordinator(from, job, request);
                }
                None
            }
            ControlToDaemon::Ping { node }
            | ControlToDaemon::Logs { node, .. }
            | ControlToDaemon::LogLevels { node, .. } => node.clone(),
            ControlToDaemon::Drain { node, .. } | ControlToDaemon::Remove { node } => Some(node.clone()),
            _ => None,
        };
        let Some(node) = node.filter(|node| *node != self.own) else {
            return self.on_local_request(from, request);
        };
        match self.nodes.state(&node) {
            None => {
                let message = format!("node {node} is not part of the cluster: `pcmctl nodes` lists those that are");
                self.refuse(from, refusal::UNKNOWN_NODE, message);
            }
            Some(NodeState::Gone) => {
                let message = format!("node {node} is gone: see `pcmctl nodes`");
                self.refuse(from, refusal::NODE_UNREACHABLE, message);
            }
            Some(_) if matches!(request, ControlToDaemon::Ping { .. }) => {
                let purpose = Purpose::Ping {
                    from,
                    since: Instant::now(),
                };
                self.ask(&node, Question::Ping, purpose, ANSWER_WITHIN);
            }
            Some(_) => {
                let within = if matches!(request, ControlToDaemon::Drain { .. }) {
                    LAYOUT_WITHIN
                } else {
                    JOIN_WITHIN
                };
                self.forward(from, &node, request, within);
            }
        }
    }

    /// Requests this daemon is the right one for.
    pub(super) fn on_local_request(&mut self, from: Requester, request: ControlToDaemon) {
        tracing::debug!(?from, request = %Shortened(&request), "answered here");
        match request {
            ControlToDaemon::Signal { job, signal } => self.on_signal_request(from, job, signal),
            ControlToDaemon::Kill { job } => {
                if !self.jobs.contains_key(&job) {
                    return self.refuse_unknown_job(from, job);
                }
                if matches!(from, Requester::Control(link) if self.controls.attached(link) == Some(job)) {
                    // Who ends its own job does not wait for the output it has stopped to take.
                    self.discard_output(job);
                }
                let reason = "it was ended by `pcmctl kill`".to_owned();
                self.coordinate(job, Input::End { code: 137, reason });
                self.answer(from, DaemonToControl::Done);
            }
            ControlToDaemon::Ps { job } => self.gather_ps(from, job),
            ControlToDaemon::Look { job } => self.gather_looks(from, job),
            ControlToDaemon::Series { job } => self.answer_series(from, job),
            ControlToDaemon::Checkpoint { job, into } => self.on_checkpoint_request(from, job, into),
            ControlToDaemon::Trace { job, after, is_last } => self.gather_traces(from, job, after, is_last),
            ControlToDaemon::Reconfigure {
                job,
                change,
                mode,
                cause,
                method,
            } => {
                self.on_reconfigure(
                    from,
                    LayoutAsked {
                        job,
                        change,
                        mode,
                        cause,
                        method,
                    },
                );
            }
            ControlToDaemon::Ping { .. } => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let node = self.own.clone();
                self.answer(
                    from,
                    DaemonToControl::Pong {
                        node,
                        round_trip_us: 0,
                        version,
                    },
                );
            }
            ControlToDaemon::Logs { of, lines, .. } => {
                let log = super::logs::last_lines(&super::logs::path(&self.spec.cluster_dir, &self.own, of), lines);
                self.answer(from, DaemonToControl::Logs(log));
            }
            ControlToDaemon::LogLevels { of, levels, .. } => {
                let answer = match self.change_levels(of, &levels) {
                    Ok(levels) => DaemonToControl::Logs(levels),
                    Err(error) => DaemonToControl::Refused(Refusal::new(refusal::BAD_LEVELS, error.to_string())),
                };
                self.answer(from, answer);
            }
            ControlToDaemon::Join(spec) => self.on_join(from, spec),
            ControlToDaemon::Drain { deadline_ms, .. } => self.on_drain(from, deadline_ms),
            ControlToDaemon::Remove { .. } => self.on_remove(from),
            _ => self.refuse(from, refusal::NOT_SUPPORTED, "this request needs a link of its own"),
        }
    }

    fn on_signal_request(&mut self, from: Requester, job: JobId, signal: i32) {
        if !(1..=SIGNAL_MAX).contains(&signal) {
            let message = format!("{signal} is no signal: `kill -l` lists them");
            return self.refuse(from, refusal::BAD_SIGNAL, message);
        }
        let Some(coordinated) = self.jobs.get(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinated.state.active_nodes().cloned().collect();
        for node in nodes {
            self.send_job(&node, job, CoordinatorToNode::Signal { signal });
        }
        self.answer(from, DaemonToControl::Done);
    }

    fn on_remove(&mut self, from: Requester) {
        let ranks = self.report().ranks;
        if ranks > 0 || !self.jobs.is_empty() {
            let message = format!(
                "node {} runs {ranks} ranks and coordinates {} jobs: wait for them to end or `pcmctl kill` them",
                self.own,
                self.jobs.len()
            );
            return self.refuse(from, refusal::NODE_BUSY, message);
        }
        if self.nodes.reachable().is_empty() {
            let message = format!("node {} is the last one: `pcmctl down` ends the cluster", self.own);
            return self.refuse(from, refusal::LAST_NODE, message);
        }
        self.answer(from, DaemonToControl::Done);
        self.leave();
    }

    /// Jobs this daemon coordinates or remembers.
    pub(super) fn own_jobs(&mut self) -> Vec<JobStatus> {
        let now_us = self.out.now().0;
        let ended: Vec<JobStatus> = self.ended.list(now_us).cloned().collect();
        self.jobs.values().map(|job| job.state.status()).chain(ended).collect()
    }

    /// How a job coordinated here stands.
    pub(super) fn job_status(&self, job: JobId) -> Option<JobStatus> {
        let mut status = self.jobs.get(&job)?.state.status();
        let is_reforming = self.parts.get(&job).is_some_and(|part| part.reforming.is_under_way());
        if status.state == JobState::Running && is_reforming {
            status.state = JobState::Reconfiguring;
        }
        Some(status)
    }
}
