//! Requests of `pcmctl`: each is answered by this daemon, by the node that it names, by the coordinator of its job,
//! or by all daemons together.

use crate::node::event::LogsAnswer;
use crate::node::layout_request::LayoutAsked;
use crate::node::machine::Node;
use crate::node::outbox::{Effect, LogsEffect};
use crate::node::queries::addressee::{Addressee, addressee, coordinator_answers_within};
use crate::node::queries::{ANSWER_WITHIN, Wanted};
use crate::node::requester::{LinkId, Requester};
use pcm_proto::boot::NodeSpec;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LogOf, NodeState, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::DaemonToKeeper;
use pcm_proto::peer::Question;
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;
use std::time::Duration;

/// A node that does not report within this time is listed with its last report.
const NODES_WITHIN: Duration = Duration::from_millis(500);

/// Highest signal number Linux has.
const SIGNAL_MAX: i32 = 64;

impl Node {
    fn refuse(&mut self, to: Requester, code: &str, message: impl Into<String>) {
        self.out
            .answer(to, DaemonToControl::Refused(Refusal::new(code, message)));
    }

    pub(in crate::node) fn on_control_said(&mut self, link: LinkId, request: ControlToDaemon) {
        let from = Requester::Control(link);
        tracing::debug!(?link, request = %Shortened(&request));
        match request {
            ControlToDaemon::Run(spec) => self.on_run(from, *spec),
            ControlToDaemon::Attach { job, received } => {
                self.with_jobs(|jobs, cx| jobs.on_attach(from, job, received, cx));
            }
            ControlToDaemon::Stdin(bytes) => self.with_jobs(|jobs, cx| jobs.on_stdin(link, bytes, cx)),
            ControlToDaemon::OutputTaken { process, stream, bytes } => {
                self.with_jobs(|jobs, cx| jobs.on_output_taken(link, (process, stream, bytes), cx));
            }
            ControlToDaemon::Nodes => {
                let nodes = self.cluster.nodes().reachable();
                self.gather(from, Wanted::Nodes, &Question::Report, &nodes, NODES_WITHIN);
            }
            ControlToDaemon::Jobs => self.gather_jobs(from, &Question::Jobs),
            ControlToDaemon::JobsNamed { name } => self.gather_jobs(from, &Question::JobsNamed { name }),
            ControlToDaemon::Events { job, follow } => {
                let follower = follow.then_some(link);
                if follow {
                    self.desk.controls.begin_to_follow(link, job);
                }
                self.gather_events(from, job, 0, follower);
            }
            ControlToDaemon::Down => self.with_ending(|ending, _, cx| ending.on_down(from, cx)),
            request => self.on_addressed(from, request),
        }
    }

    fn gather_jobs(&mut self, from: Requester, question: &Question) {
        let (wanted, nodes) = (Wanted::Jobs(Vec::new()), self.cluster.all_nodes());
        self.gather(from, wanted, question, &nodes, ANSWER_WITHIN);
    }

    fn gather_events(&mut self, from: Requester, job: Option<JobId>, since_us: u64, follower: Option<LinkId>) {
        let events = Vec::new();
        let (wanted, nodes) = (Wanted::Events { events, follower }, self.cluster.all_nodes());
        let question = Question::Events { job, since_us };
        self.gather(from, wanted, &question, &nodes, ANSWER_WITHIN);
    }

    pub(in crate::node) fn on_follow_timer(&mut self, link: LinkId) {
        if let Some((job, since_us)) = self.desk.controls.following(link) {
            self.gather_events(Requester::Control(link), job, since_us, Some(link));
        }
    }

    /// Requests for one node, or for the coordinator of one job.
    fn on_addressed(&mut self, from: Requester, request: ControlToDaemon) {
        let leads = |job| self.jobs.table.leads(job) || self.jobs.ended(job).is_some();
        let state = |node: &NodeName| self.cluster.nodes().state(node);
        match addressee(&request, &self.settings.own, leads, state) {
            Addressee::Here => self.on_local_request(from, request),
            Addressee::Coordinator(job) => self.find_coordinator(from, job, request),
            Addressee::Refused(refusal) => self.out.answer(from, DaemonToControl::Refused(refusal)),
            Addressee::Node { node, .. } if matches!(request, ControlToDaemon::Ping { .. }) => {
                self.desk.queries.ping(from, &node, &mut self.out);
            }
            Addressee::Node { node, within } => {
                self.desk.queries.forward(from, &node, request, within, &mut self.out);
            }
        }
    }

    /// A request about a job that only its coordinator can answer, which is another daemon.
    fn find_coordinator(&mut self, from: Requester, job: JobId, request: ControlToDaemon) {
        let within = coordinator_answers_within(&request);
        let known = self.jobs.table.part(job).map(|part| part.coordinator());
        // In place of one that is gone another may lead the job.
        let may_answer = |node: &&NodeName| **node != self.settings.own && self.cluster.may_answer(node);
        if let Some(coordinator) = known.filter(may_answer) {
            let queries = &mut self.desk.queries;
            return queries.forward(from, coordinator, request, within, &mut self.out);
        }
        let nodes = self.cluster.nodes().reachable();
        let question = Question::Control(Box::new(request));
        self.gather(from, Wanted::Knowing { job }, &question, &nodes, within);
    }

