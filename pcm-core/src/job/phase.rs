//! Where a job stands, and where at each of its nodes.

use super::recovery::Recovering;
use pcm_proto::job::JobEnd;
use serde::{Deserialize, Serialize};

/// Where the job stands at one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NodeStage {
    /// It runs processes of the job, or may.
    Active,
    /// It has none any more, but output that was not taken yet.
    Emptied,
    /// Nothing is left there.
    Cleared,
    /// It is taken for dead.
    Gone,
}

/// Where the job stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Its first processes are being started.
    Starting,
    /// All its ranks run, or did.
    Running,
    /// It crashed and is brought back.
    Recovering(Recovering),
    /// It is being ended.
    Ending(Ending),
    Ended(JobEnd),
}

/// The first failure, while its mates may still finish by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) end: JobEnd,
    pub(super) since_us: u64,
}

/// A job that is being ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) end: JobEnd,
    pub(super) since_us: u64,
    pub(super) sent_us: u64,
}
