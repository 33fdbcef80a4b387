//! Questions about the shared pages of this node's ranks. The driver reads the pages; each question remembers its
//! asker.

use crate::moment::Moment;
use pcm_proto::agent::RankCounters;
use pcm_proto::ids::{Iteration, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::RankStatus;
use pcm_proto::peer::RanksBegun;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::trace::TraceChunk;
use std::collections::BTreeMap;

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageQuestion {
    /// One row for each process of a job.
    Ranks { job: JobId },
    /// The processes of a job that have begun to iterate.
    Begun { job: JobId },
    /// The calls and messages of each process of a job, of those that have ended too.
    Looks { job: JobId },
    /// What the processes of a job recorded of their calls since they were asked last; they record on, unless this is
    /// the last time.
    Traces {
        job: JobId,
        after: Vec<(ProcessId, u64)>,
        is_last: bool,
        entries_max: u32,
        /// The time of this question on the node's clock.
        now: Moment,
    },
    /// Counters of these processes of each job, which have these ranks, for the node's agent.
    Counters {
        jobs: Vec<(JobId, BTreeMap<ProcessId, Rank>)>,
    },
    /// The highest iteration that a rank of a job has begun.
    Reached { job: JobId },
}

/// What was read.
#[derive(Debug)]
pub enum Pages {
    Ranks(Vec<RankStatus>),
    Begun(RanksBegun),
    Looks(Vec<RankLook>),
    Traces(Vec<TraceChunk>),
    Counters {
        /// When, on the clock of the pages (CLOCK_MONOTONIC).
        at_ns: u64,
        jobs: Vec<(JobId, Vec<RankCounters>)>,
    },
    Reached {
        iteration: Option<Iteration>,
    },
}

/// The source of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Another daemon, or this one, with the number of its question.
    Node { node: NodeName, ask: u64 },
    /// The agent, which also wants to know the links to these nodes.
    Agent { about: Vec<NodeName> },
    /// The coordinator of a job whose processes are being ended.
    Coordinator { job: JobId, node: NodeName },
}
