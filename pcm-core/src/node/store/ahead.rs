//! What ranks do ahead of a meeting: whether one has anything to do, and how long it is waited for. Never decides what
//! a rank does; it knows that best itself.

use super::step::Step;
use crate::reconfiguration::effects::Input;
use pcm_proto::ids::{Bytes, ProcessId};
use pcm_proto::layout::Plan;
use pcm_proto::method::Completion;
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::ReconfigurationReport;
use std::time::Duration;

/// Data of a rank from which on memory is made ahead for what it will get: less is made at the meeting in 10 ms at
/// worst.
const MEMORY_BYTES_MIN: Bytes = Bytes(4 << 20);

/// How long a rank is waited for that only makes memory: the rest of an iteration, ...
const MEMORY_MAX: Duration = Duration::from_secs(1);

/// ... and twice what the slowest memory seen takes, 2.5 s a GiB (a virtual machine that had given its memory back).
const MEMORY_MAX_PER_MIB: Duration = Duration::from_millis(5);

/// What a process does ahead of its meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    Nothing,
    /// Constant data travels.
    Data,
    /// It only makes memory for what it gets while it computes on, and is not waited for for longer than this: one
    /// whose iterations are long hears of it late and loses more than it gains.
    Memory {
        within: Duration,
    },
}

/// What a process with so much constant data, of so much in all, has to do ahead of the meeting of a plan.
pub fn ahead(plan: &Plan, process: ProcessId, constant: Bytes, registered: Bytes) -> Ahead {
    if plan.method.completion != Completion::Sync && constant > Bytes(0) {
        return Ahead::Data;
    }
    if plan.new.member(process).is_none() || registered < MEMORY_BYTES_MIN {
        return Ahead::Nothing;
    }
    let mib = u32::try_from(registered.0 >> 20).unwrap_or(u32::MAX);
    let within = MEMORY_MAX + MEMORY_MAX_PER_MIB.saturating_mul(mib);
    Ahead::Memory { within }
}

/// A rank has had its time to make memory; what is not there is made at the meeting.
pub(super) fn on_timer(key: ParkKey, step: &mut Step<'_>) {
    let ParkKey { job, attempt, process } = key;
    if step.engaged(job).is_some_and(|(known, _)| known == attempt) {
        let report = ReconfigurationReport::Ahead { attempt };
        step.reconfigure(job, Input::Report { process, report });
    }
}
