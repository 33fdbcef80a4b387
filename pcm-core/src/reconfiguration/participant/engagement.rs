//! A participant until it has agreed: prepare, converge, stop, meet. It may still withdraw at every point.

use super::super::effects::{Effect, EndCause};
use super::super::record::{Engagement, Stage};
use super::super::step::{Absence, Step};
use super::work::{Participant, Work};
use pcm_proto::ids::{Iteration, NodeName, ProcessId, Rank};
use pcm_proto::layout::{Member, Mode, Plan};
use pcm_proto::reconfiguration::{
    AbortReason, Answer, Attempt, Decision, Failure, Order, ReconfigurationOrder, ReconfigurationReport, Trouble,
    WorldPort,
};
use std::collections::{BTreeMap, BTreeSet};

impl Participant {
    /// An order of the holder of the lease; its reign was checked.
    pub(in super::super) fn on_order(&mut self, step: &mut Step<'_>, from: &NodeName, attempt: Attempt, order: Order) {
        if let Order::Prepare {
            plan,
            made_by,
            standing,
        } = order
        {
            return self.on_prepare(step, from, attempt, (*plan, made_by), standing);
        }
        if order == Order::Release {
            return step.out.push(Effect::DropParked { attempt });
        }
        let Some(engaged) = step.record.engaged.as_ref().filter(|e| e.attempt == attempt) else {
            if order == Order::Wait {
                // The plan itself was lost and will be repeated.
                step.dropped.unexpected += 1;
                return;
            }
            return self.on_order_without_engagement(step, attempt);
        };
        self.heard += 1;
        let is_decided = matches!(engaged.stage, Stage::Deciding { .. });
        match order {
            Order::SetCeiling { round, ceiling } if !is_decided => self.on_set_ceiling(step, round, ceiling),
            Order::Stop { ceiling } if !is_decided => self.on_stop(step, ceiling),
            Order::Meet {
                ceiling,
                ports,
                patience_us,
            } if !is_decided => self.on_meet(step, ceiling, ports, patience_us),
            Order::Start if !is_decided => self.on_start(step),
            Order::Wait => {}
            _ => step.dropped.unexpected += 1,
        }
    }

    fn on_order_without_engagement(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        step.dropped.stale_attempt += 1;
        match step.record.fate(attempt) {
            Some(Decision::Committed) => {}
            _ => step.answer(
                attempt,
                Answer::Failed {
                    failure: Failure::Unknown,
                },
            ),
        }
    }

    fn on_prepare(
        &mut self,
        step: &mut Step<'_>,
        from: &NodeName,
        attempt: Attempt,
        (plan, made_by): (Plan, Option<Attempt>),
        standing: Option<Iteration>,
    ) {
        if let Some(engaged) = &step.record.engaged {
            let with = engaged.attempt;
            if with == attempt {
                self.heard += 1;
                return self.repeat_answer(step);
            }
            if attempt < with {
                step.dropped.stale_attempt += 1;
                return;
            }
            step.answer(
                attempt,
                Answer::Failed {
                    failure: Failure::Busy { with },
                },
            );
            // Its coordinator has moved on, so nothing can come of it.
            return self.withdraw(step, Failure::CoordinatorReplaced);
        }
        if step.record.fate(attempt).is_some() {
            step.dropped.stale_attempt += 1;
            return step.answer(
                attempt,
                Answer::Failed {
                    failure: Failure::Unknown,
                },
            );
        }
        let known = step.record.layout.as_ref().map(|l| l.epoch);
        if known.is_some_and(|epoch| epoch > plan.old.epoch) {
            let failure = Failure::OtherLayout {
                epoch: step.record.epoch(),
            };
            return step.answer(attempt, Answer::Failed { failure });
        }
        if known.is_none_or(|epoch| epoch < plan.old.epoch) {
            let record = step.record.change();
            record.layout = Some(plan.old.clone());
            record.made_by = made_by;
        }
        self.engage(step, from, attempt, plan, standing);
    }

