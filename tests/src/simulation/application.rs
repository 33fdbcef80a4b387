//! What simulated processes do: start, iterate, stop, follow calls and decisions, end. Channels between a process and
//! its daemon keep their order and survive the daemon.

use super::cluster::{Happening, Simulation};
use super::invariants::Seen;
use super::process::{Activity, Call, Process, block};
use super::scenario::Plant;
use pcm_core::reconfiguration::effects::Input;
use pcm_core::reconfiguration::rank::{RankEffect, RankSide};
use pcm_core::reconfiguration::seat::Seat;
use pcm_proto::ids::{Iteration, ProcessId, Rank};
use pcm_proto::layout::Layout;
use pcm_proto::reconfiguration::{Attempt, ReconfigurationOrder, ReconfigurationReport};

const TICK_US: u64 = 500_000;

impl Simulation {
    pub(super) fn start_first(&mut self, process: ProcessId, node: usize, layout: &Layout) {
        let rank = layout.rank_of(process).unwrap_or_default();
        let mut first = Process::new(process, node, 0, rank);
        first.is_member = true;
        first.data = block(layout, self.scenario.elements, rank.0 as usize)
            .map(|index| (index, 0))
            .collect();
        first.side = Some(RankSide::member(rank, String::new(), self.limits.clone()));
        self.processes.insert(process, first);
        self.announce(process);
    }

    pub(super) fn on_initialised(&mut self, process: ProcessId, restored: Option<Attempt>) {
        let Some(own) = self.processes.get(&process).filter(|p| p.is_alive) else {
            return;
        };
        if let Some(attempt) = restored {
            return self.restore(process, attempt);
        }
        let attempt = self.attempt_of(own.id);
        let seat = self.newcomer_seat(process, attempt);
        let Seat::Newcomer { world, rank } = seat else { return };
        let (side, told) = RankSide::newcomer(
            self.moment(),
            world,
            rank,
            format!("port of {process}"),
            self.limits.clone(),
        );
        if let Some(own) = self.processes.get_mut(&process) {
            own.side = Some(side);
        }
        self.wait(process);
        self.follow(process, vec![told]);
        self.drain_inbox(process);
    }

    /// The top of the loop.
    pub(super) fn announce(&mut self, process: ProcessId) {
        let (end, planted) = (
            self.scenario.iterations,
            self.scenario.plant == Some(Plant::RankChecksBeforeAnnouncing),
        );
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        own.turn += 1;
        let (turn, node) = (own.turn, own.node);
        if own.iteration >= end {
            own.activity = Activity::Finished;
            own.started = u64::MAX;
            self.wake_neighbours(process);
            self.input(node, Input::Finalizing { process });
            let delay = self.random.between(5_000, 50_000);
            return self.after(
                delay,
                Happening::Ends {
                    process,
                    finished: true,
                },
            );
        }
        own.activity = Activity::Announced;
        if planted {
            own.peeked = Some(own.ceiling);
        } else {
            own.started = own.started.max(own.iteration + 1);
        }
        let delay = self.random.between(1, if planted { 3_000 } else { 60 });
        self.after(delay, Happening::LooksUp { process, turn });
        self.wake_neighbours(process);
    }

    pub(super) fn on_looks_up(&mut self, process: ProcessId, turn: u32) {
        let is_current = |p: &&mut Process| {
            p.is_alive && p.turn == turn && !p.is_stuck && matches!(p.activity, Activity::Announced | Activity::Waiting)
        };
        let Some(own) = self.processes.get_mut(&process).filter(is_current) else {
            return;
        };
        let is_first = own.activity == Activity::Announced;
        if is_first {
            own.activity = Activity::Waiting;
            own.started = own.started.max(own.iteration + 1);
            self.drain_inbox(process);
        }
        let now = self.moment();
        let Some(own) = self.processes.get_mut(&process).filter(|p| p.turn == turn) else {
            return;
        };
        let ceiling = Iteration(own.peeked.take().unwrap_or(own.ceiling));
        let iteration = Iteration(own.iteration);
        let Some(side) = &mut own.side else { return };
        let effects = side.on_top(now, iteration, ceiling);
        let proceeds = effects.contains(&RankEffect::Proceed);
        self.follow(process, effects);
        if is_first && !proceeds {
            self.after(TICK_US, Happening::Tick { process, turn });
        }
    }

    pub(super) fn on_tick(&mut self, process: ProcessId, turn: u32) {
        let now = self.moment();
        let is_current = |p: &&mut Process| p.is_alive && p.turn == turn && !p.is_stuck;
        let Some(own) = self.processes.get_mut(&process).filter(is_current) else {
            return;
        };
        if own.activity != Activity::Waiting {
            return;
        }
        let Some(side) = &mut own.side else { return };
        let effects = side.on_tick(now);
        if effects.contains(&RankEffect::Proceed) {
            self.seen.push(Seen::GoesOnUntold);
        }
        self.follow(process, effects);
        self.after(TICK_US, Happening::Tick { process, turn });
    }

