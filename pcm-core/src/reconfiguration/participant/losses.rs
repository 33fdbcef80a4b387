//! A participant when something is gone: its coordinator, one of its processes, the whole job, or its own memory.

use super::super::effects::{EndCause, Report, Timer};
use super::super::record::{Engagement, JobRecord, Stage};
use super::super::step::Step;
use super::work::{Participant, Work};
use crate::moment::micros;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::layout::{Mode, Plan};
use pcm_proto::reconfiguration::{Answer, Attempt, Failure, Loss, ReconfigurationMessage, ReconfigurationOrder};
use std::collections::BTreeSet;

impl Participant {
    /// The daemon was started again. Ends of processes that were missed are reported by the driver afterwards.
    pub(in super::super) fn on_restart(&mut self, step: &mut Step<'_>) {
        if step.record.lost.is_some() {
            return self.end_all(step, EndCause::Lost);
        }
        for process in self.known_here(step.record, step.me) {
            step.tell(process, ReconfigurationOrder::Repeat);
        }
        if step.record.damage.is_some() {
            step.arm(Timer::Damage, step.limits.ask_every);
        }
        if let Some(left) = &step.record.left_standing {
            let attempt = left.attempt;
            self.arm_patience(step, attempt);
            return self.look_for_damage(step);
        }
        let Some(engaged) = &step.record.engaged else {
            self.lift_all(step);
            return self.look_for_damage(step);
        };
        let (attempt, mode) = (engaged.attempt, engaged.plan.mode);
        match engaged.stage {
            Stage::Open if engaged.ceiling.is_some() => {
                let (ports, standing) = (Vec::new(), engaged.ceiling);
                self.work = Work::Prepared { ports, standing };
                self.arm_patience(step, attempt);
            }
            Stage::Called if mode == Mode::Live => {
                self.call_again(step);
                self.arm_patience(step, attempt);
            }
            // What was parked before may be parked again only under another attempt.
            Stage::Open | Stage::Called => self.withdraw(step, Failure::DaemonRestarted),
            Stage::Starting { parked } => {
                self.start_new(step, parked);
                self.arm_patience(step, attempt);
            }
            Stage::Agreed { .. } => {
                self.work = Work::Agreed;
                self.ask_decision(step, attempt, 0);
            }
            Stage::Deciding { .. } => self.begin_settling(step),
        }
    }

    /// Every local process that the record knows.
    pub(in super::super) fn known_here(&self, record: &JobRecord, me: &NodeName) -> BTreeSet<ProcessId> {
        let engaged = record.engaged.as_ref();
        // The new processes of a relaunch are there only once they were ordered to start.
        let waits_to_start =
            |process: ProcessId| engaged.is_some_and(|e| !e.has_started_new() && e.plan.old.member(process).is_none());
        let planned = engaged.into_iter().flat_map(|e| [&e.plan.old, &e.plan.new]);
        let known = record
            .layout
            .iter()
            .chain(planned)
            .flat_map(|layout| layout.processes_on(me));
        known.filter(|p| !self.has_exited(*p) && !waits_to_start(*p)).collect()
    }

    /// Nothing was heard from the coordinator for a while, or something was.
    pub(in super::super) fn on_patience(&mut self, step: &mut Step<'_>, attempt: Attempt, heard: u64) {
        let Some(engaged) = Self::to_be_decided(step.record, attempt) else {
            step.dropped.stale_timer += 1;
            return;
        };
        // An attempt that has left ranks standing is decided; whether they go on is not.
        let has_agreed = !engaged.stage.may_withdraw();
        if heard != self.heard {
            self.arm_patience(step, attempt);
        } else if has_agreed {
            self.ask_decision(step, attempt, 0);
        } else {
            self.withdraw(step, Failure::CoordinatorSilent);
        }
    }

    pub(super) fn arm_patience(&self, step: &mut Step<'_>, attempt: Attempt) {
        let (heard, patience) = (self.heard, step.limits.patience);
        step.arm(Timer::Patience { attempt, heard }, patience);
    }

    /// The attempt that waits for a word of its coordinator: it is undecided, or it has left the ranks here standing.
    fn to_be_decided(record: &JobRecord, attempt: Attempt) -> Option<&Engagement> {
        let left = record.left_standing.as_ref().filter(|left| left.attempt == attempt);
        Self::undecided(record, attempt).or(left)
    }

    /// Asks everybody who could know. A daemon that has agreed, or whose ranks were left standing, can do nothing else.
    fn ask_decision(&mut self, step: &mut Step<'_>, attempt: Attempt, times: u32) {
        let Some(engaged) = Self::to_be_decided(step.record, attempt) else {
            return;
        };
        for node in engaged.plan.participants() {
            if node != *step.me {
                step.send(&node, ReconfigurationMessage::AskDecision { attempt });
            }
        }
        let (heard, every) = (self.heard, step.limits.ask_every);
        step.arm(
            Timer::AskDecision {
                attempt,
                heard,
                times: times + 1,
            },
            every,
        );
    }

    pub(in super::super) fn on_ask_timer(&mut self, step: &mut Step<'_>, attempt: Attempt, heard: u64, times: u32) {
        let Some(engaged) = Self::to_be_decided(step.record, attempt) else {
            step.dropped.stale_timer += 1;
            return;
        };
        let has_agreed = matches!(engaged.stage, Stage::Agreed { .. });
        if heard != self.heard {
            return self.arm_patience(step, attempt);
        }
        let asked_for = micros(step.limits.ask_every).saturating_mul(u64::from(times));
        if has_agreed && asked_for >= micros(step.limits.undecided_max) && self.work != Work::GivenUp {
            self.work = Work::GivenUp;
            step.report(Report::EndedHere {
                loss: Loss::Undecided { attempt },
            });
            self.end_all(step, EndCause::Lost);
        }
        // Also after the processes are ended: the record must not stay open for ever. Ranks that were left standing go
        // on by themselves after `rank_max`.
        self.ask_decision(step, attempt, times);
    }

