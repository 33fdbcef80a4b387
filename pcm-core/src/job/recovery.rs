//! What the coordinator of a job keeps for crashes, and how far it is after one.

use super::placement::Placed;
use crate::checkpoint::{CrashPolicy, Fault, PolicyLimits};
use pcm_proto::checkpoint::Restores;
use pcm_proto::ids::{Epoch, Iteration, NodeName, ProcessId};
use pcm_proto::job::{JobEnd, JobSpec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A job that is being brought back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recovering {
    /// How it would end.
    pub(super) end: JobEnd,
    pub(super) cause: String,
    pub(super) fault: Fault,
    pub(super) since_us: u64,
    pub(super) sent_us: u64,
    pub(super) go: Option<Go>,
}

/// It is to be started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Go {
    pub(super) ended_us: u64,
    pub(super) not_before_us: u64,
    pub(super) asked_us: Option<u64>,
    /// Since when places are waited for.
    pub(super) waits_since_us: u64,
    pub(super) restart: u32,
    pub(super) rolled_back: u64,
}

/// A restart whose ranks do not all run yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Restart {
    pub(super) event: Box<RestartEvent>,
    pub(super) waiting: BTreeSet<ProcessId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RestartEvent {
    pub(super) cause: String,
    pub(super) restart: u32,
    pub(super) from: Iteration,
    /// What each node had when the ranks were placed.
    pub(super) placement: String,
    pub(super) rolled_back: u64,
    pub(super) since_us: u64,
    pub(super) ended_us: u64,
    pub(super) ordered_us: u64,
    pub(super) started_us: Option<u64>,
}

/// The first end that follows from another one, as long as that may still be heard of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hearsay {
    pub(super) end: JobEnd,
    pub(super) fault: Fault,
    pub(super) since_us: u64,
    /// Those that ended so; their ends say nothing new.
    pub(super) aborted: BTreeSet<ProcessId>,
}

/// What the coordinator keeps for crashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recovery {
    pub(super) policy: CrashPolicy,
    /// The first epoch since the job was started, or started again.
    pub(super) life: Epoch,
    /// The newest checkpoint that counts.
    pub(super) checkpoint: Option<Iteration>,
    /// The last that ever counted.
    pub(super) announced: Option<Iteration>,
    /// The furthest iteration any rank had begun when it was ended.
    pub(super) reached: Iteration,
    pub(super) restarts: u32,
    pub(super) restores: Option<Restores>,
    pub(super) under_way: Option<Restart>,
    pub(super) hearsay: Option<Hearsay>,
    /// Nodes that do not answer, and when they are taken for dead at the latest.
    pub(super) silent: BTreeMap<NodeName, u64>,
}

impl Recovery {
    pub(super) fn new(spec: &JobSpec) -> Self {
        let limits = PolicyLimits {
            restarts_max: spec.restarts_max,
            ..PolicyLimits::default()
        };
        Self {
            policy: CrashPolicy::new(limits),
            life: Epoch(0),
            checkpoint: None,
            announced: None,
            reached: Iteration(0),
            restarts: 0,
            restores: None,
            under_way: None,
            hearsay: None,
            silent: BTreeMap::new(),
        }
    }
}

/// Where the ranks go, and what they begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restarted {
    pub placed: Placed,
    /// The iteration they begin with.
    pub from: Iteration,
    /// The checkpoint in memory; without one they read files.
    pub restores: Option<Restores>,
    /// Variables of their environment, which tell of files.
    pub variables: Vec<(String, Vec<u8>)>,
}
