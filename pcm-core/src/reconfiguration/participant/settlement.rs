//! A participant that knows the decision: ranks take up the new layout or return to the old one, leavers end.

use super::super::effects::{EndCause, Report, Timer};
use super::super::record::{Engagement, Stage};
use super::super::step::Step;
use super::work::{Closed, Participant, Work};
use crate::reconfiguration::effects::Effect;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::layout::{Layout, Mode};
use pcm_proto::reconfiguration::{AbortReason, Answer, Attempt, Decision, Loss, ReconfigurationOrder};
use std::collections::BTreeSet;

impl Participant {
    /// Somebody knows what became of an attempt.
    pub(in super::super) fn on_decided(
        &mut self,
        step: &mut Step<'_>,
        attempt: Attempt,
        decision: Decision,
        stand: bool,
    ) {
        let stage = step
            .record
            .engaged
            .as_ref()
            .filter(|e| e.attempt == attempt)
            .map(|e| e.stage);
        let commits = decision == Decision::Committed;
        match stage {
            Some(Stage::Deciding { .. }) => {
                let known = step.record.fate(attempt).map(|d| d == Decision::Committed);
                if known != Some(commits) {
                    step.dropped.impossible += 1;
                } else {
                    if !stand {
                        self.stand_no_more_when_settled(step);
                    }
                    self.tell_again(step, attempt, commits);
                    self.repeat_answer(step);
                }
            }
            // Committed without our word: nobody who keeps to the protocol decides that.
            Some(stage) if commits && stage.may_withdraw() => step.dropped.impossible += 1,
            Some(_) => self.carry_out(step, decision, stand),
            None => self.on_decided_without_engagement(step, attempt, decision, stand),
        }
    }

    /// A daemon that dies may take with it what it had to tell its ranks.
    fn tell_again(&self, step: &mut Step<'_>, attempt: Attempt, committed: bool) {
        let mode = step.record.engaged.as_ref().map(|engaged| engaged.plan.mode);
        let (Work::Settling { settle, leave, .. }, Some(mode)) = (&self.work, mode) else {
            return;
        };
        let decided = ReconfigurationOrder::Decided {
            attempt,
            committed,
            mode,
        };
        let leaving = leave.iter().filter(|_| committed);
        for process in settle.iter().chain(leaving) {
            step.tell(*process, decided.clone());
        }
    }

    fn on_decided_without_engagement(
        &mut self,
        step: &mut Step<'_>,
        attempt: Attempt,
        decision: Decision,
        stand: bool,
    ) {
        step.dropped.duplicate += 1;
        if step.record.fate(attempt).is_none() {
            let is_newest = step.record.decided.as_ref().is_none_or(|(known, _)| *known < attempt);
            if decision == Decision::Committed || !is_newest || attempt.epoch != step.record.epoch() {
                step.dropped.stale_attempt += 1;
                return;
            }
            // An order to prepare that is still on its way must find nobody.
            step.record.change().decided = Some((attempt, decision));
        }
        let left_standing = step.record.left_standing.as_ref();
        if !stand && left_standing.is_some_and(|left| left.attempt <= attempt) {
            self.stand_no_more(step);
        }
        self.answer_closed(step, attempt);
    }

    /// The holder of the lease knows of what is under way here.
    pub(in super::super) fn on_sign_of_life(&mut self) {
        self.heard += 1;
    }

    pub(super) fn answer_closed(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        let known = self.closed.as_ref().filter(|c| c.attempt == attempt);
        let held_us = known.map_or(0, |c| c.held_us);
        let stuck = step.record.stuck.iter().copied().collect();
        step.answer(attempt, Answer::Closed { held_us, stuck });
    }

    /// The only way from an undecided attempt to a decided one. With `stand` ranks that stand at the ceiling stay
    /// there.
    pub(super) fn carry_out(&mut self, step: &mut Step<'_>, decision: Decision, stand: bool) {
        let Some(engaged) = step.record.engaged.clone() else {
            return;
        };
        let Engagement {
            attempt,
            coordinator,
            plan,
            stage,
            ..
        } = engaged;
        let called = matches!(stage, Stage::Called | Stage::Starting { .. } | Stage::Agreed { .. });
        let commits = decision == Decision::Committed;
        let record = step.record.change();
        record.decided = Some((attempt, decision));
        if let Some(engaged) = &mut record.engaged {
            engaged.stage = Stage::Deciding {
                called,
                starting: stage.has_started_relaunched(),
            };
            engaged.ceiling = engaged.ceiling.filter(|_| stand && !commits);
        }
        if commits {
            let epoch = plan.new.epoch;
            record.take_layout(plan.new, attempt, &coordinator);
            step.report(Report::LayoutChanged { epoch });
        }
        if !step.record.holds_ranks() {
            self.standing.clear();
        }
        self.begin_settling(step);
    }

