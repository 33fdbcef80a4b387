//! The first thing a coordinator does when it was started again, or has just taken the lease: finish what was begun.

use super::super::effects::{Report, Timer};
use super::super::record::OpenAttempt;
use super::super::step::{Absence, Step};
use super::state::{Coordinator, Course, Resolve, State};
use pcm_proto::ids::{Iteration, NodeName};
use pcm_proto::layout::{Mode, ModeWanted, Plan};
use pcm_proto::reconfiguration::{
    AbortReason, Attempt, Decision, LeaseMessage, Loss, Phase, ReconfigurationMessage, Standing, Tally,
};
use std::collections::BTreeMap;

impl Coordinator {
    /// The daemon was started again and still holds the lease.
    pub(in super::super) fn on_restart(&mut self, step: &mut Step<'_>) {
        if let Some(loss) = step.record.lost.clone() {
            return self.bury(step, loss);
        }
        let open = step.record.coordinator.as_ref().and_then(|own| own.open.clone());
        let Some(mut open) = open else {
            // It had just taken the lease and did not yet know what its predecessor had decided.
            let own = step.record.standing();
            if let Some((attempt, plan, _)) = own.engaged.clone() {
                self.resolve(step, attempt, plan, &BTreeMap::from([(step.me.clone(), own)]));
            }
            return;
        };
        if let (None, Mode::Live, Some(ceiling), Some(ports)) =
            (&open.decision, open.plan.mode, open.ceiling, open.called.take())
        {
            return self.call_again(step, &open, ceiling, ports);
        }
        // Nothing was decided before it was written down, so an attempt without a decision can still be aborted.
        let decision = open.decision.take().unwrap_or(Decision::Aborted {
            reason: AbortReason::CoordinatorRestarted,
        });
        self.close_inherited(step, open, decision);
    }

    /// The lease was won; `answers` come from a majority of the voters, this daemon included.
    pub(in super::super) fn take_over(&mut self, step: &mut Step<'_>, answers: &BTreeMap<NodeName, Standing>) {
        let reign = step.record.promised;
        step.report(Report::LeaseTaken { reign });
        if let Some(loss) = answers.values().find_map(|s| s.lost.clone()) {
            return self.bury(step, loss);
        }
        let absent: Vec<(NodeName, Absence)> = step.absent.iter().map(|(node, how)| (node.clone(), *how)).collect();
        let (epoch, made_by) = (step.record.epoch(), step.record.made_by);
        let engaged = answers.values().filter_map(|s| s.engaged.as_ref());
        let open = engaged.filter(|(attempt, ..)| attempt.epoch == epoch || Some(*attempt) == made_by);
        let newest = open.max_by_key(|(attempt, ..)| *attempt);
        match newest.map(|(attempt, plan, _)| (*attempt, plan.clone())) {
            Some((attempt, plan)) => self.resolve(step, attempt, plan, answers),
            None => self.state = State::Idle,
        }
        for (node, how) in absent {
            match how {
                Absence::Gone => self.on_node_gone(step, &node),
                Absence::Forgot => self.on_node_reborn(step, &node),
            }
        }
    }

    fn resolve(&mut self, step: &mut Step<'_>, attempt: Attempt, plan: Plan, answers: &BTreeMap<NodeName, Standing>) {
        let known = answers
            .values()
            .filter_map(|s| s.decided.as_ref())
            .find(|(decided, _)| *decided == attempt);
        let known = known
            .map(|(_, decision)| decision.clone())
            .or_else(|| step.record.fate(attempt));
        let stand = answers.values().find_map(|s| stands(s, attempt));
        if let Some(decision) = known {
            return self.close_inherited(step, inherited(attempt, plan, stand), decision);
        }
        let agreed = |s: &Standing| matches!(&s.engaged, Some((a, _, true)) if *a == attempt);
        let answers = answers.iter().map(|(node, s)| (node.clone(), agreed(s))).collect();
        let resolve = Resolve {
            attempt,
            plan,
            answers,
            stand,
        };
        self.state = State::Resolving(Box::new(resolve));
        self.check_resolved(step);
        let (reign, undecided_max) = (step.record.promised, step.limits.undecided_max);
        if matches!(self.state, State::Resolving(_)) {
            step.arm(Timer::Unresolved { attempt, reign }, undecided_max);
            step.arm(Timer::Resend { attempt, reign }, step.limits.resend_every);
        }
    }

