//! Parts of jobs whose coordinator's daemon is out of reach: ranks do not compute for ever where nobody leads them, and
//! what an heir may need is kept until none comes any more. Never decides who leads a job: [`super::wills`] does.

use crate::job::participant::Input;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::store::checkpoint_store::ABANDONED_AFTER;
use crate::node::timer::Timer;
use pcm_proto::ids::{JobId, NodeName};
use std::time::Duration;

/// Ranks whose coordinator's daemon is out of reach go on for so long: the keeper there starts it again in a fraction
/// of a second, and a cut-off node must not compute for ever.
const COORDINATOR_LOST_AFTER: Duration = Duration::from_secs(10);

impl Jobs {
    pub(in crate::node) fn on_unlinked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        let of_node = self.table.parts().filter(|(_, part)| part.coordinator() == node);
        let after = coordinator_lost_after(cx);
        for job in of_node.map(|(job, _)| job).collect::<Vec<_>>() {
            cx.out.arm(after, Timer::CoordinatorLost(job));
        }
    }

    pub(in crate::node) fn on_coordinator_lost_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(part) = self.table.part(job) else { return };
        let coordinator = part.coordinator().clone();
        if !is_away(&coordinator, cx) {
            return;
        }
        if part.is_emptied() {
            // Nothing runs here, but an heir may need the checkpoints that are held here.
            return cx.out.arm(ABANDONED_AFTER, Timer::Abandoned(job));
        }
        tracing::warn!(%job, node = %coordinator, "the job's coordinator is out of reach: its ranks here are ended");
        self.participate(job, Input::CoordinatorLost, cx);
        let after = coordinator_lost_after(cx);
        cx.arm(after, Timer::CoordinatorLost(job));
    }

    pub(in crate::node) fn on_abandoned_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(part) = self.table.part(job) else { return };
        if part.is_emptied() && is_away(part.coordinator(), cx) {
            self.on_part_over(job, cx);
        }
    }
}

/// Not before the cluster takes a silent node for dead.
fn coordinator_lost_after(cx: &Context<'_>) -> Duration {
    COORDINATOR_LOST_AFTER.max(cx.settings.spec.patience() * 2)
}

/// Whether a job's coordinator is elsewhere and cannot be asked.
fn is_away(coordinator: &NodeName, cx: &Context<'_>) -> bool {
    *coordinator != cx.settings.own && !cx.cluster.transports().is_linked(coordinator)
}
