//! SIGTERM to this daemon, or to its keeper: the node will be taken away. Its jobs make a checkpoint and move
//! elsewhere, as for a drain with a deadline; those that cannot go on elsewhere from that checkpoint. Jobs that are
//! coordinated here make another one, then the node leaves the cluster and their heirs lead them from it.

use crate::moment::Moment;
use crate::node::machine::Node;
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::checkpoint::IntoFiles;
use std::time::Duration;

/// Of that time, what is left for the last checkpoints of jobs coordinated here.
const HAND_OVER_SHARE: u32 = 4;

/// Whether all is said is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The node is to be given up.
#[derive(Debug)]
pub(in crate::node) struct Preemption {
    until: Moment,
    /// Whether the last checkpoints were asked for.
    is_handing_over: bool,
}

impl Node {
    pub(in crate::node) fn on_notice(&mut self) {
        if self.preemption.is_some() || self.is_going_down() || self.is_leaving() {
            return;
        }
        let within = self.notice;
        tracing::warn!(
            seconds = within.as_secs_f64(),
            "SIGTERM: this node brings its work elsewhere and ends"
        );
        self.preemption = Some(Preemption {
            until: self.out.now().plus(within),
            is_handing_over: false,
        });
        self.set_draining(true);
        // Somebody who was emptying it already waits for an answer; it is emptied with a deadline now.
        self.drain_cancelled();
        let time = within - within / HAND_OVER_SHARE;
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.empty(Requester::Nobody, Some(ms));
    }

    /// No rank is left here, or none that can leave: jobs led from here get a checkpoint for their heirs.
    pub(in crate::node) fn hand_over(&mut self) {
        let Some(notice) = &mut self.preemption else { return };
        if std::mem::replace(&mut notice.is_handing_over, true) {
            return;
        }
        for job in self.jobs.led_ids() {
            // Without an heir only files go on.
            let into = self.heirs(1).is_empty().then_some(IntoFiles::Usual);
            self.on_checkpoint_request(Requester::Nobody, job, into);
        }
        self.leave_when_safe();
    }

    /// Leaves when those checkpoints are complete, or there is no time left.
    pub(in crate::node) fn leave_when_safe(&mut self) {
        let Some(notice) = &self.preemption else { return };
        let jobs = self.jobs.led_ids().into_iter();
        let is_waiting = jobs
            .filter_map(|job| self.jobs.led(job))
            .any(|led| led.leading.is_asked());
        if is_waiting && self.out.now() < notice.until {
            return self.out.arm(LOOK_AGAIN, Timer::Leave);
        }
        self.leave();
    }
}
