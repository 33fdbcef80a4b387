//! Answers of many nodes to one question: what is wanted, how answers are added up, and what the sum means for the
//! parts of the node. Never sends anything: [`super::questions`] does.

use super::asker::Asker;
use crate::node::layout_request::LayoutAsked;
use crate::node::requester::{LinkId, Requester};
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::Event;
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::job::{JobStatus, RankStatus};
use pcm_proto::peer::{Answer, NodeReport, RanksBegun};
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::refusal;
use pcm_proto::stack::RankStack;
use pcm_proto::trace::TraceChunk;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

/// What is gathered.
#[derive(Debug)]
pub enum Wanted {
    /// The reports of the nodes.
    Nodes,
    /// Jobs of all coordinators.
    Jobs(Vec<JobStatus>),
    /// The rows of a job's ranks.
    Ranks {
        status: Box<JobStatus>,
        ranks: Vec<RankStatus>,
    },
    /// The calls and messages of a job's ranks.
    Look {
        status: Box<JobStatus>,
        ranks: Vec<RankLook>,
    },
    /// Where a job's ranks are in their programs, or only one of them.
    Stacks {
        status: Box<JobStatus>,
        rank: Option<Rank>,
        stacks: Vec<RankStack>,
    },
    /// The recorded calls of a job's ranks.
    Trace(Vec<TraceChunk>),
    /// The progress of a job's ranks, for its series.
    Sample { job: JobId, ranks: Vec<RankStatus> },
    /// Messages between a job's ranks, for its series.
    Traffic { job: JobId, ranks: Vec<RankLook> },
    /// The processes of a job that have begun to iterate, for the layout that is asked for.
    Begun { asked: Box<LayoutAsked>, begun: RanksBegun },
    /// The calls of the ranks of a job without progress.
    HangLook { job: JobId, ranks: Vec<RankLook> },
    /// Where the ranks of a job without progress are.
    HangStacks { job: JobId, stacks: Vec<RankStack> },
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

/// What came of a question, for the part of the node that has to act on it.
#[derive(Debug)]
pub enum Outcome {
    /// The answer of a node to a part's own question; `None` when there was none in time.
    Answered {
        asker: Asker,
        node: NodeName,
        answer: Option<Answer>,
        took: Duration,
    },
    /// Another node's report.
    Report(Box<NodeReport>),
    /// A complete gathering.
    Gathered { from: Requester, wanted: Wanted },
}

/// Answers that are being gathered.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) from: Requester,
    wanted: Wanted,
    waiting: BTreeSet<NodeName>,
}

/// What one more answer means.
#[derive(Debug)]
pub(super) enum Added {
    /// Nothing beyond the gathering.
    Counted,
    /// A report for the node's list of nodes.
    Report(Box<NodeReport>),
    /// The one answer that was wanted: the others do not matter any more.
    Found(Box<DaemonToControl>),
}

impl Gathering {
    pub(super) fn new(from: Requester, wanted: Wanted, nodes: &[NodeName]) -> Self {
        let waiting = nodes.iter().cloned().collect();
        Self { from, wanted, waiting }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The deadline has passed: nodes that have not answered are left out.
    pub(super) fn stop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Adds a node's answer, or the fact that there is none; `None` for a node that is not waited for.
    pub(super) fn add(&mut self, node: &NodeName, answer: Option<Answer>) -> Option<Added> {
        if !self.waiting.remove(node) {
            return None;
        }
        match (&mut self.wanted, answer?) {
            (Wanted::Jobs(jobs), Answer::Jobs(more)) => jobs.extend(more),
            (Wanted::Ranks { ranks, .. } | Wanted::Sample { ranks, .. }, Answer::Ranks(more)) => ranks.extend(more),
            (
                Wanted::Look { ranks, .. } | Wanted::Traffic { ranks, .. } | Wanted::HangLook { ranks, .. },
                Answer::Look(more),
            ) => ranks.extend(more),
            (Wanted::Stacks { stacks, .. } | Wanted::HangStacks { stacks, .. }, Answer::Stacks(more)) => {
                stacks.extend(more);
            }
            (Wanted::Trace(chunks), Answer::Trace(more)) => chunks.extend(more),
            (Wanted::Events { events, .. }, Answer::Events(more)) => events.extend(more),
            (Wanted::Begun { begun, .. }, Answer::Begun(more)) => {
                begun.processes.extend(more.processes);
                begun.registered.0 = begun.registered.0.saturating_add(more.registered.0);
                begun.constant.0 = begun.constant.0.saturating_add(more.constant.0);
            }
            (Wanted::Nodes, Answer::Report(report)) => return Some(Added::Report(report)),
            (Wanted::Knowing { .. }, Answer::Control(answer)) if !is_unknown(&answer) => {
                return Some(Added::Found(answer));
            }
            _ => {}
        }
        Some(Added::Counted)
    }

    /// The requester and the sum of the answers, in order.
    pub(super) fn finish(self) -> (Requester, Wanted) {
        let mut wanted = self.wanted;
        match &mut wanted {
            Wanted::Jobs(jobs) => {
                // The old coordinator of a job that an heir leads may not have heard of it yet.
                jobs.sort_by_key(|status| (status.job, Reverse(status.reign)));
                jobs.dedup_by_key(|status| status.job);
            }
            Wanted::Events { events, .. } => events.sort_by_key(|event| event.time_us),
            _ => {}
        }
        (self.from, wanted)
    }
}

fn is_unknown(answer: &DaemonToControl) -> bool {
    matches!(answer, DaemonToControl::Refused(Refusal { code, .. }) if code == refusal::UNKNOWN_JOB)
}
