//! Joining and moving as MPI would do it: everybody must come, a member that dies leaves the others hanging or failing,
//! data can be damaged, parked data can be fetched from other machines.

use super::cluster::{Happening, Simulation};
use super::invariants::Seen;
use super::process::{Data, Process, block, digest};
use super::scenario::Plant;
use pcm_core::moment::Moment;
use pcm_core::reconfiguration::effects::Input;
use pcm_core::reconfiguration::rank::RankSide;
use pcm_core::reconfiguration::seat::Seat;
use pcm_proto::ids::{Bytes, ProcessId, WorldId};
use pcm_proto::layout::Plan;
use pcm_proto::reconfiguration::{Attempt, MeetOrder, Tally, Trouble};
use std::collections::BTreeMap;

const ACCEPT_TIMEOUT_US: u64 = 250_000;

/// Who has come to which meeting, by rank in the transfer communicator.
#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<Attempt, BTreeMap<u32, ProcessId>>);

fn size(meeting: &MeetOrder) -> usize {
    meeting.old_size as usize + meeting.worlds.iter().map(|w| w.size as usize).sum::<usize>()
}

impl Simulation {
    /// A process calls accept or connect.
    pub(super) fn enter_meeting(&mut self, process: ProcessId, meeting: &MeetOrder) {
        let Some(entering) = self.processes.get(&process) else {
            return;
        };
        let (Some(call), turn) = (&entering.call, entering.turn) else {
            return;
        };
        let attempt = call.attempt;
        let seat = match entering.is_member {
            true => Seat::Member(entering.rank),
            false => self.newcomer_seat(process, attempt),
        };
        let Some(place) = seat.transfer_rank(meeting) else {
            return;
        };
        let processes = &self.processes;
        let present = self.meetings.0.entry(attempt).or_default();
        present.insert(place, process);
        // Whoever has come back from it is there no more.
        present.retain(|_, process| {
            let call = processes.get(process).and_then(|process| process.call.as_ref());
            call.is_some_and(|call| call.attempt == attempt)
        });
        let everybody = present.clone();
        self.after(
            ACCEPT_TIMEOUT_US,
            Happening::MeetingEnds {
                process,
                turn,
                joined: false,
            },
        );
        if everybody.len() < size(meeting) {
            return;
        }
        let fails = !self.is_healed && self.random.chance(self.scenario.meet_fails);
        for process in everybody.values() {
            let Some(known) = self.processes.get(process) else {
                continue;
            };
            let turn = known.turn;
            let delay = self.random.between(300, 20_000);
            if !fails {
                self.after(
                    delay,
                    Happening::MeetingEnds {
                        process: *process,
                        turn,
                        joined: true,
                    },
                );
            } else if self.random.chance(self.scenario.meet_hangs) {
                self.hang(*process);
            }
        }
    }

    /// The process does not come back from MPI.
    fn hang(&mut self, process: ProcessId) {
        self.tell(|| format!("process {process} hangs in MPI"));
        if let Some(process) = self.processes.get_mut(&process) {
            process.is_stuck = true;
            process.turn += 1;
        }
    }

    fn plan_of(&self, attempt: Attempt) -> Option<Plan> {
        let records = self.nodes.iter().filter_map(|node| node.store.as_ref());
        let engaged = records
            .clone()
            .filter_map(|r| r.engaged.as_ref())
            .find(|e| e.attempt == attempt);
        let open = records
            .filter_map(|r| r.coordinator.as_ref()?.open.as_ref())
            .find(|o| o.attempt == attempt);
        engaged.map(|e| e.plan.clone()).or_else(|| open.map(|o| o.plan.clone()))
    }

    /// The newest attempt a process is a newcomer of.
    pub(super) fn attempt_of(&self, process: ProcessId) -> Attempt {
        let records = self.nodes.iter().filter_map(|node| node.store.as_ref());
        let engaged = records
            .filter_map(|r| r.engaged.as_ref())
            .filter(|e| e.plan.new.member(process).is_some());
        engaged.map(|e| e.attempt).max().unwrap_or(Attempt {
            epoch: pcm_proto::ids::Epoch(0),
            term: pcm_proto::ids::Term(0),
            number: 0,
        })
    }