    fn engage(
        &mut self,
        step: &mut Step<'_>,
        from: &NodeName,
        attempt: Attempt,
        plan: Plan,
        standing: Option<Iteration>,
    ) {
        if standing.is_none() {
            self.stand_no_more(step);
        }
        for node in plan.participants() {
            if step.absent.get(&node) == Some(&Absence::Forgot) {
                step.absent.remove(&node);
            }
        }
        let parked = step.record.decided.as_ref().map(|(parked, _)| *parked);
        step.out.extend(parked.map(|attempt| Effect::DropParked { attempt }));
        if plan.mode == Mode::Live {
            self.start_worlds(step, attempt, &plan, false);
        }
        let ahead = self.send_ahead(step, attempt, &plan);
        let is_ending = plan.old.processes_on(step.me).any(|p| self.finalizing.contains(&p));
        let dead = plan.old.processes_on(step.me).find(|p| self.has_exited(*p));
        let record = step.record.change();
        record.left_standing = None;
        record.engaged = Some(Engagement {
            attempt,
            coordinator: from.clone(),
            plan,
            stage: Stage::Open,
            ceiling: standing,
            ports: Vec::new(),
        });
        self.work = Work::Preparing {
            ready: BTreeMap::new(),
            ahead,
            standing,
        };
        self.heard += 1;
        self.arm_patience(step, attempt);
        match dead {
            Some(process) if is_ending => self.fail(step, Failure::JobEnding { process }),
            Some(process) => self.fail(step, Failure::ProcessDied { process }),
            None => self.check_prepared(step),
        }
    }

    /// Orders every world of the plan that has processes here to be started.
    pub(super) fn start_worlds(&self, step: &mut Step<'_>, attempt: Attempt, plan: &Plan, restored: bool) {
        let mut worlds: Vec<_> = plan
            .newcomers()
            .filter(|m| m.node == *step.me)
            .map(|m| m.world)
            .collect();
        worlds.dedup();
        for world in worlds.into_iter().collect::<BTreeSet<_>>() {
            let ranks = plan.new.members.iter().zip(0..);
            let members: Vec<(Rank, Member)> = ranks
                .filter(|(m, _)| m.world == world && plan.old.member(m.process).is_none())
                .map(|(m, r)| (Rank(r), m.clone()))
                .collect();
            let layout = Box::new(plan.new.clone());
            step.out.push(Effect::StartWorld {
                attempt,
                world,
                members,
                layout,
                restored,
            });
        }
    }

    pub(super) fn check_prepared(&mut self, step: &mut Step<'_>) {
        let Work::Preparing { ready, ahead, standing } = &self.work else {
            return;
        };
        if !ahead.is_empty() {
            return;
        }
        let Some(engaged) = &step.record.engaged else { return };
        let live = engaged.plan.mode == Mode::Live;
        let newcomers: Vec<&Member> = engaged
            .plan
            .newcomers()
            .filter(|m| live && m.node == *step.me)
            .collect();
        if !newcomers.iter().all(|m| ready.contains_key(&m.process)) {
            return;
        }
        let opened = newcomers.iter().filter_map(|m| {
            let port = ready.get(&m.process).filter(|port| !port.is_empty())?;
            Some(WorldPort {
                world: m.world,
                port: port.clone(),
            })
        });
        let (ports, attempt, standing) = (opened.collect::<Vec<_>>(), engaged.attempt, *standing);
        self.work = Work::Prepared {
            ports: ports.clone(),
            standing,
        };
        step.answer(attempt, Answer::Prepared { ports });
    }

    fn on_set_ceiling(&mut self, step: &mut Step<'_>, round: u32, ceiling: Iteration) {
        match &self.work {
            Work::Prepared { standing: None, .. } => {}
            Work::Converging { round: known, .. } if *known == round => return self.repeat_answer(step),
            Work::Converging { round: known, .. } if *known < round => {}
            Work::Failed { .. } => return self.repeat_answer(step),
            _ => {
                step.dropped.unexpected += 1;
                return;
            }
        }
        let Some(engaged) = &step.record.engaged else { return };
        let here = self.old_here(&engaged.plan, step.me);
        // Whoever stood at a lower ceiling is released by this one.
        self.standing.retain(|_, (at, _)| *at >= ceiling);
        self.work = Work::Converging {
            round,
            ceiling,
            started: BTreeMap::new(),
            ends: None,
        };
        for process in here {
            step.out.push(Effect::SetCeiling { process, ceiling });
        }
        self.check_ceiling(step);
    }

