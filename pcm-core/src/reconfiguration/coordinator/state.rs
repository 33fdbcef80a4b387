//! What the coordinator is doing. What must survive it is in the record; everything here can be found again.

use super::super::ceiling::CeilingAgreement;
use super::super::effects::{Report, Timer};
use super::super::record::OpenAttempt;
use super::super::step::Step;
use crate::moment::{Moment, micros};
use pcm_proto::ids::{Iteration, NodeName, ProcessId};
use pcm_proto::layout::{ModeWanted, Plan};
use pcm_proto::reconfiguration::{Attempt, Decision, Loss, Phase, Tally, WorldPort};
use std::collections::{BTreeMap, BTreeSet};

/// Life of the coordinator between two decisions.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Holds the lease and does nothing, or does not hold it.
    Idle,
    /// An attempt is undecided.
    Running(Box<Run>),
    /// It is decided and being carried out.
    Closing(Box<Close>),
    /// Took over while an attempt may have been decided by the predecessor.
    Resolving(Box<Resolve>),
    /// The job is lost and being ended everywhere.
    Burying { loss: Loss, waiting: BTreeSet<NodeName> },
}

/// What stays the same from the first to the last phase of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) attempt: Attempt,
    pub(super) plan: Plan,
    pub(super) participants: Vec<NodeName>,
    pub(super) wanted: ModeWanted,
    /// How many attempts before it left the ranks standing where it begins: it is a relaunch then.
    pub(super) follows: u32,
    pub(super) began: Moment,
    pub(super) phases: Vec<(Phase, Moment)>,
}

/// An undecided attempt.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) course: Course,
    /// How often the orders were repeated.
    pub(super) repeats: u32,
    pub(super) step: RunStep,
}

/// How far it is.
#[derive(Clone, Debug)]
pub(super) enum RunStep {
    Preparing {
        prepared: BTreeMap<NodeName, Vec<WorldPort>>,
        standing: Option<Iteration>,
    },
    Converging {
        agreement: CeilingAgreement,
        ports: Vec<WorldPort>,
    },
    Stopping {
        ceiling: Iteration,
        ports: Vec<WorldPort>,
        stopped: BTreeMap<NodeName, Vec<WorldPort>>,
    },
    Meeting {
        ceiling: Iteration,
        ports: Vec<WorldPort>,
        met: BTreeSet<NodeName>,
        moved: BTreeMap<NodeName, (Tally, Tally)>,
    },
    /// Relaunch: all data is parked; the new processes start and take it up.
    Starting { moved: BTreeMap<NodeName, (Tally, Tally)> },
}

/// How far the carrying out of a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseStage {
    /// Everybody is told.
    Telling,
    /// Ranks that were left standing are let go.
    Releasing,
}

/// A decided attempt.
#[derive(Clone, Debug)]
pub(super) struct Close {
    pub(super) course: Course,
    pub(super) decision: Decision,
    pub(super) decided_in: Phase,
    pub(super) decided_at: Moment,
    pub(super) stage: CloseStage,
    /// Ranks return to this ceiling and stay there until it is clear whether a relaunch follows.
    pub(super) stand: Option<Iteration>,
    pub(super) closed: BTreeMap<NodeName, (u64, Vec<ProcessId>)>,
    pub(super) moved: Tally,
}

/// An attempt of a predecessor whose fate is not known.
#[derive(Clone, Debug)]
pub(super) struct Resolve {
    pub(super) attempt: Attempt,
    pub(super) plan: Plan,
    /// Who answered, and whether it had agreed.
    pub(super) answers: BTreeMap<NodeName, bool>,
    /// Where ranks stand, as far as anybody who answered said.
    pub(super) stand: Option<Iteration>,
}

/// The coordinator of one job on one daemon.
#[derive(Debug)]
pub(in super::super) struct Coordinator {
    pub(super) state: State,
    /// How often each node with ranks was away.
    pub(super) absences: BTreeMap<NodeName, u32>,
}

impl Coordinator {
    pub(in super::super) fn new() -> Self {
        Self {
            state: State::Idle,
            absences: BTreeMap::new(),
        }
    }

    /// The attempt under way and its phase.
    pub(in super::super) fn under_way(&self) -> Option<(Attempt, Phase)> {
        match &self.state {
            State::Running(run) => Some((run.course.attempt, run.step.phase(&run.course))),
            State::Closing(close) => Some((close.course.attempt, Phase::Closing)),
            State::Resolving(resolve) => Some((resolve.attempt, Phase::Closing)),
            State::Idle | State::Burying { .. } => None,
        }
    }

