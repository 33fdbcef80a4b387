//! Answers gathered from many daemons: each gathering ends when all have answered or its deadline has passed, and what
//! did not answer is marked, not waited for.

use super::asks::{ANSWER_WITHIN, Purpose};
use super::control::LAYOUT_WITHIN;
use super::daemon::Daemon;
use super::layout_requests::LayoutAsked;
use pcm_core::node::requester::LinkId;
use pcm_core::node::requester::Requester;
use pcm_core::node::timer::Timer;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, Refusal};
use pcm_proto::event::Event;
use pcm_proto::ids::{Iteration, JobId, NodeName};
use pcm_proto::job::{JobStatus, RankStatus};
use pcm_proto::look::RankLook;
use pcm_proto::peer::{Answer, Question};
use pcm_proto::refusal;
use pcm_proto::trace::TraceChunk;
use std::collections::BTreeSet;
use std::time::Duration;

/// A follower of events hears of news at least so often.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Ending all jobs takes at most this long, SIGTERM, SIGKILL and silent nodes included.
pub(super) const END_JOBS_WITHIN: Duration = Duration::from_secs(15);

/// Time for the other daemons to say that they end.
const QUIT_WITHIN: Duration = Duration::from_secs(3);

/// What is gathered.
pub(super) enum Wanted {
    /// How the nodes are.
    Nodes,
    /// Jobs of all coordinators.
    Jobs(Vec<JobStatus>),
    /// What the pages of a job's ranks show.
    Ranks {
        status: Box<JobStatus>,
        ranks: Vec<RankStatus>,
    },
    /// What the ranks of a job do with each other.
    Look {
        status: Box<JobStatus>,
        ranks: Vec<RankLook>,
    },
    /// What a job's ranks recorded of their calls.
    Trace(Vec<TraceChunk>),
    /// How far a job's ranks are, for its series.
    Sample { job: JobId, ranks: Vec<RankStatus> },
    /// Messages between a job's ranks, for its series.
    Traffic { job: JobId, ranks: Vec<RankLook> },
    /// Whether a job's ranks can be reconfigured, for the layout that is asked for.
    Steps {
        asked: Box<LayoutAsked>,
        ranks: Vec<RankStatus>,
    },
    /// Events of all nodes; for a follower the answer goes on.
    Events {
        events: Vec<Event>,
        follower: Option<LinkId>,
    },
    /// The one answer of the daemon that knows the job.
    Knowing { job: JobId },
    /// All jobs have ended everywhere; then all daemons end.
    JobsEnded,
    /// All other daemons end.
    Quitting,
}

/// Answers that are being gathered.
pub(super) struct Gather {
    from: Requester,
    wanted: Wanted,
    waiting: BTreeSet<NodeName>,
}

impl Daemon {
    /// Asks these nodes and gathers their answers.
    pub(super) fn gather(
        &mut self,
        from: Requester,
        wanted: Wanted,
        question: &Question,
        nodes: Vec<NodeName>,
        within: Duration,
    ) {
        let gather = self.asks.next_number();
        let waiting: BTreeSet<NodeName> = nodes.iter().cloned().collect();
        self.asks.gathers.insert(gather, Gather { from, wanted, waiting });
        for node in nodes {
            self.ask(&node, question.clone(), Purpose::Gather(gather), within);
        }
        self.out.arm(within, Timer::Gather(gather));
        self.end_gather_if_complete(gather);
    }

