//! What ranks here do ahead of a meeting: who has anything to do, and who is not waited for any longer. Never decides what
//! a rank does; it knows that best itself.

use super::daemon::Daemon;
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::effects::Input;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::method::Completion;
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::{Attempt, ReconfigurationReport};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Data of a rank from which on memory is made ahead for what it will get: less is made at the meeting in 10 ms at worst.
const MEMORY_BYTES_MIN: u64 = 4 << 20;

/// How long a rank is waited for that only makes memory: the rest of an iteration, ...
const MEMORY_MAX: Duration = Duration::from_secs(1);

/// ... and twice what the slowest memory seen takes, 2.5 s a GiB (a virtual machine that had given its memory back).
const MEMORY_MAX_PER_MIB: Duration = Duration::from_millis(5);

impl Daemon {
    /// Whether a process has something to do ahead of its meeting: constant data travels, or it stays with so much data that
    /// memory for what it gets had better be made while it computes on. For the latter alone it is not waited for for long:
    /// one whose iterations are long hears of it late and loses more than it gains.
    pub(super) fn begins_ahead(&mut self, job: JobId, process: ProcessId, attempt: Attempt) -> bool {
        let local = self.parts.get(&job).and_then(|part| part.locals.get(&process));
        let (Some((_, plan)), Some(local)) = (self.engaged(job), local) else {
            return false;
        };
        let progress = &local.handle.page().page().head.progress;
        if plan.method.completion != Completion::Sync && progress.constant_bytes.load(Relaxed) > 0 {
            return true;
        }
        let registered = progress.registered_bytes.load(Relaxed);
        if plan.new.member(process).is_none() || registered < MEMORY_BYTES_MIN {
            return false;
        }
        let mib = u32::try_from(registered >> 20).unwrap_or(u32::MAX);
        let within = MEMORY_MAX + MEMORY_MAX_PER_MIB.saturating_mul(mib);
        let key = ParkKey { job, attempt, process };
        self.out.arm(within, Timer::Ahead(key));
        true
    }

    /// A rank has had its time to make memory; what is not there is made at the meeting.
    pub(super) fn on_ahead_timer(&mut self, key: ParkKey) {
        let ParkKey { job, attempt, process } = key;
        if self.engaged(job).is_some_and(|(known, _)| known == attempt) {
            let report = ReconfigurationReport::Ahead { attempt };
            self.reform(job, Input::Report { process, report });
        }
    }
}
