//! The decision and everything after it, until it is carried out everywhere. The decision itself is one change of the
//! record: whoever sees the record knows it, and nobody hears of it before the record is safe.

use super::super::effects::{Report, Timer};
use super::super::planning::{Fresh, RelaunchTo, relaunch_of};
use super::super::step::Step;
use super::state::{Close, CloseStage, Coordinator, Course, State, millis};
use crate::moment::Moment;
use pcm_proto::event::{Moved, Reconfigured};
use pcm_proto::ids::{Bytes, Iteration, NodeName, Rank};
use pcm_proto::layout::{Mode, ModeWanted, Plan};
use pcm_proto::reconfiguration::{
    AbortReason, Answer, Attempt, Decision, Failure, Loss, Order, Phase, ReconfigurationMessage, Tally,
};
use std::collections::BTreeMap;

impl Coordinator {
    /// The commit point.
    pub(super) fn commit(&mut self, step: &mut Step<'_>, moved: Tally) {
        let State::Running(run) = &mut self.state else { return };
        let course = run.course.clone();
        self.decide(step, course, Decision::Committed, Phase::Moving, None, moved);
    }

    /// Before the decision, abort is always possible.
    pub(super) fn abort(&mut self, step: &mut Step<'_>, reason: AbortReason) {
        let State::Running(run) = &self.state else { return };
        // Ranks are inside MPI. Whether all come back decides what can follow, so none goes on before that is known.
        let stand = Self::holds_ranks(step);
        let (course, phase) = (run.course.clone(), run.step.phase(&run.course));
        self.decide(
            step,
            course,
            Decision::Aborted { reason },
            phase,
            stand,
            Tally::default(),
        );
    }

    pub(super) fn decide(
        &mut self,
        step: &mut Step<'_>,
        course: Course,
        decision: Decision,
        decided_in: Phase,
        stand: Option<Iteration>,
        moved: Tally,
    ) {
        if let Some(own) = &mut step.record.change().coordinator
            && let Some(open) = &mut own.open
        {
            open.decision = Some(decision.clone());
            open.ceiling = stand;
        }
        let decided_at = step.now;
        let (closed, stage) = (BTreeMap::new(), CloseStage::Telling);
        let mut close = Close {
            course,
            decision,
            decided_in,
            decided_at,
            stage,
            stand,
            closed,
            moved,
        };
        close.course.enter(step, Phase::Closing, step.limits.close_max);
        close.repeat(step);
        self.state = State::Closing(Box::new(close));
        self.check_closed(step);
    }

    pub(super) fn on_close_answer(&mut self, step: &mut Step<'_>, from: &NodeName, answer: Answer) {
        let State::Closing(close) = &mut self.state else { return };
        match answer {
            Answer::Closed { held_us, stuck } => {
                close.closed.insert(from.clone(), (held_us, stuck));
                self.check_closed(step);
            }
            // Whoever forgot the attempt, or left it before it was decided, has nothing to carry out.
            Answer::Failed { .. } if close.decision != Decision::Committed => {
                let (node, attempt) = (from.clone(), close.course.attempt);
                step.send_decided(&node, attempt, close.decision.clone(), close.stand.is_some());
            }
            _ => step.dropped.duplicate += 1,
        }
    }

    pub(super) fn check_closed(&mut self, step: &mut Step<'_>) {
        let State::Closing(close) = &mut self.state else { return };
        let missing = close.missing(step);
        if !missing.is_empty() {
            return;
        }
        match (close.stage, &close.decision) {
            (CloseStage::Telling, Decision::Committed) => self.finish_committed(step),
            (CloseStage::Telling, Decision::Aborted { .. }) if close.stand.is_some() => self.after_standing(step),
            _ => self.finish_aborted(step, None),
        }
    }