    pub(super) fn newcomer_seat(&self, process: ProcessId, attempt: Attempt) -> Seat {
        let plan = self.plan_of(attempt);
        let world = plan
            .as_ref()
            .and_then(|p| p.new.member(process))
            .map_or(WorldId(u32::MAX), |m| m.world);
        let mates = plan.iter().flat_map(|p| p.newcomers()).filter(|m| m.world == world);
        let rank = mates.map(|m| m.process).position(|p| p == process).unwrap_or(0) as u32;
        Seat::Newcomer { world, rank }
    }

    pub(super) fn on_meeting_ends(&mut self, process: ProcessId, turn: u32, joined: bool) {
        let now = self.moment();
        let is_current = |p: &&mut Process| p.is_alive && p.turn == turn && !p.is_stuck;
        if self.processes.get_mut(&process).filter(is_current).is_none() {
            return;
        }
        // A collective call that not all come to need not end by its limit.
        if !joined && self.random.chance(self.scenario.meet_hangs) {
            return self.hang(process);
        }
        let Some(own) = self.processes.get_mut(&process).filter(is_current) else {
            return;
        };
        let Some(side) = &mut own.side else { return };
        own.turn += 1;
        let (turn, is_live) = (own.turn, own.call.as_ref().is_some_and(|c| c.meeting.is_some()));
        if !is_live {
            return;
        }
        let result = if joined {
            Ok(())
        } else {
            Err("accept: no partner in time".to_owned())
        };
        let effects = side.on_met(now, result);
        self.follow(process, effects);
        if joined {
            let delay = self.random.between(200, 60_000);
            self.after(delay, Happening::MoveEnds { process, turn });
        }
    }

    /// The redistribution, as one process sees it; or its data is parked.
    pub(super) fn on_move_ends(&mut self, process: ProcessId, turn: u32) {
        let now = self.moment();
        let Some(own) = self
            .processes
            .get(&process)
            .filter(|p| p.is_alive && p.turn == turn && !p.is_stuck)
        else {
            return;
        };
        let Some(call) = own.call.clone() else { return };
        let result = match call.meeting {
            Some(_) => self.move_data(process, call.attempt),
            None => Ok((self.park(process, call.attempt), Tally::default())),
        };
        if result.is_err() && self.random.chance(self.scenario.meet_hangs) {
            return self.hang(process);
        }
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        let Some(side) = &mut own.side else { return };
        let effects = side.on_moved(now, result.map_err(|reason| (Trouble::Moving, reason)));
        self.follow(process, effects);
    }

    fn move_data(&mut self, process: ProcessId, attempt: Attempt) -> Result<(Tally, Tally), String> {
        let plan = self.plan_of(attempt).ok_or("no plan")?;
        let present = self.meetings.0.get(&attempt).cloned().unwrap_or_default();
        let mates_live = present
            .values()
            .all(|mate| self.processes.get(mate).is_some_and(|m| m.is_alive && !m.is_stuck));
        if !mates_live {
            return Err("a partner does not answer".into());
        }
        let (old, new) = (&plan.old, &plan.new);
        let owner = |layout: &pcm_proto::layout::Layout, index: u32| {
            let rank = (0..layout.size()).find(|r| block(layout, self.scenario.elements, *r).contains(&index));
            rank.map(|rank| layout.members[rank].process)
        };
        let own_rank = new.rank_of(process).map(|r| r.0 as usize);
        let (mut sent, mut received, mut staged) = (Tally::default(), Tally::default(), Data::new());
        for index in 0..self.scenario.elements {
            let (from, to) = (owner(old, index), owner(new, index));
            let Some(value) = from.and_then(|from| self.processes.get(&from)?.data.get(&index).copied()) else {
                return Err(format!("element {index} has no source"));
            };
            let piece = Tally {
                bytes: Bytes(8),
                checksum: digest(index, value),
                ahead: Bytes(0),
            };
            if from == Some(process) && to != from {
                sent = sent.plus(piece);
            }
            if to == Some(process) && to != from {
                received = received.plus(piece);
            }
        }
        if let Some(rank) = own_rank {
            for index in block(new, self.scenario.elements, rank) {
                let value = owner(old, index).and_then(|from| self.processes.get(&from)?.data.get(&index).copied());
                staged.extend(value.map(|value| (index, value)));
            }
        }
        if !self.is_healed && self.random.chance(self.scenario.damage) && received != Tally::default() {
            if self.random.chance(0.5) {
                return Err("checksum of a chunk".into());
            }
            received.checksum ^= 1;
        }
        self.plant_in_data(&mut staged);
        if let Some(own) = self.processes.get_mut(&process) {
            own.staged = Some(staged);
        }
        Ok((sent, received))
    }