    /// From now on it watches its page, its channel and the time.
    pub(super) fn wait(&mut self, process: ProcessId) {
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        own.activity = Activity::Waiting;
        own.turn += 1;
        let turn = own.turn;
        self.after(5, Happening::LooksUp { process, turn });
        self.after(TICK_US, Happening::Tick { process, turn });
    }

    fn begin_iteration(&mut self, process: ProcessId) {
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        own.turn += 1;
        own.activity = Activity::Computing;
        let (turn, epoch, iteration) = (own.turn, own.epoch, own.iteration);
        let sound = own.data.values().all(|value| *value == iteration);
        self.seen.push(Seen::Proceeds {
            process,
            epoch,
            iteration,
            sound,
        });
        let typical = self.scenario.iteration_us;
        let span = self.random.between(typical / 2, typical * 3 / 2);
        self.after(span, Happening::Computed { process, turn });
    }

    pub(super) fn on_computed(&mut self, process: ProcessId, turn: u32) {
        let is_current = |p: &&Process| p.is_alive && p.turn == turn;
        let Some(own) = self.processes.get(&process).filter(is_current) else {
            return;
        };
        let (epoch, iteration) = (own.epoch, own.iteration);
        let has_sent = |p: &Process| p.started > iteration;
        let mut neighbours = self.processes.values().filter(|p| p.is_member && p.epoch == epoch);
        let is_blocked = self.scenario.coupled && !neighbours.all(has_sent);
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        if is_blocked {
            own.activity = Activity::Blocked;
            return;
        }
        own.data.values_mut().for_each(|value| *value += 1);
        own.iteration += 1;
        self.announce(process);
    }

    fn wake_neighbours(&mut self, process: ProcessId) {
        let blocked: Vec<(ProcessId, u32)> = self
            .processes
            .values()
            .filter(|p| p.is_alive && p.activity == Activity::Blocked && p.id != process)
            .map(|p| (p.id, p.turn))
            .collect();
        for (process, turn) in blocked {
            self.after(20, Happening::Computed { process, turn });
        }
    }

    /// The page's ceiling is written; answers what the page announces.
    pub(super) fn set_ceiling(&mut self, process: ProcessId, ceiling: u64) -> Option<u64> {
        let own = self.processes.get_mut(&process).filter(|p| p.is_alive)?;
        own.ceiling = ceiling;
        let (turn, started) = (own.turn, own.started);
        if own.activity == Activity::Waiting {
            self.after(5, Happening::LooksUp { process, turn });
        } else if self.scenario.plant == Some(Plant::RankEntersAnywhere) && ceiling != u64::MAX {
            let (iteration, port) = (Iteration(ceiling), String::new());
            self.say(process, ReconfigurationReport::AtCeiling { iteration, port });
        }
        Some(started)
    }

    /// The channel delivers an order.
    pub(super) fn on_order(&mut self, process: ProcessId, order: ReconfigurationOrder) {
        let Some(own) = self.processes.get_mut(&process).filter(|p| p.is_alive) else {
            return;
        };
        own.inbox.push(order);
        if own.activity == Activity::Waiting && !own.is_stuck {
            self.drain_inbox(process);
        } else if self.scenario.plant == Some(Plant::RankEntersAnywhere) {
            self.enter_where_it_is(process);
        }
    }

    pub(super) fn drain_inbox(&mut self, process: ProcessId) {
        let now = self.moment();
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        for order in std::mem::take(&mut own.inbox) {
            let Some(own) = self.processes.get_mut(&process).filter(|p| p.is_alive) else {
                return;
            };
            let Some(side) = &mut own.side else { return };
            let called = match &order {
                ReconfigurationOrder::Meet {
                    attempt,
                    ceiling,
                    meeting,
                    ..
                } => Some((*attempt, *ceiling, Some(meeting.clone()))),
                ReconfigurationOrder::Park { attempt, ceiling, .. } => Some((*attempt, *ceiling, None)),
                _ => None,
            };
            let effects = side.on_order(now, order);
            let follows = effects
                .iter()
                .any(|e| matches!(e, RankEffect::Meet(_) | RankEffect::Park));
            if let Some((attempt, ceiling, meeting)) = called.filter(|_| follows) {
                own.call = Some(Call { attempt, meeting });
                own.turn += 1;
                if own.is_member {
                    let iteration = own.iteration;
                    self.seen.push(Seen::Enters {
                        process,
                        attempt,
                        iteration,
                    });
                } else {
                    own.iteration = ceiling.0;
                }
            }
            self.follow(process, effects);
        }
    }

    pub(super) fn follow(&mut self, process: ProcessId, effects: Vec<RankEffect>) {
        for effect in effects {
            self.follow_one(process, effect);
        }
    }

