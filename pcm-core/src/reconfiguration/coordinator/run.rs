//! An attempt from the request to the decision. Every order is repeated until it is answered; every phase has a
//! deadline; anything that goes wrong before the decision aborts.

use super::super::ceiling::{Agreement, CeilingAgreement};
use super::super::effects::{Report, Timer};
use super::super::planning::{self, Fresh, Ground};
use super::super::record::OpenAttempt;
use super::super::refusal::Refused;
use super::super::step::Step;
use super::state::{Coordinator, Course, Run, RunStep, State};
use crate::moment::{Moment, micros};
use pcm_proto::ids::{Iteration, NodeName, ProcessId, WorldId};
use pcm_proto::layout::{Mode, ModeWanted, Plan, PlanRequest};
use pcm_proto::reconfiguration::{
    AbortReason, Answer, Attempt, Failure, Order, Phase, ReconfigurationMessage, Tally, WorldPort,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Coordinator {
    /// Somebody asks for a reconfiguration.
    pub(in super::super) fn on_request(
        &mut self,
        step: &mut Step<'_>,
        request: &PlanRequest,
        floor: (ProcessId, WorldId),
        worlds_met: u32,
    ) {
        match self.plan(step, request, floor, worlds_met) {
            Ok((plan, fresh)) => {
                let (attempt, now) = (self.begin(step, plan, fresh, request.mode, None), step.now);
                step.report(Report::Accepted { attempt });
                self.run(step, attempt, now, 0);
            }
            Err(refused) => step.report(Report::Refused(refused)),
        }
    }

    fn plan(
        &self,
        step: &Step<'_>,
        request: &PlanRequest,
        floor: (ProcessId, WorldId),
        worlds_met: u32,
    ) -> Result<(Plan, Fresh), Refused> {
        let record = &step.record;
        if let Some(loss) = record.lost.clone().or_else(|| record.damage.clone()) {
            return Err(Refused::JobLost { loss });
        }
        if let Some((running, phase)) = self.under_way() {
            return Err(Refused::Busy { running, phase });
        }
        let (Some(old), Some(own), true) = (&record.layout, &record.coordinator, record.is_holder()) else {
            return Err(Refused::NotCoordinator {
                holder: record.holder.clone(),
            });
        };
        if let State::Burying { loss, .. } = &self.state {
            return Err(Refused::JobLost { loss: loss.clone() });
        }
        let fresh = Fresh {
            process: own.next_process.max(floor.0),
            world: own.next_world.max(floor.1),
        };
        let is_gone = |node: &NodeName| step.is_gone(node);
        let ground = Ground {
            old,
            me: step.me,
            limits: step.limits,
            worlds_met,
            is_gone: &is_gone,
        };
        planning::plan(request, &ground, fresh).map_err(Refused::Plan)
    }

    /// Writes the attempt down; nobody hears of it before that.
    pub(super) fn begin(
        &mut self,
        step: &mut Step<'_>,
        plan: Plan,
        fresh: Fresh,
        wanted: ModeWanted,
        standing: Option<Iteration>,
    ) -> Attempt {
        let record = step.record.change();
        let own = record
            .coordinator
            .as_mut()
            .expect("only the holder of the lease begins an attempt");
        own.attempts += 1;
        own.next_process = fresh.process;
        own.next_world = fresh.world;
        let attempt = Attempt {
            epoch: plan.old.epoch,
            term: own.reign.term,
            number: own.attempts,
        };
        own.open = Some(OpenAttempt {
            attempt,
            plan,
            wanted,
            ceiling: standing,
            called: None,
            decision: None,
        });
        attempt
    }

    /// Gives the first order of the attempt just begun.
    pub(super) fn run(&mut self, step: &mut Step<'_>, attempt: Attempt, began: Moment, follows: u32) {
        let open = step.record.coordinator.as_ref().and_then(|own| own.open.as_ref());
        let open = open.expect("the attempt was begun before");
        let (course, standing) = (Course::of(open, began, follows), open.ceiling);
        let first = RunStep::Preparing {
            prepared: BTreeMap::new(),
            standing,
        };
        self.go_on(
            step,
            attempt,
            course,
            first,
            (Phase::Preparing, step.limits.prepare_max),
        );
    }

    /// The daemon was started again while ranks were called: those who did not hear the call hear it now.
    pub(super) fn call_again(
        &mut self,
        step: &mut Step<'_>,
        open: &OpenAttempt,
        ceiling: Iteration,
        ports: Vec<WorldPort>,
    ) {
        let meeting = RunStep::Meeting {
            ceiling,
            ports,
            met: BTreeSet::new(),
            moved: BTreeMap::new(),
        };
        let course = Course::of(open, step.now, 0);
        self.go_on(
            step,
            open.attempt,
            course,
            meeting,
            (Phase::Meeting, step.limits.meet_max),
        );
    }

    fn go_on(
        &mut self,
        step: &mut Step<'_>,
        attempt: Attempt,
        mut course: Course,
        first: RunStep,
        (phase, at_most): (Phase, Duration),
    ) {
        course.enter(step, phase, at_most);
        let run = Run {
            course,
            repeats: 0,
            step: first,
        };
        run.broadcast(step);
        self.state = State::Running(Box::new(run));
        let (reign, every) = (step.record.promised, step.limits.resend_every);
        step.arm(Timer::Resend { attempt, reign }, every);
    }

    /// A participant answers.
    pub(in super::super) fn on_answer(
        &mut self,
        step: &mut Step<'_>,
        from: &NodeName,
        attempt: Attempt,
        answer: Answer,
    ) {
        match &mut self.state {
            State::Running(run) if run.course.attempt == attempt => {
                if !run.course.participants.contains(from) {
                    step.dropped.impossible += 1;
                    return;
                }
                match answer {
                    Answer::Failed { failure } => self.on_failed(step, from, failure),
                    answer => self.on_progress(step, from, answer),
                }
            }
            State::Closing(close) if close.course.attempt == attempt => self.on_close_answer(step, from, answer),
            _ => {
                step.dropped.stale_attempt += 1;
                let is_lagging = matches!(answer, Answer::Moved { .. } | Answer::Met | Answer::Prepared { .. });
                if let (Some(decision), true) = (step.record.fate(attempt), is_lagging) {
                    let stand = Self::holds_ranks(step).is_some();
                    step.send_decided(from, attempt, decision, stand);
                }
            }
        }
    }

    fn on_failed(&mut self, step: &mut Step<'_>, from: &NodeName, failure: Failure) {
        if let Failure::Busy { with } = &failure
            && let Some(decision) = step.record.fate(*with)
        {
            let stand = Self::holds_ranks(step).is_some();
            step.send_decided(from, *with, decision, stand);
        }
        self.abort(
            step,
            AbortReason::Failed {
                node: from.clone(),
                failure,
            },
        );
    }

    fn on_progress(&mut self, step: &mut Step<'_>, from: &NodeName, answer: Answer) {
        let State::Running(run) = &mut self.state else { return };
        let count = run.course.participants.len();
        match (&mut run.step, answer) {
            (RunStep::Preparing { prepared, .. }, Answer::Prepared { ports }) => {
                prepared.insert(from.clone(), ports);
                if prepared.len() == count {
                    self.after_preparing(step);
                }
            }
            (RunStep::Converging { agreement, .. }, Answer::CeilingSet { round, started, ends }) => {
                agreement.declare(round, ends);
                let outcome = agreement.on_answer(from, round, started);
                self.after_ceiling(step, outcome);
            }
            (RunStep::Stopping { stopped, .. }, Answer::Stopped { ports }) => {
                stopped.insert(from.clone(), ports);
                if stopped.len() == count {
                    self.after_stopping(step);
                }
            }
            (RunStep::Meeting { met, .. }, Answer::Met) => {
                met.insert(from.clone());
                self.after_met(step);
            }
            (RunStep::Starting { moved }, Answer::Moved { sent, received }) => {
                moved.insert(from.clone(), (sent, received));
                if moved.len() == count {
                    self.after_moved(step);
                }
            }
            (RunStep::Meeting { met, moved, .. }, Answer::Moved { sent, received }) => {
                met.insert(from.clone());
                moved.insert(from.clone(), (sent, received));
                let all = moved.len() == count;
                self.after_met(step);
                if all {
                    self.after_moved(step);
                }
            }
            (_, Answer::Closed { .. } | Answer::Failed { .. }) => step.dropped.unexpected += 1,
            _ => step.dropped.duplicate += 1,
        }
    }

    fn after_preparing(&mut self, step: &mut Step<'_>) {
        let State::Running(run) = &mut self.state else { return };
        let RunStep::Preparing { prepared, standing } = &run.step else {
            return;
        };
        let ports: Vec<_> = prepared.values().flatten().cloned().collect();
        run.step = match *standing {
            Some(ceiling) => RunStep::Stopping {
                ceiling,
                ports,
                stopped: BTreeMap::new(),
            },
            None => {
                let hosts = run.course.participants.iter().cloned();
                RunStep::Converging {
                    agreement: CeilingAgreement::new(hosts, step.limits.rounds_max),
                    ports,
                }
            }
        };
        run.course.enter(step, Phase::Converging, step.limits.converge_max);
        run.broadcast(step);
    }

    fn after_ceiling(&mut self, step: &mut Step<'_>, outcome: Agreement) {
        let State::Running(run) = &mut self.state else { return };
        let RunStep::Converging { agreement, ports } = &mut run.step else {
            return;
        };
        match outcome {
            Agreement::Open => {}
            Agreement::Raised => run.broadcast(step),
            Agreement::Agreed(ceiling) => {
                let ports = std::mem::take(ports);
                run.step = RunStep::Stopping {
                    ceiling,
                    ports,
                    stopped: BTreeMap::new(),
                };
                run.broadcast(step);
            }
            Agreement::EndsFirst { left } => self.abort(step, AbortReason::EndsFirst { left }),
            Agreement::Exhausted => {
                let rounds = agreement.rounds();
                self.abort(step, AbortReason::NoCeiling { rounds });
            }
            Agreement::Ending => {
                let process = run.course.plan.old.members.first().map_or(ProcessId(0), |m| m.process);
                let (node, failure) = (step.me.clone(), Failure::JobEnding { process });
                self.abort(step, AbortReason::Failed { node, failure });
            }
        }
    }

    fn after_stopping(&mut self, step: &mut Step<'_>) {
        let State::Running(run) = &mut self.state else { return };
        let RunStep::Stopping {
            ceiling,
            ports,
            stopped,
        } = &mut run.step
        else {
            return;
        };
        let mut ports = std::mem::take(ports);
        ports.extend(stopped.values().flatten().cloned());
        if let Some(own) = &mut step.record.change().coordinator
            && let Some(open) = &mut own.open
        {
            open.ceiling = Some(*ceiling);
            open.called = Some(ports.clone());
        }
        run.step = RunStep::Meeting {
            ceiling: *ceiling,
            ports,
            met: BTreeSet::new(),
            moved: BTreeMap::new(),
        };
        match run.course.plan.mode {
            Mode::Live => run.course.enter(step, Phase::Meeting, step.limits.meet_max),
            Mode::Relaunch => run.course.enter(step, Phase::Moving, step.limits.move_max),
        }
        run.broadcast(step);
    }

    fn after_met(&mut self, step: &mut Step<'_>) {
        let State::Running(run) = &mut self.state else { return };
        let count = run.course.participants.len();
        if let (Mode::Relaunch, RunStep::Meeting { met, .. }) = (run.course.plan.mode, &run.step) {
            if met.len() == count {
                let moved = BTreeMap::new();
                run.step = RunStep::Starting { moved };
                run.course.enter(step, Phase::Starting, step.limits.start_max);
                run.broadcast(step);
            }
            return;
        }
        let has_begun = run.course.phases.iter().any(|(phase, _)| *phase == Phase::Moving);
        if !has_begun && run.step.phase(&run.course) == Phase::Moving {
            run.course.enter(step, Phase::Moving, step.limits.move_max);
        }
    }

    /// Everybody has agreed. This is where the reconfiguration is decided.
    fn after_moved(&mut self, step: &mut Step<'_>) {
        let State::Running(run) = &self.state else { return };
        let (RunStep::Meeting { moved, .. } | RunStep::Starting { moved }) = &run.step else {
            return;
        };
        let none = (Tally::default(), Tally::default());
        let (sent, received) = moved
            .values()
            .fold(none, |sum, one| (sum.0.plus(one.0), sum.1.plus(one.1)));
        if run.course.plan.mode == Mode::Live && sent != received {
            return self.abort(step, AbortReason::TallyMismatch { sent, received });
        }
        self.commit(step, sent);
    }

    pub(in super::super) fn on_deadline(&mut self, step: &mut Step<'_>, attempt: Attempt, phase: Phase) {
        match &self.state {
            State::Running(run) if run.course.attempt == attempt && run.step.phase(&run.course) == phase => {
                self.abort(step, AbortReason::Deadline { phase });
            }
            State::Closing(close) if close.course.attempt == attempt && phase == Phase::Closing => {
                self.on_close_deadline(step);
            }
            _ => step.dropped.stale_timer += 1,
        }
    }

    pub(in super::super) fn on_resend(&mut self, step: &mut Step<'_>, attempt: Attempt) {
        match &mut self.state {
            // To everybody, also those that have answered: it is the sign of life they go by.
            State::Running(run) if run.course.attempt == attempt => run.repeat(step),
            State::Closing(close) if close.course.attempt == attempt => close.repeat(step),
            State::Resolving(resolve) if resolve.attempt == attempt => resolve.ask(step),
            _ => {
                step.dropped.stale_timer += 1;
                return;
            }
        }
        let (reign, every) = (step.record.promised, step.limits.resend_every);
        step.arm(Timer::Resend { attempt, reign }, every);
    }

    pub(in super::super) fn on_cancel(&mut self, step: &mut Step<'_>) {
        match &self.state {
            State::Running(_) => self.abort(step, AbortReason::Cancelled),
            _ => step.dropped.unexpected += 1,
        }
    }
}

/// With the default period, a lost plan is sent again after a second, well within a participant's patience.
const REPEATS_PER_PLAN: u32 = 5;

impl Run {
    fn order(&self, step: &Step<'_>) -> Order {
        match &self.step {
            RunStep::Preparing { standing, .. } => {
                let plan = Box::new(self.course.plan.clone());
                let (made_by, standing) = (step.record.made_by, *standing);
                Order::Prepare {
                    plan,
                    made_by,
                    standing,
                }
            }
            RunStep::Converging { agreement, .. } => {
                let (round, ceiling) = agreement.asked();
                Order::SetCeiling { round, ceiling }
            }
            RunStep::Stopping { ceiling, .. } => Order::Stop { ceiling: *ceiling },
            RunStep::Meeting { ceiling, ports, .. } => {
                let (ceiling, ports) = (*ceiling, ports.clone());
                Order::Meet {
                    ceiling,
                    ports,
                    patience_us: micros(step.limits.decision_patience(self.course.plan.mode)),
                }
            }
            RunStep::Starting { .. } => Order::Start,
        }
    }

    fn broadcast(&self, step: &mut Step<'_>) {
        let (reign, attempt, order) = (step.record.promised, self.course.attempt, self.order(step));
        for node in &self.course.participants {
            step.send(
                node,
                ReconfigurationMessage::Order {
                    reign,
                    attempt,
                    order: order.clone(),
                },
            );
        }
    }

    /// A plan is large and newcomers take their time, so it is repeated less often than everything else.
    fn repeat(&mut self, step: &mut Step<'_>) {
        self.repeats += 1;
        let RunStep::Preparing { prepared, .. } = &self.step else {
            return self.broadcast(step);
        };
        let (reign, attempt) = (step.record.promised, self.course.attempt);
        let is_plan_due = self.repeats.is_multiple_of(REPEATS_PER_PLAN);
        for node in &self.course.participants {
            let order = match is_plan_due && !prepared.contains_key(node) {
                true => self.order(step),
                false => Order::Wait,
            };
            step.send(node, ReconfigurationMessage::Order { reign, attempt, order });
        }
    }
}