    /// Somebody wants to know what became of an attempt.
    pub(in super::super) fn on_ask_decision(&mut self, step: &mut Step<'_>, from: &NodeName, attempt: Attempt) {
        match step.record.fate(attempt) {
            Some(decision) => {
                // Whoever still holds its own ranks does not know that others may go on, and those of a lost job do
                // not.
                let stand = step.record.holds_ranks() || step.record.lost.is_some();
                step.send_decided(from, attempt, decision, stand);
            }
            None => step.dropped.unexpected += 1,
        }
    }

    /// A process on this node has ended.
    pub(in super::super) fn on_exited(&mut self, step: &mut Step<'_>, process: ProcessId, finished: bool) {
        self.exited.insert(process, finished);
        self.standing.remove(&process);
        if step.record.lost.is_some() {
            return self.check_buried(step);
        }
        let died = Failure::ProcessDied { process };
        let Some(engaged) = &step.record.engaged else {
            return self.look_for_damage(step);
        };
        let (attempt, stage) = (engaged.attempt, engaged.stage);
        let is_old = engaged.plan.old.member(process).is_some();
        let is_new = engaged.plan.new.member(process).is_some();
        let is_spent = self.is_spent(&engaged.plan, process);
        match (&mut self.work, stage) {
            (Work::Settling { settle, leave, .. }, _) => {
                settle.remove(&process);
                leave.remove(&process);
                self.check_settled(step);
            }
            _ if is_spent => {}
            (_, stage) if stage.may_withdraw() && finished && is_old => self.fail(step, Failure::JobEnding { process }),
            (_, stage) if stage.may_withdraw() && (is_old || is_new) => self.fail(step, died),
            // It has agreed and keeps its word, but the coordinator may still decide otherwise.
            (Work::Agreed, _) if is_new => step.answer(attempt, Answer::Failed { failure: died }),
            _ => {}
        }
    }

    /// Whether a process leaves, and its data has arrived or is parked.
    pub(in super::super) fn is_spent(&self, plan: &Plan, process: ProcessId) -> bool {
        let leaves = plan.old.member(process).is_some() && plan.new.member(process).is_none();
        leaves
            && match &self.work {
                Work::Meeting { moved, .. } => moved.contains_key(&process),
                Work::Parked { .. } | Work::Starting { .. } | Work::Agreed => true,
                _ => false,
            }
    }

    /// Processes of the layout that are gone, or hang while nothing is coming to save their data, are a loss.
    pub(super) fn look_for_damage(&mut self, step: &mut Step<'_>) {
        if step.record.engaged.is_some() || step.record.damage.is_some() {
            return;
        }
        let Some(layout) = &step.record.layout else { return };
        let dead = layout
            .processes_on(step.me)
            .find(|p| self.exited.get(p) == Some(&false));
        let stuck = step.record.stuck.first().copied();
        if let Some(process) = dead {
            self.damage(step, Loss::ProcessDied { process });
        } else if let (Some(process), None) = (stuck, &step.record.left_standing) {
            self.damage(step, Loss::ProcessStuck { process });
        }
    }

    /// Something of the job is lost here: the coordinator must learn of it, however long that takes.
    pub(super) fn damage(&mut self, step: &mut Step<'_>, loss: Loss) {
        if step.record.damage.is_none() && step.record.lost.is_none() {
            step.record.change().damage = Some(loss);
            self.report_damage(step);
        }
    }

    pub(in super::super) fn report_damage(&mut self, step: &mut Step<'_>) {
        let Some(loss) = step.record.damage.clone() else {
            step.dropped.stale_timer += 1;
            return;
        };
        let (epoch, holder) = (step.record.epoch(), step.record.holder.clone());
        step.send(&holder, ReconfigurationMessage::Lost { epoch, loss });
        step.arm(Timer::Damage, step.limits.ask_every);
    }

    /// No coordinator was found for too long: ranks that cannot be coordinated must not run on for ever, and a witness
    /// may be the last one that can tell.
    pub(in super::super) fn give_up(&mut self, step: &mut Step<'_>) {
        let Some(layout) = step.record.layout.as_ref().filter(|l| l.voters().contains(step.me)) else {
            return;
        };
        let hosts = layout.processes_on(step.me).next().is_some();
        step.report(Report::EndedHere {
            loss: Loss::NoCoordinator,
        });
        if hosts && step.record.lost.is_none() {
            self.end_all(step, EndCause::Lost);
            self.damage(step, Loss::NoCoordinator);
        }
    }

    /// The coordinator gave the job up.
    pub(in super::super) fn on_bury(&mut self, step: &mut Step<'_>, loss: Loss) {
        self.is_burial_ordered = true;
        if step.record.lost.is_none() {
            self.end_all(step, EndCause::Lost);
            let record = step.record.change();
            record.lost = Some(loss.clone());
            record.damage = None;
            record.left_standing = None;
            record.stuck.clear();
            self.work = Work::Quiet;
            step.report(Report::EndedHere { loss });
        }
        self.check_buried(step);
    }

    fn check_buried(&mut self, step: &mut Step<'_>) {
        if self.is_burial_ordered && self.known_here(step.record, step.me).is_empty() {
            let holder = step.record.holder.clone();
            step.send(&holder, ReconfigurationMessage::Buried);
        }
    }

    fn end_all(&mut self, step: &mut Step<'_>, cause: EndCause) {
        for process in self.known_here(step.record, step.me) {
            step.end_process(process, cause);
        }
    }
}