    /// An answer came, or none will.
    pub(super) fn on_gathered(&mut self, gather: u64, node: &NodeName, answer: Option<Answer>) {
        let Some(open) = self.asks.gathers.get_mut(&gather) else {
            return;
        };
        if !open.waiting.remove(node) {
            return;
        }
        let mut is_found = false;
        match (&mut open.wanted, answer) {
            (Wanted::Jobs(jobs), Some(Answer::Jobs(more))) => jobs.extend(more),
            (
                Wanted::Ranks { ranks, .. } | Wanted::Steps { ranks, .. } | Wanted::Sample { ranks, .. },
                Some(Answer::Ranks(more)),
            ) => ranks.extend(more),
            (Wanted::Look { ranks, .. } | Wanted::Traffic { ranks, .. }, Some(Answer::Look(more))) => {
                ranks.extend(more)
            }
            (Wanted::Trace(chunks), Some(Answer::Trace(more))) => chunks.extend(more),
            (Wanted::Events { events, .. }, Some(Answer::Events(more))) => events.extend(more),
            (Wanted::Nodes, Some(Answer::Report(report))) => self.on_report(*report),
            (Wanted::Knowing { .. }, Some(Answer::Control(answer))) if !is_unknown(&answer) => {
                is_found = true;
                let from = open.from.clone();
                self.answer(from, *answer);
            }
            _ => {}
        }
        if is_found {
            self.asks.gathers.remove(&gather);
        }
        self.end_gather_if_complete(gather);
    }

    pub(super) fn on_gather_timer(&mut self, gather: u64) {
        if let Some(open) = self.asks.gathers.get_mut(&gather) {
            open.waiting.clear();
            self.end_gather_if_complete(gather);
        }
    }

    fn end_gather_if_complete(&mut self, gather: u64) {
        if !self
            .asks
            .gathers
            .get(&gather)
            .is_some_and(|open| open.waiting.is_empty())
        {
            return;
        }
        let Some(Gather { from, wanted, .. }) = self.asks.gathers.remove(&gather) else {
            return;
        };
        match wanted {
            Wanted::Nodes => {
                self.report();
                let statuses = self.node_statuses();
                self.answer(from, DaemonToControl::Nodes(statuses));
            }
            Wanted::Jobs(mut jobs) => {
                // Of a job that an heir took over, its old coordinator may not have heard yet.
                jobs.sort_by_key(|status| (status.job, std::cmp::Reverse(status.reign)));
                jobs.dedup_by_key(|status| status.job);
                self.answer(from, DaemonToControl::Jobs(jobs));
            }
            Wanted::Ranks { status, ranks } => self.answer_ps(from, *status, ranks),
            Wanted::Look { status, ranks } => self.answer_looks(from, *status, ranks),
            Wanted::Trace(chunks) => self.answer(from, DaemonToControl::Trace(chunks)),
            Wanted::Sample { job, ranks } => self.on_sampled(job, &ranks),
            Wanted::Traffic { job, ranks } => self.on_traffic(job, &ranks),
            Wanted::Steps { asked, ranks } => self.on_steps_known(from, &asked, &ranks),
            Wanted::Events { mut events, follower } => {
                events.sort_by_key(|event| event.time_us);
                self.answer_events(from, events, follower);
            }
            Wanted::Knowing { job } => self.refuse_unknown_job(from, job),
            Wanted::JobsEnded => self.on_jobs_ended_everywhere(from),
            Wanted::Quitting => self.on_others_quit(from),
        }
    }

    /// A request about a job that only its coordinator can answer; `own` says whether that is this daemon.
    pub(super) fn find_coordinator(&mut self, from: Requester, job: JobId, request: ControlToDaemon) {
        let within = if matches!(request, ControlToDaemon::Reconfigure { .. }) {
            LAYOUT_WITHIN
        } else {
            ANSWER_WITHIN
        };
        let known = self.parts.get(&job).map(|part| part.state.coordinator().clone());
        if let Some(coordinator) = known.filter(|coordinator| *coordinator != self.own) {
            return self.forward(from, &coordinator, request, within);
        }
        let nodes = self.nodes.reachable();
        let question = Question::Control(Box::new(request));
        self.gather(from, Wanted::Knowing { job }, &question, nodes, within);
    }