    /// Every rank is back at the ceiling, or will not come back. Either a relaunch follows or they go on.
    fn after_standing(&mut self, step: &mut Step<'_>) {
        let State::Closing(close) = &mut self.state else { return };
        let stuck = close.closed.values().find_map(|(_, stuck)| stuck.first().copied());
        let joins_failed = matches!(&close.decision, Decision::Aborted { reason } if is_failure_to_join(reason));
        let first = close.course.follows == 0;
        let follow = stuck.is_some() || (close.course.wanted == ModeWanted::Auto && joins_failed && first);
        if follow
            && close.course.follows < FOLLOWERS_MAX
            && let Some((plan, fresh)) = close.relaunch(step)
        {
            let (ceiling, wanted, began) = (close.stand, close.course.wanted, close.course.began);
            let follows = close.course.follows + 1;
            let next = self.begin(step, plan, fresh, wanted, ceiling);
            self.report_aborted(step, Some(next));
            return self.run(step, next, began, follows);
        }
        if let Some(process) = stuck {
            return self.bury(step, Loss::ProcessStuck { process });
        }
        close.stage = CloseStage::Releasing;
        close.stand = None;
        close.closed.clear();
        if let Some(own) = &mut step.record.change().coordinator
            && let Some(open) = &mut own.open
        {
            open.ceiling = None;
        }
        close.repeat(step);
    }

    fn report_aborted(&mut self, step: &mut Step<'_>, followed_by: Option<Attempt>) {
        let State::Closing(close) = &self.state else { return };
        if let Decision::Aborted { reason } = &close.decision {
            let (attempt, phase, reason) = (close.course.attempt, close.decided_in, reason.clone());
            step.report(Report::Aborted {
                attempt,
                phase,
                reason,
                followed_by,
            });
        }
    }

    fn finish_aborted(&mut self, step: &mut Step<'_>, followed_by: Option<Attempt>) {
        self.report_aborted(step, followed_by);
        self.finish(step);
    }

    fn finish_committed(&mut self, step: &mut Step<'_>) {
        let State::Closing(close) = &self.state else { return };
        let (attempt, event) = (close.course.attempt, Box::new(close.event(step.now)));
        step.report(Report::Reconfigured { attempt, event });
        self.finish(step);
    }

    fn finish(&mut self, step: &mut Step<'_>) {
        let State::Closing(close) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        if close.course.plan.mode == Mode::Relaunch {
            let (reign, attempt) = (step.record.promised, close.course.attempt);
            for node in &close.course.participants {
                step.send(
                    node,
                    ReconfigurationMessage::Order {
                        reign,
                        attempt,
                        order: Order::Release,
                    },
                );
            }
        }
        if let Some(own) = &mut step.record.change().coordinator {
            own.open = None;
        }
    }

    pub(super) fn on_close_deadline(&mut self, step: &mut Step<'_>) {
        let State::Closing(close) = &self.state else { return };
        let missing = close.missing(step);
        let needed = close.layout_that_counts();
        let host = missing.iter().find(|node| needed.processes_on(node).next().is_some());
        match host {
            Some(node) => self.bury(step, Loss::NotSettled { node: node.clone() }),
            // They have no rank of the layout that counts, and learn the decision when they ask for it.
            None => {
                let State::Closing(close) = &mut self.state else { return };
                for node in missing {
                    close.closed.insert(node, (0, Vec::new()));
                }
                let attempt = close.course.attempt;
                self.check_closed(step);
                if let State::Closing(close) = &self.state
                    && close.course.attempt == attempt
                {
                    let phase = Phase::Closing;
                    step.arm(Timer::Deadline { attempt, phase }, step.limits.close_max);
                }
            }
        }
    }
}

/// Relaunches tried for ranks that hang in MPI. One is enough unless a daemon is killed or a node is away meanwhile.
const FOLLOWERS_MAX: u32 = 3;

fn is_failure_to_join(reason: &AbortReason) -> bool {
    match reason {
        AbortReason::Deadline { phase } => matches!(phase, Phase::Meeting | Phase::Moving),
        AbortReason::Failed { failure, .. } => matches!(failure, Failure::NotJoined { .. } | Failure::NotMoved { .. }),
        AbortReason::TallyMismatch { .. } => true,
        _ => false,
    }
}