    /// A voter repeats its promise, perhaps with news, or gives it when others were enough.
    pub(in super::super) fn on_standing(&mut self, step: &mut Step<'_>, from: &NodeName, standing: &Standing) {
        let State::Resolving(resolve) = &mut self.state else {
            return;
        };
        let agreed = matches!(&standing.engaged, Some((a, _, true)) if *a == resolve.attempt);
        resolve.answers.insert(from.clone(), agreed);
        resolve.stand = resolve.stand.or(stands(standing, resolve.attempt));
        self.check_resolved(step);
    }

    /// One participant that has not agreed and, having promised, never will, proves that nothing was committed. So does
    /// the silence of all: whoever decided is among the participants, and a decision stands in its answer.
    fn check_resolved(&mut self, step: &mut Step<'_>) {
        let State::Resolving(resolve) = &self.state else { return };
        let participants = resolve.plan.participants();
        let mut answers = participants.iter().map(|node| resolve.answers.get(node));
        let has_refusal = answers.clone().any(|answer| answer == Some(&false));
        let is_complete = answers.all(|answer| answer.is_some());
        if has_refusal || is_complete {
            let open = inherited(resolve.attempt, resolve.plan.clone(), resolve.stand);
            let decision = Decision::Aborted {
                reason: AbortReason::CoordinatorReplaced,
            };
            self.close_inherited(step, open, decision);
        }
    }

    /// Somebody else knew what became of the attempt.
    pub(in super::super) fn on_fate_known(&mut self, step: &mut Step<'_>) {
        let State::Resolving(resolve) = &self.state else { return };
        if let Some(decision) = step.record.fate(resolve.attempt) {
            let open = inherited(resolve.attempt, resolve.plan.clone(), resolve.stand);
            self.close_inherited(step, open, decision);
        }
    }

    pub(in super::super) fn on_unresolved(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        match &self.state {
            State::Resolving(resolve) if resolve.attempt == attempt => self.bury(step, Loss::Undecided { attempt }),
            _ => step.dropped.stale_timer += 1,
        }
    }

    fn close_inherited(&mut self, step: &mut Step<'_>, open: OpenAttempt, decision: Decision) {
        let (attempt, course) = (open.attempt, Course::of(&open, step.now, 0));
        let stand = open.ceiling.filter(|_| decision != Decision::Committed);
        if let Some(own) = &mut step.record.change().coordinator {
            own.open = Some(open);
        }
        self.decide(step, course, decision, Phase::Closing, stand, Tally::default());
        let (reign, every) = (step.record.promised, step.limits.resend_every);
        if matches!(self.state, State::Closing(_)) {
            step.arm(Timer::Resend { attempt, reign }, every);
        }
    }
}

/// An attempt of a predecessor. How it was wanted is not known; as a live one it is followed only by what has to be.
fn inherited(attempt: Attempt, plan: Plan, ceiling: Option<Iteration>) -> OpenAttempt {
    let (wanted, called, decision) = (ModeWanted::Live, None, None);
    OpenAttempt {
        attempt,
        plan,
        wanted,
        ceiling,
        called,
        decision,
    }
}

/// Where a voter's ranks stand, for this attempt or one that it follows.
fn stands(standing: &Standing, attempt: Attempt) -> Option<Iteration> {
    let (known, ..) = standing.engaged.as_ref()?;
    standing.ceiling.filter(|_| known.epoch == attempt.epoch)
}

impl Resolve {
    /// Asks everybody who has not answered, once more.
    pub(super) fn ask(&self, step: &mut Step<'_>) {
        let reign = step.record.promised;
        for node in self.plan.participants() {
            if !self.answers.contains_key(&node) {
                step.send(&node, ReconfigurationMessage::Lease(LeaseMessage::Ask { reign }));
            }
        }
    }
}
