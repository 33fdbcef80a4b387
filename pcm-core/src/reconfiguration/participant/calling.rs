//! The meeting as a participant sees it: its ranks are called, again after the daemon was restarted, join and move, or
//! park; when all have, and in a relaunch the new processes have their data, the participant gives its word. Must never
//! call a rank that does not stand at the ceiling.

use super::super::effects::Effect;
use super::super::planning::meet_order;
use super::super::record::Stage;
use super::super::step::Step;
use super::work::{Participant, Work};
use crate::moment::micros;
use pcm_proto::ids::{Iteration, ProcessId};
use pcm_proto::layout::Mode;
use pcm_proto::reconfiguration::{Answer, Attempt, Failure, ReconfigurationOrder, Tally, WorldPort};
use std::collections::{BTreeMap, BTreeSet};

impl Participant {
    pub(super) fn on_meet(&mut self, step: &mut Step<'_>, at: Iteration, ports: Vec<WorldPort>, patience_us: u64) {
        let Some(engaged) = &step.record.engaged else { return };
        let stands = match &self.work {
            Work::Stopping { ceiling }
            | Work::Prepared {
                standing: Some(ceiling),
                ..
            } => *ceiling == at && self.all_stand(&engaged.plan, step.me, at, step.record),
            Work::Meeting { .. } | Work::Parked { .. } | Work::Agreed | Work::GivenUp | Work::Failed { .. } => {
                return self.repeat_answer(step);
            }
            _ => false,
        };
        if !stands {
            step.dropped.unexpected += 1;
            return;
        }
        if let Some(engaged) = &mut step.record.change().engaged {
            engaged.stage = Stage::Called;
            engaged.ceiling = Some(at);
            engaged.ports = ports;
        }
        self.call(step, patience_us);
        self.check_agreed(step);
    }

    /// The daemon was started again while its ranks were called. Whoever has heard the call ignores it now, whoever has
    /// not is still waited for by its mates inside MPI.
    pub(super) fn call_again(&mut self, step: &mut Step<'_>) {
        let patience_us = micros(step.limits.decision_patience(Mode::Live));
        self.call(step, patience_us);
    }

    fn call(&mut self, step: &mut Step<'_>, patience_us: u64) {
        self.work = Work::Meeting {
            met: BTreeSet::new(),
            moved: BTreeMap::new(),
        };
        let Some(engaged) = &step.record.engaged else { return };
        let (attempt, plan) = (engaged.attempt, engaged.plan.clone());
        let Some(ceiling) = engaged.ceiling else { return };
        let meeting = (plan.mode == Mode::Live).then(|| Box::new(meet_order(&plan, &engaged.ports)));
        for process in Self::needed_here(&plan, step.me) {
            match &meeting {
                Some(meeting) => {
                    let meeting = meeting.clone();
                    step.tell(
                        process,
                        ReconfigurationOrder::Meet {
                            attempt,
                            ceiling,
                            meeting,
                            patience_us,
                        },
                    );
                }
                None if step.record.stuck.contains(&process) => step.out.push(Effect::Salvage { process, attempt }),
                None => step.tell(
                    process,
                    ReconfigurationOrder::Park {
                        attempt,
                        ceiling,
                        size_after: plan.new.size() as u32,
                        patience_us,
                    },
                ),
            }
        }
    }

    /// The data of a stuck process was saved, or not.
    pub(in super::super) fn on_salvaged(
        &mut self,
        step: &mut Step<'_>,
        process: ProcessId,
        result: Result<Tally, String>,
    ) {
        match result {
            Ok(parked) => self.on_moved(step, process, parked, Tally::default()),
            Err(reason) => self.fail(step, Failure::NotMoved { process, reason }),
        }
    }

    pub(super) fn on_moved(&mut self, step: &mut Step<'_>, process: ProcessId, sent: Tally, received: Tally) {
        let Work::Meeting { met, moved } = &mut self.work else {
            step.dropped.duplicate += 1;
            return;
        };
        met.insert(process);
        moved.insert(process, (sent, received));
        self.check_met(step);
        self.check_agreed(step);
    }

    pub(super) fn check_met(&mut self, step: &mut Step<'_>) {
        let Work::Meeting { met, .. } = &self.work else { return };
        let Some(engaged) = &step.record.engaged else { return };
        if engaged.plan.mode == Mode::Live
            && Self::needed_here(&engaged.plan, step.me)
                .iter()
                .all(|p| met.contains(p))
        {
            step.answer(engaged.attempt, Answer::Met);
        }
    }

    /// Everything here has moved: that is the daemon's word, or in a relaunch what the new processes begin with.
    fn check_agreed(&mut self, step: &mut Step<'_>) {
        let Work::Meeting { moved, .. } = &self.work else {
            return;
        };
        let Some(engaged) = &step.record.engaged else { return };
        if !Self::needed_here(&engaged.plan, step.me)
            .iter()
            .all(|p| moved.contains_key(p))
        {
            return;
        }
        let (attempt, mode) = (engaged.attempt, engaged.plan.mode);
        let (sent, received) = moved
            .values()
            .fold((Tally::default(), Tally::default()), |(sent, received), one| {
                (sent.plus(one.0), received.plus(one.1))
            });
        match mode {
            Mode::Live => self.agree(step, attempt, sent, received),
            Mode::Relaunch => {
                self.work = Work::Parked { parked: sent };
                step.answer(attempt, Answer::Met);
            }
        }
    }

    /// The promise: from here on only the decision counts. It is in the record before anybody hears of it.
    fn agree(&mut self, step: &mut Step<'_>, attempt: Attempt, sent: Tally, received: Tally) {
        if let Some(engaged) = &mut step.record.change().engaged {
            engaged.stage = Stage::Agreed { sent, received };
        }
        self.work = Work::Agreed;
        step.answer(attempt, Answer::Moved { sent, received });
    }

    /// Relaunch: everything is parked everywhere. The new processes start while the old ones stand, so that nothing is
    /// lost should they not be able to take the data up.
    pub(super) fn on_start(&mut self, step: &mut Step<'_>) {
        let Work::Parked { parked } = self.work else {
            return self.repeat_answer(step);
        };
        if let Some(engaged) = &mut step.record.change().engaged {
            engaged.stage = Stage::Starting { parked };
        }
        self.start_new(step, parked);
    }

    /// Starts the new processes here; the driver starts none twice.
    pub(super) fn start_new(&mut self, step: &mut Step<'_>, parked: Tally) {
        let Some(engaged) = &step.record.engaged else { return };
        let (attempt, plan) = (engaged.attempt, engaged.plan.clone());
        self.start_worlds(step, attempt, &plan, true);
        let ready = BTreeSet::new();
        self.work = Work::Starting { ready, parked };
        self.check_started(step);
    }

    /// Relaunch: the daemon gives its word when all new processes here have their data.
    pub(super) fn check_started(&mut self, step: &mut Step<'_>) {
        let Work::Starting { ready, parked } = &self.work else {
            return;
        };
        let Some(engaged) = &step.record.engaged else { return };
        if engaged.plan.new.processes_on(step.me).all(|p| ready.contains(&p)) {
            let (attempt, parked) = (engaged.attempt, *parked);
            self.agree(step, attempt, parked, Tally::default());
        }
    }
}
