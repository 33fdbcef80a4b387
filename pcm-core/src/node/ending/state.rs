//! What a node knows of its own end.

use crate::moment::Moment;
use crate::node::requester::Requester;
use pcm_proto::ids::{JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct Ending {
    pub(super) stage: Stage,
    pub(super) drain: Option<Draining>,
    pub(super) preemption: Option<Preemption>,
    /// Nodes that have not said yet that they heard this one's last words.
    pub(super) farewells: Option<usize>,
}

/// How long the node goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Serving,
    /// It takes no new jobs, ends those it has, and then answers these questions.
    EndingJobs { asked_by: Vec<(NodeName, u64)> },
    /// The loop ends now.
    Over,
}

/// A requester waits for the node to be empty.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) from: Requester,
    pub(super) until: Moment,
    /// Whether the node is going to be taken away then.
    pub(super) has_deadline: bool,
    /// Jobs that were asked for a checkpoint, and those that made one.
    pub(super) asked: BTreeSet<JobId>,
    pub(super) safe: BTreeSet<JobId>,
    /// Jobs that cannot leave and were asked for files, and why they cannot.
    pub(super) stuck: BTreeMap<JobId, (String, &'static str)>,
    /// Whether the deadline came, and the jobs that were left were told so.
    pub(super) is_forced: bool,
}

/// The node is to be given up.
#[derive(Debug)]
pub(super) struct Preemption {
    pub(super) until: Moment,
    /// Whether the last checkpoints were asked for.
    pub(super) is_handing_over: bool,
}
