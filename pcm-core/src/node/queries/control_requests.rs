//! Requests of `pcmctl`: each is answered by this daemon, by the node that it names, by the coordinator of its job,
//! or by all daemons together.

use crate::job::coordinator::Input;
use crate::node::event::LogsAnswer;
use crate::node::layout_request::LayoutAsked;
use crate::node::machine::Node;
use crate::node::outbox::{Effect, LogsEffect};
use crate::node::queries::addressee::{Addressee, addressee, coordinator_answers_within};
use crate::node::queries::{ANSWER_WITHIN, Wanted};
use crate::node::requester::{LinkId, Requester};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LogOf, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobState, JobStatus};
use pcm_proto::keeper::DaemonToKeeper;
use pcm_proto::peer::{CoordinatorToNode, Question};
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;
use std::time::Duration;

/// A node that does not report within this time is listed with its last report.
const NODES_WITHIN: Duration = Duration::from_millis(500);

/// Highest signal number Linux has.
const SIGNAL_MAX: i32 = 64;

impl Node {
    pub(in crate::node) fn on_control_lost(&mut self, link: LinkId, in_order: bool) {
        if let Some(job) = self.controls.on_lost(link) {
            self.on_audience_lost(job, link, in_order);
        }
    }

    pub(in crate::node) fn answer(&mut self, to: Requester, answer: DaemonToControl) {
        self.out.answer(to, answer);
    }

    fn refuse(&mut self, to: Requester, code: &str, message: impl Into<String>) {
        self.answer(to, DaemonToControl::Refused(Refusal::new(code, message)));
    }