impl Close {
    fn layout_that_counts(&self) -> &pcm_proto::layout::Layout {
        match self.decision {
            Decision::Committed => &self.course.plan.new,
            Decision::Aborted { .. } => &self.course.plan.old,
        }
    }

    /// Participants whose answer is still needed. A node that is away and has no rank of the layout that counts is not
    /// waited for: it can only learn what everybody else knows.
    fn missing(&self, step: &Step<'_>) -> Vec<NodeName> {
        let layout = self.layout_that_counts();
        let missing = self
            .course
            .participants
            .iter()
            .filter(|node| !self.closed.contains_key(*node));
        let needed =
            missing.filter(|node| !step.absent.contains_key(*node) || layout.processes_on(node).next().is_some());
        needed.cloned().collect()
    }

    /// Says again what is not answered. Those who left their ranks standing also need a sign of life.
    pub(super) fn repeat(&self, step: &mut Step<'_>) {
        let attempt = self.course.attempt;
        let waiting = self.course.participants.iter().filter(|node| match self.stage {
            CloseStage::Telling if self.stand.is_some() => true,
            _ => !self.closed.contains_key(*node),
        });
        for node in waiting {
            step.send_decided(node, attempt, self.decision.clone(), self.stand.is_some());
        }
    }

    /// The same plan by relaunch, which does what was ordered while the ranks start anew in any case; the old places
    /// where a node of the plan is away.
    fn relaunch(&self, step: &Step<'_>) -> Option<(Plan, Fresh)> {
        let own = step.record.coordinator.as_ref()?;
        let fresh = Fresh {
            process: own.next_process,
            world: own.next_world,
        };
        let plan = &self.course.plan;
        let is_away = plan.new.nodes().iter().any(|node| step.absent.contains_key(node));
        let to = match is_away {
            true => RelaunchTo::OldPlaces,
            false => RelaunchTo::Planned,
        };
        relaunch_of(plan, to, fresh).ok()
    }

    fn event(&self, now: Moment) -> Reconfigured {
        let plan = &self.course.plan;
        let held_us = self.closed.values().map(|(held, _)| *held).max().unwrap_or(0);
        // In a relaunch no process lives through the pause: it lasts from the ceiling until the new ranks may run.
        let stopped = self
            .course
            .phases
            .iter()
            .find(|(phase, _)| matches!(phase, Phase::Meeting | Phase::Moving));
        let pause_ms = match (plan.mode, stopped) {
            (Mode::Relaunch, Some((_, at))) => millis(self.decided_at.since(*at)),
            _ => held_us as f64 / 1000.0,
        };
        Reconfigured {
            plan: plan.kind.as_str().to_owned(),
            cause: plan.cause.clone(),
            ranks_before: plan.old.size() as u32,
            ranks_after: plan.new.size() as u32,
            moved: moved(plan),
            bytes_moved: Bytes(self.moved.bytes.0.saturating_add(self.moved.ahead.0)),
            bytes_ahead: self.moved.ahead,
            pause_ms,
            mode: plan.mode,
            method: (plan.mode == Mode::Live).then_some(plan.method),
            method_reason: None,
            placement: None,
            total_ms: millis(self.decided_at.since(self.course.began)),
            phases_ms: self.course.phases_ms(now),
        }
    }
}

/// Ranks that run elsewhere, came, or went.
fn moved(plan: &Plan) -> Vec<Moved> {
    let old_node = |rank: Rank| plan.old.members.get(rank.0 as usize).map(|m| m.node.clone());
    let mut moved = Vec::new();
    for ((member, continued), rank) in plan.new.members.iter().zip(&plan.continues).zip(0..) {
        let from = continued.and_then(old_node);
        if from.as_ref() != Some(&member.node) {
            moved.push(Moved {
                rank: Rank(rank),
                from,
                to: Some(member.node.clone()),
            });
        }
    }
    let gone = (0..)
        .take(plan.old.size())
        .map(Rank)
        .filter(|rank| !plan.continues.contains(&Some(*rank)));
    moved.extend(gone.map(|rank| Moved {
        rank,
        from: old_node(rank),
        to: None,
    }));
    moved
}