    /// Tells every process here the decision and waits for what must follow; also after the daemon was restarted.
    pub(super) fn begin_settling(&mut self, step: &mut Step<'_>) {
        let Some(engaged) = step.record.engaged.clone() else {
            return;
        };
        let Stage::Deciding { called, .. } = engaged.stage else {
            return;
        };
        let are_started = engaged.has_started_new();
        let Engagement { attempt, plan, .. } = engaged;
        let committed = step.record.fate(attempt) == Some(Decision::Committed);
        let me = step.me;
        let alive = |process: &ProcessId| !self.exited.contains_key(process);
        let old: BTreeSet<ProcessId> = plan.old.processes_on(me).filter(alive).collect();
        let new: BTreeSet<ProcessId> = plan.new.processes_on(me).filter(alive).collect();
        let stuck = &step.record.stuck;
        let (settle, leave) = match committed {
            true => (new.clone(), old.difference(&new).copied().collect()),
            false => {
                let is_started = |process: &&ProcessId| are_started && !old.contains(process);
                let started: BTreeSet<ProcessId> = new.iter().filter(is_started).copied().collect();
                let inside = old.iter().filter(|p| called && !stuck.contains(p));
                (inside.copied().collect::<BTreeSet<ProcessId>>(), started)
            }
        };
        let hanging: Vec<ProcessId> = stuck.iter().copied().collect();
        if !step.record.holds_ranks() {
            let free = old.iter().filter(|process| !committed || new.contains(process));
            for process in free.copied() {
                step.out.push(Effect::LiftCeiling { process });
            }
        }
        let decided = ReconfigurationOrder::Decided {
            attempt,
            committed,
            mode: plan.mode,
        };
        for process in old.iter().chain(settle.difference(&old)) {
            step.tell(*process, decided.clone());
        }
        if !committed {
            let may_be_met = called && plan.mode == Mode::Live;
            for process in &leave {
                if may_be_met {
                    // Ended now, it would leave those behind who are just being joined with it; the timer ends it
                    // later.
                    step.tell(*process, decided.clone());
                } else {
                    step.end_process(*process, EndCause::Aborted);
                }
            }
        } else if plan.mode == Mode::Relaunch {
            for process in hanging {
                step.end_process(process, EndCause::LeftLate);
            }
        }
        self.work = Work::Settling {
            settle,
            leave,
            held_us: 0,
        };
        let (settle_max, leave_max) = (step.limits.settle_max, step.limits.leave_max);
        step.arm(Timer::Settle { attempt }, settle_max);
        step.arm(Timer::Leave { attempt }, leave_max);
        self.check_settled(step);
    }

    pub(super) fn on_settled(&mut self, step: &mut Step<'_>, process: ProcessId, attempt: Attempt, held: u64) {
        let is_current = step.record.engaged.as_ref().is_some_and(|e| e.attempt == attempt);
        if let Work::Settling { settle, held_us, .. } = &mut self.work
            && is_current
            && settle.remove(&process)
        {
            *held_us = held.max(*held_us);
            return self.check_settled(step);
        }
        step.dropped.duplicate += 1;
        if step.record.stuck.contains(&process) && step.record.engaged.is_none() {
            // It came back after all.
            step.record.change().stuck.remove(&process);
        }
    }

    /// Ranks that have not carried out the decision by now hang in MPI.
    pub(in super::super) fn on_settle_timer(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        let is_current = step.record.engaged.as_ref().is_some_and(|e| e.attempt == attempt);
        let Work::Settling { settle, .. } = &mut self.work else {
            step.dropped.stale_timer += 1;
            return;
        };
        if !is_current || settle.is_empty() {
            step.dropped.stale_timer += 1;
            return;
        }
        let hanging = std::mem::take(settle);
        let committed = step.record.fate(attempt) == Some(Decision::Committed);
        match hanging.first() {
            Some(process) if committed => self.damage(step, Loss::ProcessStuck { process: *process }),
            _ => step.record.change().stuck.extend(hanging),
        }
        self.check_settled(step);
    }

