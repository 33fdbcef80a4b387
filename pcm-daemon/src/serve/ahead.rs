//! What ranks here do ahead of a meeting: who has anything to do, and who is not waited for any longer. Never decides what
//! a rank does; it knows that best itself.

use super::daemon::Daemon;
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::effects::Input;
use pcm_proto::ids::Bytes;
use pcm_proto::method::Completion;
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::ReconfigurationReport;
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
    fn begins_ahead(&mut self, key: ParkKey, constant: Bytes, registered: Bytes) -> bool {
        let Some((_, plan)) = self.engaged(key.job) else {
            return false;
        };
        if plan.method.completion != Completion::Sync && constant.0 > 0 {
            return true;
        }
        if plan.new.member(key.process).is_none() || registered.0 < MEMORY_BYTES_MIN {
            return false;
        }
        let mib = u32::try_from(registered.0 >> 20).unwrap_or(u32::MAX);
        let within = MEMORY_MAX + MEMORY_MAX_PER_MIB.saturating_mul(mib);
        self.out.arm(within, Timer::Ahead(key));
        true
    }

    /// It is known how much data a process has that may do something ahead of its meeting.
    pub(super) fn on_data_weighed(&mut self, key: ParkKey, constant: Bytes, registered: Bytes) {
        let ParkKey { job, attempt, process } = key;
        if self.begins_ahead(key, constant, registered) {
            self.tell_plan_ahead(job, process);
        } else {
            let report = ReconfigurationReport::Ahead { attempt };
            self.reform(job, Input::Report { process, report });
        }
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
