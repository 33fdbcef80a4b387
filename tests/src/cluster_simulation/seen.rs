//! What happened that a rule is about.

use super::groups::GroupKey;
use super::happening::Boot;
use pcm_core::reconfiguration::record::JobRecord;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, Rank};
use pcm_proto::job::JobEnd;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::reconfiguration::Attempt;

/// See the file head.
#[derive(Debug)]
pub(super) enum Seen {
    /// A daemon wrote what is remembered of a job's reconfigurations.
    Persisted {
        job: JobId,
        record: Box<JobRecord>,
    },
    /// A keeper starts a process.
    Starts {
        key: ProcessKey,
        on: Boot,
    },
    Ends {
        key: ProcessKey,
    },
    /// A process has its place and data in a layout, at this iteration.
    TakesUp {
        key: ProcessKey,
        group: GroupKey,
        size: u32,
        iteration: u64,
        elements: Vec<(u32, u64)>,
    },
    /// It starts an iteration; `is_sound` when its elements have seen all iterations before.
    Proceeds {
        key: ProcessKey,
        group: GroupKey,
        rank: Rank,
        iteration: u64,
        is_sound: bool,
    },
    /// It has left its loop at the program's end.
    Finishes {
        key: ProcessKey,
        group: GroupKey,
        rank: Rank,
        iteration: u64,
        is_sound: bool,
    },
    /// A member of the old layout follows a call to a meeting or to park.
    Enters {
        key: ProcessKey,
        group: GroupKey,
        attempt: Attempt,
        iteration: u64,
    },
    /// It is out again, in whatever way.
    Leaves {
        key: ProcessKey,
    },
    /// It goes on in the old layout.
    Returns {
        key: ProcessKey,
        group: GroupKey,
        attempt: Attempt,
    },
    /// It has waited at the ceiling for longer than any daemon is away, and goes on without being told.
    GoesOnUntold {
        group: GroupKey,
    },
    /// Buffers of checkpoints were written, held or dropped.
    BuffersChanged {
        job: JobId,
    },
    /// A node adds an event to its log.
    Noted {
        machine: usize,
        job: Option<JobId>,
        epoch: Epoch,
        kind: Box<EventKind>,
    },
    /// All that a machine held is lost.
    MachineLost {
        machine: usize,
    },
    /// Nothing runs on a machine any more.
    MachineDown,
    /// A daemon heard what a job's coordinator leaves it for the case that it is lost; the end of the job, if that is
    /// decided.
    Willed {
        machine: usize,
        job: JobId,
        reign: u32,
        end: Option<JobEnd>,
    },
    /// A person's request to run a job was accepted under this number.
    Accepted {
        job: JobId,
        request: u64,
    },
    /// A person was told that a job ended.
    ToldEnd {
        job: JobId,
        code: i32,
    },
}