    pub(in crate::node) fn on_control_said(&mut self, link: LinkId, request: ControlToDaemon) {
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
                self.queries.gather(
                    from,
                    Wanted::Nodes,
                    &Question::Report,
                    &nodes,
                    NODES_WITHIN,
                    &mut self.out,
                );
            }
            ControlToDaemon::Jobs => self.gather_jobs(from, &Question::Jobs),
            ControlToDaemon::JobsNamed { name } => self.gather_jobs(from, &Question::JobsNamed { name }),
            ControlToDaemon::Events { job, follow } => {
                let follower = follow.then_some(link);
                if follow {
                    self.controls.begin_to_follow(link, job);
                }
                self.gather_events(from, job, 0, follower);
            }
            ControlToDaemon::Down => self.on_down(from),
            request => self.on_addressed(from, request),
        }
    }

    fn gather_jobs(&mut self, from: Requester, question: &Question) {
        let (wanted, nodes) = (Wanted::Jobs(Vec::new()), self.all_nodes());
        self.queries
            .gather(from, wanted, question, &nodes, ANSWER_WITHIN, &mut self.out);
    }

    fn gather_events(&mut self, from: Requester, job: Option<JobId>, since_us: u64, follower: Option<LinkId>) {
        let events = Vec::new();
        let (wanted, nodes) = (Wanted::Events { events, follower }, self.all_nodes());
        let question = Question::Events { job, since_us };
        self.queries
            .gather(from, wanted, &question, &nodes, ANSWER_WITHIN, &mut self.out);
    }

    pub(in crate::node) fn on_follow_timer(&mut self, link: LinkId) {
        if let Some((job, since_us)) = self.controls.following(link) {
            self.gather_events(Requester::Control(link), job, since_us, Some(link));
        }
    }

    /// Requests for one node, or for the coordinator of one job.
    fn on_addressed(&mut self, from: Requester, request: ControlToDaemon) {
        let leads = |job| self.jobs.leads(job) || self.ended.find(job).is_some();
        match addressee(&request, &self.own, leads, |node| self.nodes.state(node)) {
            Addressee::Here => self.on_local_request(from, request),
            Addressee::Coordinator(job) => self.find_coordinator(from, job, request),
            Addressee::Refused(refusal) => self.answer(from, DaemonToControl::Refused(refusal)),
            Addressee::Node { node, .. } if matches!(request, ControlToDaemon::Ping { .. }) => {
                self.queries.ping(from, &node, &mut self.out);
            }
            Addressee::Node { node, within } => self.queries.forward(from, &node, request, within, &mut self.out),
        }
    }

    /// A request about a job that only its coordinator can answer, which is another daemon.
    fn find_coordinator(&mut self, from: Requester, job: JobId, request: ControlToDaemon) {
        let within = coordinator_answers_within(&request);
        let known = self.jobs.part(job).map(|part| part.coordinator());
        if let Some(coordinator) = known.filter(|coordinator| **coordinator != self.own) {
            return self.queries.forward(from, coordinator, request, within, &mut self.out);
        }
        let nodes = self.nodes.reachable();
        let question = Question::Control(Box::new(request));
        let wanted = Wanted::Knowing { job };
        self.queries
            .gather(from, wanted, &question, &nodes, within, &mut self.out);
    }

    /// Requests this daemon is the right one for.
    pub(in crate::node) fn on_local_request(&mut self, from: Requester, request: ControlToDaemon) {
        tracing::debug!(?from, request = %Shortened(&request), "answered here");
        match request {
            ControlToDaemon::Signal { job, signal } => self.on_signal_request(from, job, signal),
            ControlToDaemon::Kill { job } => {
                if !self.jobs.leads(job) {
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
                self.out.push(Effect::Logs(LogsEffect::Tail { from, of, lines }));
            }
            ControlToDaemon::LogLevels { of, levels, .. } => {
                self.out.push(Effect::Logs(LogsEffect::Levels { from, of, levels }));
            }
            ControlToDaemon::Join(spec) => self.on_join(from, spec),
            ControlToDaemon::Drain { deadline_ms, .. } => self.on_drain(from, deadline_ms),
            ControlToDaemon::Remove { .. } => self.on_remove(from),
            _ => self.refuse(from, refusal::NOT_SUPPORTED, "this request needs a link of its own"),
        }
    }

    /// The logs were read, or their levels changed.
    pub(in crate::node) fn on_logs_answer(&mut self, done: LogsAnswer) {
        match done.levels {
            Some((LogOf::Daemon, levels)) => self.out.keeper(DaemonToKeeper::Levels(levels)),
            Some((LogOf::Agent, levels)) => self.agent.set_levels(levels, &mut self.out),
            None => {}
        }
        self.answer(done.from, done.answer);
    }

    fn on_signal_request(&mut self, from: Requester, job: JobId, signal: i32) {
        if !(1..=SIGNAL_MAX).contains(&signal) {
            let message = format!("{signal} is no signal: `kill -l` lists them");
            return self.refuse(from, refusal::BAD_SIGNAL, message);
        }
        let Some(coordinator) = self.jobs.coordinator(job) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinator.active_nodes().cloned().collect();
        for node in nodes {
            self.send_job(&node, job, CoordinatorToNode::Signal { signal });
        }
        self.answer(from, DaemonToControl::Done);
    }

    fn on_remove(&mut self, from: Requester) {
        let ranks = self.report().ranks;
        let led = self.jobs.coordinators().count();
        if ranks > 0 || led > 0 {
            let message = format!(
                "node {} runs {ranks} ranks and coordinates {} jobs: wait for them to end or `pcmctl kill` them",
                self.own, led
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
    pub(in crate::node) fn own_jobs(&mut self) -> Vec<JobStatus> {
        let now_us = self.out.now().0;
        let ended: Vec<JobStatus> = self.ended.list(now_us).cloned().collect();
        let led = self.jobs.coordinators().map(|(_, coordinator)| coordinator.status());
        led.chain(ended).collect()
    }

    /// How a job coordinated here stands.
    pub(in crate::node) fn job_status(&self, job: JobId) -> Option<JobStatus> {
        let mut status = self.jobs.coordinator(job)?.status();
        let is_reforming = self.jobs.get(job).is_some_and(|known| known.machine.is_reconfiguring());
        if status.state == JobState::Running && is_reforming {
            status.state = JobState::Reconfiguring;
        }
        Some(status)
    }
}