    /// The page of one rank has the ceiling and was read afterwards.
    pub(in super::super) fn on_ceiling_written(
        &mut self,
        step: &mut Step<'_>,
        process: ProcessId,
        at: Iteration,
        (so_far, ends_at): (Iteration, Option<Iteration>),
    ) {
        match &mut self.work {
            Work::Converging {
                ceiling, started, ends, ..
            } if *ceiling == at => {
                started.insert(process, so_far);
                *ends = (*ends).max(ends_at);
                self.check_ceiling(step);
            }
            _ => step.dropped.unexpected += 1,
        }
    }

    fn check_ceiling(&mut self, step: &mut Step<'_>) {
        let Work::Converging {
            round, started, ends, ..
        } = &self.work
        else {
            return;
        };
        let Some(engaged) = &step.record.engaged else { return };
        if self
            .old_here(&engaged.plan, step.me)
            .iter()
            .all(|p| started.contains_key(p))
        {
            let (round, started, ends) = (*round, started.values().copied().max().unwrap_or_default(), *ends);
            step.answer(engaged.attempt, Answer::CeilingSet { round, started, ends });
        }
    }

    fn on_stop(&mut self, step: &mut Step<'_>, at: Iteration) {
        match &self.work {
            Work::Converging { ceiling, .. } if *ceiling == at => self.work = Work::Stopping { ceiling: at },
            Work::Prepared {
                standing: Some(ceiling),
                ..
            } if *ceiling == at => self.work = Work::Stopping { ceiling: at },
            Work::Stopping { ceiling } if *ceiling == at => step.dropped.duplicate += 1,
            Work::Failed { .. } => return self.repeat_answer(step),
            _ => {
                step.dropped.unexpected += 1;
                return;
            }
        }
        self.check_stopped(step);
    }

    fn check_stopped(&mut self, step: &mut Step<'_>) {
        let Work::Stopping { ceiling } = self.work else { return };
        let Some(engaged) = &step.record.engaged else { return };
        if !self.all_stand(&engaged.plan, step.me, ceiling, step.record) {
            return;
        }
        let (attempt, ports) = (engaged.attempt, self.standing_ports(&engaged.plan));
        if engaged.ceiling.is_none()
            && let Some(engaged) = &mut step.record.change().engaged
        {
            engaged.ceiling = Some(ceiling);
        }
        step.answer(attempt, Answer::Stopped { ports });
    }

    /// A process on this node says something.
    pub(in super::super) fn on_report(
        &mut self,
        step: &mut Step<'_>,
        process: ProcessId,
        report: ReconfigurationReport,
    ) {
        match report {
            ReconfigurationReport::Ready { port } => self.on_ready(step, process, port),
            ReconfigurationReport::Ahead { attempt } => self.on_ahead(step, process, attempt),
            ReconfigurationReport::AtCeiling { iteration, port } => {
                self.standing.insert(process, (iteration, port));
                self.check_stopped(step);
            }
            ReconfigurationReport::Met { attempt } => {
                if !self.is_current(step, process, attempt) {
                    return;
                }
                if let Work::Meeting { met, .. } = &mut self.work {
                    met.insert(process);
                    self.check_met(step);
                }
            }
            ReconfigurationReport::Moved {
                attempt,
                sent,
                received,
            } => {
                if self.is_current(step, process, attempt) {
                    self.on_moved(step, process, sent, received);
                }
            }
            ReconfigurationReport::Failed {
                attempt,
                trouble,
                reason,
            } => {
                if self.is_current(step, process, attempt) {
                    let failure = match trouble {
                        Trouble::Joining => Failure::NotJoined { process, reason },
                        Trouble::Moving => Failure::NotMoved { process, reason },
                        Trouble::Program => Failure::Refused { process, reason },
                    };
                    self.fail(step, failure);
                }
            }
            ReconfigurationReport::NotStanding { attempt } => {
                if self.is_current(step, process, attempt) {
                    self.fail(step, Failure::NotStanding { process });
                }
            }
            ReconfigurationReport::Settled { attempt, held_us } => self.on_settled(step, process, attempt, held_us),
        }
    }