    /// Processes that should be gone by now are ended, again and again until their end is reported.
    pub(in super::super) fn on_leave_timer(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        let is_current = step.record.engaged.as_ref().is_some_and(|e| e.attempt == attempt);
        match &self.work {
            Work::Settling { leave, .. } if is_current && !leave.is_empty() => {
                for process in leave {
                    step.end_process(*process, EndCause::LeftLate);
                }
                let leave_max = step.limits.leave_max;
                step.arm(Timer::Leave { attempt }, leave_max);
            }
            _ => step.dropped.stale_timer += 1,
        }
    }

    pub(super) fn check_settled(&mut self, step: &mut Step<'_>) {
        let Work::Settling { settle, leave, .. } = &self.work else {
            return;
        };
        let Some(engaged) = &step.record.engaged else { return };
        if !settle.is_empty() || !leave.is_empty() {
            return;
        }
        let attempt = engaged.attempt;
        self.close(step, attempt);
    }

    fn close(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        let held_us = match self.work {
            Work::Settling { held_us, .. } => held_us,
            _ => 0,
        };
        if step.record.fate(attempt) == Some(Decision::Committed) {
            step.record.change().stuck.clear();
        }
        if step.record.engaged.as_ref().is_some_and(|e| e.plan.mode == Mode::Live) {
            // What travelled ahead of the meeting. A relaunch is released by its coordinator.
            step.out.push(Effect::DropParked { attempt });
        }
        let record = step.record.change();
        record.left_standing = record.engaged.take().filter(|engaged| engaged.ceiling.is_some());
        self.closed = Some(Closed { attempt, held_us });
        self.work = Work::Quiet;
        if step.record.left_standing.is_some() {
            self.arm_patience(step, attempt);
        }
        self.answer_closed(step, attempt);
        self.look_for_damage(step);
    }

    /// It was decided that all go on, before they have come back here.
    fn stand_no_more_when_settled(&mut self, step: &mut Step<'_>) {
        if step.record.holds_ranks()
            && let Some(engaged) = &mut step.record.change().engaged
        {
            engaged.ceiling = None;
            self.standing.clear();
            self.lift_all(step);
        }
    }

    /// Lets ranks go on that were left at the ceiling for a relaunch that does not come.
    pub(super) fn stand_no_more(&mut self, step: &mut Step<'_>) {
        if step.record.left_standing.is_some() {
            step.record.change().left_standing = None;
            self.standing.clear();
            self.lift_all(step);
            self.look_for_damage(step);
        }
    }

    pub(super) fn lift_all(&mut self, step: &mut Step<'_>) {
        let Some(layout) = &step.record.layout else { return };
        let here: Vec<ProcessId> = layout.processes_on(step.me).filter(|p| !self.has_exited(*p)).collect();
        for process in here {
            step.out.push(Effect::LiftCeiling { process });
        }
    }

    /// A newer layout than the one known here was committed; `made_by` made it.
    pub(in super::super) fn learn_layout(
        &mut self,
        step: &mut Step<'_>,
        layout: Layout,
        made_by: Attempt,
        holder: &NodeName,
    ) {
        if layout.epoch <= step.record.epoch() {
            step.dropped.duplicate += 1;
            return;
        }
        let open = step
            .record
            .engaged
            .as_ref()
            .filter(|e| !matches!(e.stage, Stage::Deciding { .. }));
        if let Some(attempt) = open.map(|e| e.attempt) {
            if layout.epoch.0 > attempt.epoch.0 + 1 {
                self.abandon(step, &layout);
            } else {
                let decision = match attempt == made_by {
                    true => Decision::Committed,
                    false => Decision::Aborted {
                        reason: AbortReason::CoordinatorReplaced,
                    },
                };
                self.on_decided(step, attempt, decision, false);
            }
        }
        if layout.epoch > step.record.epoch() {
            let epoch = layout.epoch;
            step.record.change().take_layout(layout, made_by, holder);
            step.record.change().stuck.clear();
            step.report(Report::LayoutChanged { epoch });
        }
    }

    /// The job has gone on for more than one layout without this daemon, so whatever became of the attempt, none of its
    /// processes here is needed any more.
    fn abandon(&mut self, step: &mut Step<'_>, layout: &Layout) {
        let here = self.known_here(step.record, step.me);
        for process in here.into_iter().filter(|p| layout.member(*p).is_none()) {
            step.end_process(process, EndCause::Unknown);
        }
        step.record.change().engaged = None;
        self.work = Work::Quiet;
    }
}
