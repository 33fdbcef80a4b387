//! Events: what happened, when, to which job and why. They are what `pcmctl events`, the dashboard and the report
//! are made of, so their JSON form is a public interface: every line has `time`, `job`, `epoch` and `kind`.

use crate::ids::{Bytes, Epoch, JobId, NodeName, Rank};
use crate::layout::Mode;
use serde::{Deserialize, Serialize};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Microseconds since 1970.
    pub time_us: u64,
    /// The job it concerns, if any.
    pub job: Option<JobId>,
    /// The job's epoch at that time.
    pub epoch: Epoch,
    /// The node whose daemon noted it.
    pub node: NodeName,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// A node's daemon is part of the cluster.
    NodeUp {
        /// The node.
        name: NodeName,
    },
    /// A node does not answer.
    NodeSuspect {
        /// The node.
        name: NodeName,
    },
    /// A node left or is taken for dead.
    NodeGone {
        /// The node.
        name: NodeName,
        /// Whether it left on purpose.
        on_purpose: bool,
    },
    /// The daemon was started again and found its ranks.
    DaemonRestarted {
        /// How many processes it found.
        processes: u32,
    },
    /// The daemon's agent ended and is started again.
    AgentRestarted {
        /// How it ended.
        reason: String,
    },
    /// A job was accepted and placed.
    JobAccepted {
        /// Its name.
        name: String,
        /// Its ranks' nodes in rank order.
        placement: Vec<NodeName>,
    },
    /// All ranks of the job run.
    JobStarted {
        /// Milliseconds from acceptance.
        start_ms: f64,
    },
    /// A rank's process ended.
    RankEnded {
        /// The rank.
        rank: Rank,
        /// Its node.
        name: NodeName,
        /// The code a shell would report.
        code: i32,
    },
    /// The job ended.
    JobEnded {
        /// Its exit code.
        code: i32,
        /// Why, where it is not plain success.
        reason: String,
    },
    /// A reconfiguration was committed.
    Reconfigured(Box<Reconfigured>),
}

/// What a committed reconfiguration did and cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reconfigured {
    /// `migrate`, `expand`, `shrink`, `rebalance` or `relaunch`.
    pub plan: String,
    /// Who or what asked for it.
    pub cause: String,
    /// Ranks before.
    pub ranks_before: u32,
    /// Ranks after.
    pub ranks_after: u32,
    /// Ranks whose process moved: rank, from, to.
    pub moved: Vec<Moved>,
    /// Bytes that went from one process to another, or were parked.
    pub bytes_moved: Bytes,
    /// Longest time any rank's application code was held; of a relaunch, from the meeting point until all ranks run.
    pub pause_ms: f64,
    /// How it was carried out.
    pub mode: Mode,
    /// From the request to the commit; of a relaunch, until the last rank runs.
    pub total_ms: f64,
    /// Time by phase.
    pub phases_ms: Vec<(String, f64)>,
}

/// One rank that runs elsewhere after a reconfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The rank.
    pub rank: Rank,
    /// Where it was.
    pub from: Option<NodeName>,
    /// Where it is.
    pub to: Option<NodeName>,
}