    /// Whether ranks stand at a ceiling until this coordinator lets them go.
    pub(super) fn holds_ranks(step: &Step<'_>) -> Option<Iteration> {
        step.record.coordinator.as_ref()?.open.as_ref()?.ceiling
    }

    /// The lease has moved on: whatever is under way is the successor's.
    pub(in super::super) fn resign(&mut self, step: &mut Step<'_>) {
        self.state = State::Idle;
        let reign = step.record.promised;
        step.report(Report::LeaseLost { reign });
    }

    /// A node is away.
    pub(in super::super) fn on_node_gone(&mut self, step: &mut Step<'_>, node: &NodeName) {
        let absence = self.absences.entry(node.clone()).or_insert(0);
        *absence += 1;
        let absence = *absence;
        if !step.record.is_holder() {
            return;
        }
        if step
            .record
            .layout
            .as_ref()
            .is_some_and(|l| l.processes_on(node).next().is_some())
        {
            let gone_max = step.limits.gone_max;
            step.arm(
                Timer::NodeLost {
                    node: node.clone(),
                    absence,
                },
                gone_max,
            );
        }
        self.look_at_absence(step, node);
    }

    /// A node is back without record and processes.
    pub(in super::super) fn on_node_reborn(&mut self, step: &mut Step<'_>, node: &NodeName) {
        if !step.record.is_holder() || matches!(self.state, State::Burying { .. }) {
            return;
        }
        self.look_at_absence(step, node);
        if step
            .record
            .layout
            .as_ref()
            .is_some_and(|l| l.processes_on(node).next().is_some())
        {
            self.bury(step, Loss::NodeGone { node: node.clone() });
        }
    }

    fn look_at_absence(&mut self, step: &mut Step<'_>, node: &NodeName) {
        match &self.state {
            State::Running(run) if run.course.participants.contains(node) => {
                let node = node.clone();
                self.abort(step, pcm_proto::reconfiguration::AbortReason::NodeGone { node });
            }
            State::Closing(_) => self.check_closed(step),
            _ => {}
        }
    }

    pub(in super::super) fn on_node_lost(&mut self, step: &mut Step<'_>, node: NodeName, absence: u32) {
        let hosts = step
            .record
            .layout
            .as_ref()
            .is_some_and(|l| l.processes_on(&node).next().is_some());
        let is_same = self.absences.get(&node) == Some(&absence) && step.is_gone(&node);
        if hosts && is_same && step.record.is_holder() && !matches!(self.state, State::Burying { .. }) {
            self.bury(step, Loss::NodeGone { node });
        } else {
            step.dropped.stale_timer += 1;
        }
    }
}

impl Course {
    pub(super) fn of(open: &OpenAttempt, began: Moment, follows: u32) -> Self {
        let plan = open.plan.clone();
        Self {
            attempt: open.attempt,
            participants: plan.participants(),
            plan,
            wanted: open.wanted,
            follows,
            began,
            phases: Vec::new(),
        }
    }

    pub(super) fn enter(&mut self, step: &mut Step<'_>, phase: Phase, at_most: std::time::Duration) {
        let attempt = self.attempt;
        self.phases.push((phase, step.now));
        step.report(Report::PhaseBegan { attempt, phase });
        step.arm(Timer::Deadline { attempt, phase }, at_most);
    }

    /// Milliseconds by phase.
    pub(super) fn phases_ms(&self, now: Moment) -> Vec<(String, f64)> {
        let ends = self.phases.iter().skip(1).map(|(_, at)| *at).chain([now]);
        let spans = self.phases.iter().zip(ends);
        spans
            .map(|((phase, at), end)| (phase.as_str().to_owned(), millis(end.since(*at))))
            .collect()
    }
}

pub(super) fn millis(span: std::time::Duration) -> f64 {
    micros(span) as f64 / 1000.0
}

impl RunStep {
    pub(super) fn phase(&self, course: &Course) -> Phase {
        match self {
            Self::Preparing { .. } => Phase::Preparing,
            Self::Converging { .. } | Self::Stopping { .. } => Phase::Converging,
            Self::Starting { .. } => Phase::Starting,
            Self::Meeting { met, .. } => {
                let live = course.plan.mode == pcm_proto::layout::Mode::Live;
                if live && met.len() < course.participants.len() {
                    Phase::Meeting
                } else {
                    Phase::Moving
                }
            }
        }
    }
}
