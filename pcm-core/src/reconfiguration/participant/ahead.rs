//! What ranks do before the meeting, as far as the protocol cares: constant data travels, memory is made for what will
//! come. A participant that has ranks of the old layout is not prepared before they have what they need, or have been
//! given enough time. Nothing depends on it having been done; ranks find out among themselves at the meeting.

use super::super::effects::{Effect, Timer};
use super::super::step::Step;
use super::work::{Participant, Work};
use pcm_proto::ids::ProcessId;
use pcm_proto::layout::{Mode, Plan};
use pcm_proto::reconfiguration::Attempt;
use std::collections::BTreeSet;

impl Participant {
    /// Has the ranks here begin; the ones that are waited for.
    pub(super) fn send_ahead(&self, step: &mut Step<'_>, attempt: Attempt, plan: &Plan) -> BTreeSet<ProcessId> {
        if plan.mode != Mode::Live {
            return BTreeSet::new();
        }
        let here = self.old_here(plan, step.me);
        for process in &here {
            let process = *process;
            step.out.push(Effect::SendAhead { process, attempt });
        }
        if !here.is_empty() {
            let ahead_max = step.limits.ahead_max;
            step.arm(Timer::Ahead { attempt }, ahead_max);
        }
        here.into_iter().collect()
    }

    /// A rank has what it needs, or does without.
    pub(super) fn on_ahead(&mut self, step: &mut Step<'_>, process: ProcessId, attempt: Attempt) {
        let is_current = step.record.engaged.as_ref().is_some_and(|e| e.attempt == attempt);
        let was_missing = match &mut self.work {
            Work::Preparing { ahead, .. } if is_current => ahead.remove(&process),
            _ => false,
        };
        match was_missing {
            true => self.check_prepared(step),
            false => step.dropped.duplicate += 1,
        }
    }

    /// It takes too long: what has not come travels at the meeting.
    pub(in super::super) fn on_ahead_timer(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        let is_current = step.record.engaged.as_ref().is_some_and(|e| e.attempt == attempt);
        match &mut self.work {
            Work::Preparing { ahead, .. } if is_current && !ahead.is_empty() => {
                ahead.clear();
                self.check_prepared(step);
            }
            _ => step.dropped.stale_timer += 1,
        }
    }
}
