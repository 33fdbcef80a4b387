//! Parts of jobs whose coordinator's daemon is out of reach: ranks do not compute for ever where nobody leads them, and
//! what an heir may need is kept until none comes any more. Never decides who leads a job: [`super::wills`] does.

use crate::job::participant::Input;
use crate::node::machine::Node;
use crate::node::store::checkpoint_store::ABANDONED_AFTER;
use crate::node::timer::Timer;
use pcm_proto::ids::{JobId, NodeName};
use std::time::Duration;

/// Ranks whose coordinator's daemon is out of reach go on for so long: the keeper there starts it again in a fraction
/// of a second, and a cut-off node must not compute for ever.
const COORDINATOR_LOST_AFTER: Duration = Duration::from_secs(10);

impl Node {
    pub(in crate::node) fn on_parts_unlinked(&mut self, node: &NodeName) {
        let of_node = self.jobs.parts().filter(|(_, part)| part.coordinator() == node);
        let after = self.coordinator_lost_after();
        for job in of_node.map(|(job, _)| job).collect::<Vec<_>>() {
            self.out.arm(after, Timer::CoordinatorLost(job));
        }
    }

    /// Not before the cluster takes a silent node for dead.
    fn coordinator_lost_after(&self) -> Duration {
        COORDINATOR_LOST_AFTER.max(self.spec.patience() * 2)
    }

    /// Whether a job's coordinator is elsewhere and cannot be asked.
    fn is_coordinator_away(&self, coordinator: &NodeName) -> bool {
        *coordinator != self.own && !self.transports.is_linked(coordinator)
    }

    pub(in crate::node) fn on_coordinator_lost_timer(&mut self, job: JobId) {
        let Some(part) = self.jobs.part(job) else { return };
        let coordinator = part.coordinator().clone();
        if !self.is_coordinator_away(&coordinator) {
            return;
        }
        if part.is_emptied() {
            // Nothing runs here, but an heir may need the checkpoints that are held here.
            return self.out.arm(ABANDONED_AFTER, Timer::Abandoned(job));
        }
        tracing::warn!(%job, node = %coordinator, "the job's coordinator is out of reach: its ranks here are ended");
        self.participate(job, Input::CoordinatorLost);
        self.out.arm(self.coordinator_lost_after(), Timer::CoordinatorLost(job));
    }

    pub(in crate::node) fn on_abandoned_timer(&mut self, job: JobId) {
        let Some(part) = self.jobs.part(job) else { return };
        if part.is_emptied() && self.is_coordinator_away(part.coordinator()) {
            self.on_part_over(job);
        }
    }
}