    /// Asks all nodes of a job how far its ranks are.
    pub(super) fn gather_steps(&mut self, from: Requester, asked: LayoutAsked) {
        let job = asked.job;
        let Some(coordinated) = self.jobs.get(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinated.state.active_nodes().cloned().collect();
        let wanted = Wanted::Steps {
            asked: Box::new(asked),
            ranks: Vec::new(),
        };
        self.gather(from, wanted, &Question::Ranks { job }, nodes, ANSWER_WITHIN);
    }

    pub(super) fn gather_ps(&mut self, from: Requester, job: JobId) {
        let (Some(coordinated), Some(status)) = (self.jobs.get(&job), self.job_status(job)) else {
            return self.refuse_unknown_job(from, job);
        };
        let status = Box::new(status);
        let nodes: Vec<NodeName> = coordinated.state.active_nodes().cloned().collect();
        let wanted = Wanted::Ranks {
            status,
            ranks: Vec::new(),
        };
        self.gather(
            from,
            wanted,
            &Question::Ranks { job },
            nodes,
            Duration::from_millis(500),
        );
    }

    /// Puts what the pages show beside what the coordinator knows; a rank that nobody told of has an empty call.
    fn answer_ps(&mut self, from: Requester, status: JobStatus, mut seen: Vec<RankStatus>) {
        let Some(coordinated) = self.jobs.get(&status.job) else {
            return self.refuse_unknown_job(from, status.job);
        };
        let ranks = coordinated.state.rank_rows().map(|(rank, process, node, pid)| {
            let position = seen.iter().position(|row| row.process == process);
            let row = position
                .map(|position| seen.swap_remove(position))
                .unwrap_or_else(|| RankStatus {
                    rank,
                    process,
                    node: node.clone(),
                    pid,
                    iteration: Iteration(0),
                    useful_ms: 0.0,
                    wait_ms: 0.0,
                    memory: pcm_proto::ids::Bytes(0),
                    iterations_declared: None,
                    restored: pcm_proto::ids::Bytes(0),
                    call: "?".to_owned(),
                    call_since_ms: 0.0,
                    peer: None,
                    tag: None,
                    bytes: None,
                    sent: pcm_proto::ids::Bytes(0),
                    received: pcm_proto::ids::Bytes(0),
                    registered: pcm_proto::ids::Bytes(0),
                    constant: pcm_proto::ids::Bytes(0),
                });
            RankStatus { rank, node, pid, ..row }
        });
        let ranks = ranks.collect();
        self.answer(from, DaemonToControl::Ps { status, ranks });
    }

    pub(super) fn gather_events(
        &mut self,
        from: Requester,
        job: Option<JobId>,
        since_us: u64,
        follower: Option<LinkId>,
    ) {
        let mut nodes = self.nodes.reachable();
        nodes.push(self.own.clone());
        let wanted = Wanted::Events {
            events: Vec::new(),
            follower,
        };
        self.gather(from, wanted, &Question::Events { job, since_us }, nodes, ANSWER_WITHIN);
    }

    fn answer_events(&mut self, from: Requester, events: Vec<Event>, follower: Option<LinkId>) {
        let Some(link) = follower else {
            return self.answer(from, DaemonToControl::Events(events));
        };
        let fresh = self.controls.follow(link, &events);
        if !fresh.is_empty() {
            self.answer(from, DaemonToControl::Events(fresh));
        }
        self.out.arm(FOLLOW_EVERY, Timer::Follow(link.0));
    }

    pub(super) fn on_follow_timer(&mut self, link: LinkId) {
        if let Some((job, since_us)) = self.controls.following(link) {
            self.gather_events(Requester::Control(link), job, since_us, Some(link));
        }
    }

    pub(super) fn gather_jobs_ended(&mut self, from: Requester) {
        let mut nodes = self.nodes.reachable();
        nodes.push(self.own.clone());
        self.gather(from, Wanted::JobsEnded, &Question::EndJobs, nodes, END_JOBS_WITHIN);
    }

    pub(super) fn gather_quitting(&mut self, from: Requester) {
        let nodes = self.nodes.reachable();
        self.gather(from, Wanted::Quitting, &Question::Quit, nodes, QUIT_WITHIN);
    }
}

fn is_unknown(answer: &DaemonToControl) -> bool {
    matches!(answer, DaemonToControl::Refused(Refusal { code, .. }) if code == refusal::UNKNOWN_JOB)
}
