//! What a participant is doing, and the questions its handlers share. Everything here can be lost; what must not be is
//! in the record.

use super::super::record::{Engagement, JobRecord, Stage};
use super::super::step::Step;
use pcm_proto::ids::{Iteration, NodeName, ProcessId};
use pcm_proto::layout::Plan;
use pcm_proto::reconfiguration::{Answer, Attempt, Failure, Tally, WorldPort};
use std::collections::{BTreeMap, BTreeSet};

/// What a participant is doing about the attempt it is engaged in, or has just closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Quiet,
    /// Waiting for newcomers to be initialised, and for what travels ahead to the old ranks here.
    Preparing {
        ready: BTreeMap<ProcessId, String>,
        ahead: BTreeSet<ProcessId>,
        standing: Option<Iteration>,
    },
    Prepared {
        ports: Vec<WorldPort>,
        standing: Option<Iteration>,
    },
    /// A ceiling is set or being set.
    Converging {
        round: u32,
        ceiling: Iteration,
        started: BTreeMap<ProcessId, Iteration>,
        /// The end of their loops, as far as any declared it.
        ends: Option<Iteration>,
    },
    /// The ceiling is final.
    Stopping {
        ceiling: Iteration,
    },
    /// The processes join and move, or park.
    Meeting {
        met: BTreeSet<ProcessId>,
        moved: BTreeMap<ProcessId, (Tally, Tally)>,
    },
    /// Relaunch: all data of the old processes here is parked.
    Parked {
        parked: Tally,
    },
    /// Relaunch: the new processes start and take up what is parked, while the old ones stand.
    Starting {
        ready: BTreeSet<ProcessId>,
        parked: Tally,
    },
    /// Has agreed; waits for the decision.
    Agreed,
    /// Has agreed, could not learn the decision, and ended its processes.
    GivenUp,
    /// Will not agree; waits for the abort.
    Failed {
        failure: Failure,
    },
    /// Carries out the decision.
    Settling {
        settle: BTreeSet<ProcessId>,
        leave: BTreeSet<ProcessId>,
        held_us: u64,
    },
}

/// How the last attempt was closed here, to be able to say it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) attempt: Attempt,
    pub(super) held_us: u64,
}

/// A daemon's part in the reconfigurations of one job.
#[derive(Debug)]
pub(in super::super) struct Participant {
    pub(super) work: Work,
    /// Where ranks stand, and the port the one with rank 0 opened.
    pub(super) standing: BTreeMap<ProcessId, (Iteration, String)>,
    /// Processes that ended, and whether they had finished.
    pub(super) exited: BTreeMap<ProcessId, bool>,
    /// Processes that left their loop.
    pub(super) finalizing: BTreeSet<ProcessId>,
    /// Words of the coordinator heard, as a sign of its life.
    pub(super) heard: u64,
    pub(super) closed: Option<Closed>,
    /// Whether the end of the lost job's processes was ordered and must be confirmed.
    pub(super) is_burial_ordered: bool,
}

impl Participant {
    pub(in super::super) fn new() -> Self {
        Self {
            work: Work::Quiet,
            standing: BTreeMap::new(),
            exited: BTreeMap::new(),
            finalizing: BTreeSet::new(),
            heard: 0,
            closed: None,
            is_burial_ordered: false,
        }
    }

    pub(super) fn has_exited(&self, process: ProcessId) -> bool {
        self.exited.contains_key(&process)
    }

    /// Local members of the old layout that still live.
    pub(super) fn old_here(&self, plan: &Plan, me: &NodeName) -> Vec<ProcessId> {
        plan.old.processes_on(me).filter(|p| !self.has_exited(*p)).collect()
    }

    /// Every local process whose part is needed before this daemon can agree.
    pub(super) fn needed_here(plan: &Plan, me: &NodeName) -> Vec<ProcessId> {
        let live = plan.mode == pcm_proto::layout::Mode::Live;
        let newcomers = plan.newcomers().filter(|m| live && m.node == *me).map(|m| m.process);
        plan.old.processes_on(me).chain(newcomers).collect()
    }

    /// Answers the last order again, as far as it has been carried out.
    pub(super) fn repeat_answer(&mut self, step: &mut Step<'_>) {
        step.dropped.duplicate += 1;
        let Some(engaged) = &step.record.engaged else { return };
        let (attempt, me) = (engaged.attempt, step.me);
        let answer = match &self.work {
            Work::Prepared { ports, .. } => Some(Answer::Prepared { ports: ports.clone() }),
            Work::Converging {
                round, started, ends, ..
            } if self.old_here(&engaged.plan, me).iter().all(|p| started.contains_key(p)) => {
                let farthest = started.values().copied().max().unwrap_or_default();
                Some(Answer::CeilingSet {
                    round: *round,
                    started: farthest,
                    ends: *ends,
                })
            }
            Work::Stopping { ceiling } if self.all_stand(&engaged.plan, me, *ceiling, step.record) => {
                Some(Answer::Stopped {
                    ports: self.standing_ports(&engaged.plan),
                })
            }
            Work::Meeting { met, .. } if Self::needed_here(&engaged.plan, me).iter().all(|p| met.contains(p)) => {
                Some(Answer::Met)
            }
            Work::Parked { .. } => Some(Answer::Met),
            Work::Agreed | Work::GivenUp => match engaged.stage {
                Stage::Agreed { sent, received } => Some(Answer::Moved { sent, received }),
                _ => None,
            },
            Work::Failed { failure } => Some(Answer::Failed {
                failure: failure.clone(),
            }),
            _ => None,
        };
        if let Some(answer) = answer {
            step.answer(attempt, answer);
        }
    }

    /// Whether every rank here that is not stuck in MPI stands at the ceiling.
    pub(super) fn all_stand(&self, plan: &Plan, me: &NodeName, ceiling: Iteration, record: &JobRecord) -> bool {
        plan.old.processes_on(me).all(|process| {
            record.stuck.contains(&process) || self.standing.get(&process).is_some_and(|(at, _)| *at == ceiling)
        })
    }

    pub(super) fn standing_ports(&self, plan: &Plan) -> Vec<WorldPort> {
        let ports = self.standing.iter().filter(|(_, (_, port))| !port.is_empty());
        ports
            .filter_map(|(process, (_, port))| {
                let world = plan.old.member(*process)?.world;
                Some(WorldPort {
                    world,
                    port: port.clone(),
                })
            })
            .collect()
    }

    /// The attempt this daemon is engaged in, if it is this one and not yet decided.
    pub(super) fn undecided(record: &JobRecord, attempt: Attempt) -> Option<&Engagement> {
        let engaged = record.engaged.as_ref().filter(|e| e.attempt == attempt)?;
        (!matches!(engaged.stage, Stage::Deciding { .. })).then_some(engaged)
    }
}