    fn plant_in_data(&self, staged: &mut Data) {
        match self.scenario.plant {
            Some(Plant::AppDropsElement) if self.now > self.plant_at => {
                staged.pop_last();
            }
            Some(Plant::AppDoublesElement) if self.now > self.plant_at => {
                let next = staged
                    .last_key_value()
                    .map(|(index, value)| ((index + 1) % self.scenario.elements, *value));
                staged.extend(next);
            }
            _ => {}
        }
    }

    /// Hands the data of a process to the daemon's memory.
    pub(super) fn park(&mut self, process: ProcessId, attempt: Attempt) -> Tally {
        let Some(own) = self.processes.get(&process) else {
            return Tally::default();
        };
        let (node, iteration) = (own.node, own.iteration);
        let elements: Vec<(u32, u64)> = own.data.iter().map(|(index, value)| (*index, *value)).collect();
        let pieces = elements.iter().map(|(i, v)| Tally {
            bytes: Bytes(8),
            checksum: digest(*i, *v),
            ahead: Bytes(0),
        });
        let tally = pieces.fold(Tally::default(), Tally::plus);
        let parked = self.nodes[node]
            .parked
            .entry(attempt)
            .or_insert((iteration, Vec::new()));
        for element in elements {
            if !parked.1.contains(&element) {
                parked.1.push(element);
            }
        }
        tally
    }

    pub(super) fn on_salvaged(&mut self, node: usize, life: u32, process: ProcessId, attempt: Attempt) {
        if self.nodes[node].life != life {
            return;
        }
        let is_alive = self.processes.get(&process).is_some_and(|p| p.is_alive);
        if is_alive {
            let iteration = self.processes[&process].iteration;
            self.seen.push(Seen::Enters {
                process,
                attempt,
                iteration,
            });
        }
        let result = if is_alive {
            Ok(self.park(process, attempt))
        } else {
            Err("no such process".to_owned())
        };
        self.input(node, Input::Salvaged { process, result });
    }

    /// A process of a relaunched layout fetches its part from wherever it was parked.
    pub(super) fn restore(&mut self, process: ProcessId, attempt: Attempt) {
        let Some(layout) = self.plan_of(attempt).map(|plan| plan.new) else {
            return;
        };
        let now = self.now;
        let rank = layout.rank_of(process).unwrap_or_default();
        let mut data = Data::new();
        let mut at = None;
        for node in self.nodes.iter().filter(|n| n.is_up) {
            if let Some((iteration, elements)) = node.parked.get(&attempt) {
                at = Some(*iteration);
                let mine = block(&layout, self.scenario.elements, rank.0 as usize);
                data.extend(elements.iter().filter(|(index, _)| mine.contains(index)).copied());
            }
        }
        let wanted = block(&layout, self.scenario.elements, rank.0 as usize).len();
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        let (Some(iteration), true) = (at, data.len() == wanted) else {
            self.tell(|| format!("process {process} finds its data nowhere"));
            return self.after(
                0,
                Happening::Ends {
                    process,
                    finished: false,
                },
            );
        };
        own.data = data;
        own.iteration = iteration;
        own.rank = rank;
        own.epoch = layout.epoch.0;
        own.started = iteration;
        let limits = self.limits.clone();
        let (side, told) = RankSide::restored(Moment(now), rank, Some(attempt), String::new(), limits);
        own.side = Some(side);
        self.wait(process);
        self.follow(process, vec![told]);
        self.tell(|| format!("process {process} is restored at {now}"));
        self.drain_inbox(process);
    }

    /// The relaunch is decided: the process begins where those before it stood.
    pub(super) fn begin_restored(&mut self, process: ProcessId) {
        let Some(own) = self.processes.get_mut(&process) else {
            return;
        };
        own.is_member = true;
        let (epoch, iteration) = (own.epoch, own.iteration);
        let elements = own.data.iter().map(|(index, value)| (*index, *value)).collect();
        self.seen.push(Seen::TakesUp {
            process,
            epoch,
            iteration,
            elements,
        });
        self.announce(process);
    }
}