    fn follow_one(&mut self, process: ProcessId, effect: RankEffect) {
        match effect {
            RankEffect::Tell(report) => {
                let has_agreed = matches!(report, ReconfigurationReport::Moved { .. });
                self.say(process, report);
                if has_agreed {
                    self.after_agreeing(process);
                }
            }
            RankEffect::Proceed if self.processes.get(&process).is_some_and(|p| !p.is_member) => {
                self.begin_restored(process)
            }
            RankEffect::Proceed => self.begin_iteration(process),
            RankEffect::Meet(meeting) => self.enter_meeting(process, &meeting),
            RankEffect::Park => {
                let delay = self.random.between(500, 20_000);
                if let Some(turn) = self.processes.get(&process).map(|p| p.turn) {
                    self.after(delay, Happening::MoveEnds { process, turn });
                }
            }
            RankEffect::TakeUp { rank } => self.take_up(process, rank),
            RankEffect::Return => self.return_to_old(process),
            RankEffect::Leave => {
                self.seen.push(Seen::Leaves { process });
                let hangs = !self.is_healed && self.random.chance(self.scenario.leaver_hangs);
                let Some(own) = self.processes.get_mut(&process) else {
                    return;
                };
                own.turn += 1;
                own.is_member = false;
                if !hangs {
                    let delay = self.random.between(1_000, 50_000);
                    self.after(
                        delay,
                        Happening::Ends {
                            process,
                            finished: true,
                        },
                    );
                }
            }
            RankEffect::End(reason) => {
                self.tell(|| format!("process {process} ends itself: {reason:?}"));
                self.is_loss_reported = true;
                self.after(
                    0,
                    Happening::Ends {
                        process,
                        finished: false,
                    },
                );
            }
        }
    }

    /// Channels keep their order.
    fn say(&mut self, process: ProcessId, report: ReconfigurationReport) {
        let delay = self.random.between(10, 200);
        let now = self.now;
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        own.said_at = (now + delay).max(own.said_at + 1);
        let span = own.said_at - now;
        self.after(span, Happening::Report { process, report });
    }

    pub(super) fn tell_process(&mut self, process: ProcessId, order: ReconfigurationOrder) {
        let delay = self.random.between(10, 200);
        let now = self.now;
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        own.told_at = (now + delay).max(own.told_at + 1);
        let span = own.told_at - now;
        self.after(span, Happening::Order { process, order });
    }

    fn take_up(&mut self, process: ProcessId, rank: Rank) {
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        let (Some(call), Some(staged)) = (own.call.take(), own.staged.take()) else {
            return;
        };
        own.data = staged;
        own.epoch = call.attempt.epoch.0 + 1;
        own.rank = rank;
        own.is_member = true;
        own.started = own.started.max(own.iteration + 1);
        let (epoch, iteration) = (own.epoch, own.iteration);
        let elements = own.data.iter().map(|(index, value)| (*index, *value)).collect();
        self.seen.push(Seen::Leaves { process });
        self.seen.push(Seen::TakesUp {
            process,
            epoch,
            iteration,
            elements,
        });
        self.wake_neighbours(process);
    }

    fn return_to_old(&mut self, process: ProcessId) {
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        let Some(call) = own.call.take() else { return };
        own.staged = None;
        if own.is_member {
            self.seen.push(Seen::Leaves { process });
            self.seen.push(Seen::Returns {
                process,
                attempt: call.attempt,
            });
        }
        self.wait(process);
    }

    pub(super) fn on_ends(&mut self, process: ProcessId, finished: bool) {
        let Some(own) = self.processes.get_mut(&process).filter(|p| p.is_alive) else {
            return;
        };
        own.is_alive = false;
        own.turn += 1;
        if finished {
            own.activity = Activity::Finished;
        } else if own.activity == Activity::Finished {
            own.activity = Activity::Waiting;
        }
        let node = own.node;
        self.tell(|| format!("process {process} has ended (finished: {finished})"));
        self.seen.push(Seen::Leaves { process });
        let delay = self.random.between(200, 2_000);
        self.after(delay, Happening::EndKnown { node, process });
    }

    fn after_agreeing(&mut self, process: ProcessId) {
        if self.scenario.plant == Some(Plant::RankGoesOnAfterAgreeing) && self.now > self.plant_at {
            self.begin_iteration(process);
        }
    }

    fn enter_where_it_is(&mut self, process: ProcessId) {
        let Some(own) = self.processes.get(&process).filter(|p| p.is_member) else {
            return;
        };
        let attempt = match own.inbox.last() {
            Some(ReconfigurationOrder::Meet { attempt, .. } | ReconfigurationOrder::Park { attempt, .. }) => *attempt,
            _ => return,
        };
        let iteration = own.iteration;
        self.seen.push(Seen::Enters {
            process,
            attempt,
            iteration,
        });
    }
}