    /// Whether a report is about an undecided attempt; otherwise tells the process what became of it.
    fn is_current(&mut self, step: &mut Step<'_>, process: ProcessId, attempt: Attempt) -> bool {
        if Self::undecided(step.record, attempt).is_some() {
            return true;
        }
        step.dropped.stale_attempt += 1;
        let mode = step
            .record
            .engaged
            .as_ref()
            .filter(|e| e.attempt == attempt)
            .map_or(Mode::Live, |e| e.plan.mode);
        if let Some(decision) = step.record.fate(attempt) {
            let committed = decision == Decision::Committed;
            step.tell(
                process,
                ReconfigurationOrder::Decided {
                    attempt,
                    committed,
                    mode,
                },
            );
        }
        false
    }

    fn on_ready(&mut self, step: &mut Step<'_>, process: ProcessId, port: String) {
        let engaged = step.record.engaged.as_ref();
        let is_newcomer = engaged.is_some_and(|e| e.plan.newcomers().any(|m| m.process == process));
        match &mut self.work {
            Work::Preparing { ready, .. } if is_newcomer => {
                ready.insert(process, port);
                self.check_prepared(step);
            }
            Work::Starting { ready, .. } if is_newcomer => {
                ready.insert(process);
                self.check_started(step);
            }
            _ if is_newcomer => step.dropped.duplicate += 1,
            _ if step.record.layout.as_ref().is_some_and(|l| l.member(process).is_some()) => {
                step.dropped.duplicate += 1
            }
            _ => step.end_process(process, EndCause::Unknown),
        }
    }

    /// Makes sure this daemon never agrees to the attempt, and says so.
    pub(super) fn fail(&mut self, step: &mut Step<'_>, failure: Failure) {
        let Some(engaged) = &step.record.engaged else { return };
        if engaged.stage.may_withdraw() && !matches!(self.work, Work::Failed { .. }) {
            step.answer(
                engaged.attempt,
                Answer::Failed {
                    failure: failure.clone(),
                },
            );
            self.work = Work::Failed { failure };
        }
    }

    /// Leaves an attempt that this daemon has not agreed to: it can never be committed then. Ranks that others may have
    /// been called to meet stay where they are.
    pub(in super::super) fn withdraw(&mut self, step: &mut Step<'_>, failure: Failure) {
        let Some(engaged) = &step.record.engaged else { return };
        if engaged.stage.may_withdraw() {
            let attempt = engaged.attempt;
            step.answer(
                attempt,
                Answer::Failed {
                    failure: failure.clone(),
                },
            );
            let reason = AbortReason::Failed {
                node: step.me.clone(),
                failure,
            };
            self.carry_out(step, Decision::Aborted { reason }, true);
        }
    }

    /// A newcomer or a restored process could not be started.
    pub(in super::super) fn on_start_failed(&mut self, step: &mut Step<'_>, process: ProcessId, reason: String) {
        self.exited.insert(process, false);
        let failure = Failure::StartFailed { process, reason };
        match self.work {
            Work::Preparing { .. } | Work::Starting { .. } => self.fail(step, failure),
            _ => self.on_exited(step, process, false),
        }
    }

    /// A rank left its loop: no ceiling will ever stop it.
    pub(in super::super) fn on_finalizing(&mut self, step: &mut Step<'_>, process: ProcessId) {
        self.finalizing.insert(process);
        let engaged = step.record.engaged.as_ref();
        if engaged.is_some_and(|e| e.plan.old.member(process).is_some()) {
            self.fail(step, Failure::JobEnding { process });
        }
    }
}