    /// Requests this daemon is the right one for.
    pub(in crate::node) fn on_local_request(&mut self, from: Requester, request: ControlToDaemon) {
        tracing::debug!(?from, request = %Shortened(&request), "answered here");
        match request {
            ControlToDaemon::Signal { job, signal } => self.on_signal_request(from, job, signal),
            ControlToDaemon::Kill { job } => {
                self.with_jobs(|jobs, cx| jobs.on_kill(from, job, cx));
            }
            ControlToDaemon::Ps { job } => self.with_desk(|desk, jobs, cx| desk.gather_ps(from, job, jobs, cx)),
            ControlToDaemon::Look { job } => self.with_desk(|desk, jobs, cx| desk.gather_looks(from, job, jobs, cx)),
            ControlToDaemon::Stacks { job, rank } => {
                self.with_desk(|desk, jobs, cx| desk.gather_stacks(from, (job, rank), jobs, cx));
            }
            ControlToDaemon::Series { job } => self.with_desk(|desk, jobs, cx| desk.answer_series(from, job, jobs, cx)),
            ControlToDaemon::Checkpoint { job, into } => {
                self.with_jobs(|jobs, cx| jobs.on_checkpoint_request(from, job, into, cx));
            }
            ControlToDaemon::Trace { job, after, is_last } => {
                self.with_desk(|desk, jobs, cx| desk.gather_traces(from, job, (after, is_last), (jobs, cx)));
            }
            ControlToDaemon::Reconfigure {
                job,
                change,
                mode,
                cause,
                method,
            } => {
                let asked = LayoutAsked {
                    job,
                    change,
                    mode,
                    cause,
                    method,
                };
                self.with_jobs(|jobs, cx| jobs.on_reconfigure(from, asked, cx));
            }
            ControlToDaemon::Ping { .. } => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let node = self.settings.own.clone();
                self.out.answer(
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
            ControlToDaemon::Join(spec) if spec.name == self.settings.own && self.cluster.nodes().is_draining() => {
                self.on_undrain(from, &spec);
            }
            ControlToDaemon::Join(spec) => {
                let around = (&self.settings, &self.cluster);
                self.boot.on_join(from, spec, around, &mut self.out);
            }
            ControlToDaemon::Drain { deadline_ms, .. } => {
                self.with_ending(|ending, jobs, cx| ending.on_drain(from, deadline_ms, jobs, cx));
            }
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
        self.out.answer(done.from, done.answer);
    }

    fn on_signal_request(&mut self, from: Requester, job: JobId, signal: i32) {
        if !(1..=SIGNAL_MAX).contains(&signal) {
            let message = format!("{signal} is no signal: `kill -l` lists them");
            return self.refuse(from, refusal::BAD_SIGNAL, message);
        }
        self.with_jobs(|jobs, cx| jobs.on_signal(from, job, signal, cx));
    }

    /// The node was emptied, or is being emptied, and is wanted again.
    fn on_undrain(&mut self, from: Requester, spec: &NodeSpec) {
        let own = &self.settings.own;
        if self.ending.is_taken_away() || self.ending.is_going_down() || self.cluster.is_leaving() {
            let message = format!("node {own} is taken away: it takes no ranks any more");
            return self.refuse(from, refusal::NODE_BUSY, message);
        }
        let statuses = self.cluster.statuses(self.out.now());
        let Some(mut status) = statuses.into_iter().find(|status| status.name == *own) else {
            return self.refuse(from, refusal::UNKNOWN_NODE, format!("node {own} does not know itself"));
        };
        if !spec.cpus.is_empty() && spec.cpus != status.cpus {
            let message = format!("node {own} is drained, and has other CPUs: `pcmctl remove {own}` first");
            return self.refuse(from, refusal::NODE_EXISTS, message);
        }
        status.state = NodeState::Up;
        self.with_ending(|ending, _, cx| ending.on_undrain(cx));
        self.out.answer(from, DaemonToControl::Joined(status));
    }

    fn on_remove(&mut self, from: Requester) {
        let (ranks, led) = (self.jobs.ranks_here(), self.jobs.table.coordinators().count());
        let own = &self.settings.own;
        if ranks > 0 || led > 0 {
            let message = format!(
                "node {own} runs {ranks} ranks and coordinates {led} jobs: wait for them to end or `pcmctl kill` them"
            );
            return self.refuse(from, refusal::NODE_BUSY, message);
        }
        if self.cluster.nodes().reachable().is_empty() {
            let message = format!("node {own} is the last one: `pcmctl down` ends the cluster");
            return self.refuse(from, refusal::LAST_NODE, message);
        }
        self.out.answer(from, DaemonToControl::Done);
        self.with_ending(|ending, _, cx| ending.take_leave(cx));
    }

    fn gather(&mut self, from: Requester, wanted: Wanted, question: &Question, nodes: &[NodeName], within: Duration) {
        self.desk
            .queries
            .gather(from, wanted, question, nodes, within, &mut self.out);
    }

    /// A new job is wanted.
    pub(in crate::node) fn on_run(&mut self, from: Requester, spec: JobSpec) {
        if self.ending.is_going_down() || self.cluster.is_leaving() {
            let message = "the cluster is going down: start it again with `pcmctl up`";
            return self.refuse(from, refusal::GOING_DOWN, message);
        }
        self.with_jobs(|jobs, cx| jobs.on_run(from, spec, cx));
    }
}
