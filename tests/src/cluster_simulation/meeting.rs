//! Joining and moving as MPI would do it: all must come, a member that dies leaves the others hanging or failing, data
//! can be damaged. Also parking, and what a keeper copies out of a process that hangs.

use super::groups::block;
use super::happening::{Happening, RankHappening, Turn};
use super::image::{self, Data, File, digest};
use super::rank::Rank;
use super::scenario::Plant;
use super::simulation::Simulation;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::{Bytes, JobId, Rank as RankNumber};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::reconfiguration::{Attempt, MeetOrder, Tally, Trouble};
use std::collections::BTreeMap;

/// A collective call that not all come to ends after this time, in microseconds, if it ends.
const JOIN_TIMEOUT: u64 = 250_000;

/// How long it takes to join those that have come: mostly, and in some meetings.
const JOINED_WITHIN: [u64; 2] = [20_000, 240_000];

/// Share of meetings that take long.
const SLOW_MEETINGS: f64 = 0.1;

/// Who has come to which meeting of which start of a job, by rank in the transfer communicator.
#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<(JobId, u32, Attempt), BTreeMap<u32, ProcessKey>>);

fn size(meeting: &MeetOrder) -> usize {
    meeting.old_size as usize + meeting.worlds.iter().map(|world| world.size as usize).sum::<usize>()
}

impl Simulation {
    /// A process calls accept or connect.
    pub(super) fn enter_meeting(&mut self, key: ProcessKey, meeting: &MeetOrder) {
        let place = self.seat(key).and_then(|seat| seat.transfer_rank(meeting));
        let Some(entering) = self.ranks.get(&key) else { return };
        let (Some(call), Some(place)) = (&entering.call, place) else {
            return;
        };
        let (attempt, turn) = (call.attempt, entering.turn());
        let of = (key.job, entering.belonging.generation, attempt);
        let ranks = &self.ranks;
        let present = self.meetings.0.entry(of).or_default();
        present.insert(place, key);
        // One that has come back from it is there no more, and nobody is joined with one that hangs.
        present.retain(|_, mate| {
            let mate = ranks.get(mate).filter(|mate| !mate.is_stuck);
            let call = mate.and_then(|mate| mate.call.as_ref());
            call.is_some_and(|call| call.attempt == attempt)
        });
        let all = present.clone();
        let is_joined = false;
        self.queue.after(
            JOIN_TIMEOUT,
            Happening::Rank(RankHappening::MeetingEnds { turn, is_joined }),
        );
        if all.len() < size(meeting) {
            return;
        }
        let fails = self.breaks(self.scenario.faults.meet_fails);
        let longest = JOINED_WITHIN[usize::from(self.breaks(SLOW_MEETINGS))];
        for mate in all.values() {
            let Some(joining) = self.ranks.get_mut(mate) else {
                continue;
            };
            joining.is_joining = !fails;
            let turn = joining.turn();
            if !fails {
                let delay = self.random.between(300, longest);
                let is_joined = true;
                self.queue
                    .after(delay, Happening::Rank(RankHappening::MeetingEnds { turn, is_joined }));
            } else if self.random.chance(self.scenario.faults.meet_hangs) {
                self.hang(*mate);
            }
        }
    }

    /// The process does not come back from MPI.
    fn hang(&mut self, key: ProcessKey) {
        self.tell(|| format!("{key:?} hangs in MPI"));
        if let Some(rank) = self.ranks.get_mut(&key) {
            rank.is_stuck = true;
            rank.is_joining = false;
            rank.next_turn();
        }
    }

    /// A process that a daemon ends while it is being joined leaves behind in MPI those that are joined with it.
    pub(super) fn leave_mates_behind(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let is_being_joined = std::mem::take(&mut rank.is_joining);
        let Some(call) = rank.call.as_ref().filter(|_| is_being_joined && rank.is_signalled) else {
            return;
        };
        let attempt = call.attempt;
        let of = (key.job, rank.belonging.generation, attempt);
        let mates = self.meetings.0.get(&of).cloned().unwrap_or_default();
        for mate in mates.into_values() {
            let is_left = |rank: &Rank| {
                let is_there = rank.is_alive && rank.is_joining && !rank.is_signalled;
                is_there && rank.call.as_ref().is_some_and(|call| call.attempt == attempt)
            };
            if self.ranks.get(&mate).is_some_and(is_left) {
                self.hang(mate);
                self.ledger.left_behind.insert(mate, key);
            }
        }
    }

    pub(super) fn on_meeting_ends(&mut self, turn: Turn, is_joined: bool) {
        let (now, key) = (self.moment(), turn.key);
        if !self.ranks.get(&key).is_some_and(|rank| rank.is_at(turn)) {
            return;
        }
        // A collective call that not all come to need not end by its limit.
        if !is_joined && self.breaks(self.scenario.faults.meet_hangs) {
            return self.hang(key);
        }
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.is_joining = false;
        let next = rank.next_turn();
        if rank.call.as_ref().is_none_or(|call| call.meeting.is_none()) {
            return;
        }
        let Some(side) = &mut rank.side else { return };
        let result = match is_joined {
            true => Ok(()),
            false => Err("accept: no partner in time".to_owned()),
        };
        let effects = side.on_met(now, result);
        self.follow(key, effects);
        if is_joined {
            let delay = self.random.between(200, 60_000);
            self.queue.after(delay, Happening::Rank(RankHappening::MoveEnds(next)));
        }
    }

    /// The redistribution, as one process sees it; or its data is parked.
    pub(super) fn on_move_ends(&mut self, turn: Turn) {
        let (now, key) = (self.moment(), turn.key);
        let Some(rank) = self.ranks.get(&key).filter(|rank| rank.is_at(turn)) else {
            return;
        };
        let Some(call) = rank.call.clone() else { return };
        let result = match &call.meeting {
            Some(meeting) => self.move_data(key, call.attempt, meeting),
            None => Ok((self.park(key, call.attempt), Tally::default())),
        };
        if result.is_err() && self.breaks(self.scenario.faults.meet_hangs) {
            return self.hang(key);
        }
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let Some(side) = &mut rank.side else { return };
        let effects = side.on_moved(now, result.map_err(|reason| (Trouble::Moving, reason)));
        self.follow(key, effects);
    }

    fn move_data(&mut self, key: ProcessKey, attempt: Attempt, meeting: &MeetOrder) -> Result<(Tally, Tally), String> {
        let Some(own) = self.ranks.get(&key) else {
            return Err("it is not there".to_owned());
        };
        let (elements, of) = (own.program.elements, (key.job, own.belonging.generation, attempt));
        let present = self.meetings.0.get(&of).cloned().unwrap_or_default();
        let is_there = |mate: &ProcessKey| self.ranks.get(mate).is_some_and(|mate| mate.is_alive && !mate.is_stuck);
        if !present.values().all(is_there) {
            return Err("a partner does not answer".to_owned());
        }
        let new_size = meeting.order.len() as u32;
        let member = |rank: u32| present.get(meeting.order.get(rank as usize)?).copied();
        let new_owner = |index: u32| {
            let mut ranks = 0..new_size;
            let rank =
                ranks.find(|rank| block(&meeting.weights, new_size, elements, RankNumber(*rank)).contains(&index));
            rank.and_then(member)
        };
        let mut at = BTreeMap::new();
        for mate in present
            .iter()
            .filter(|(place, _)| **place < meeting.old_size)
            .map(|(_, mate)| mate)
        {
            let data = self.ranks.get(mate).map(|mate| &mate.data);
            at.extend(
                data.into_iter()
                    .flatten()
                    .map(|(index, value)| (*index, (*mate, *value))),
            );
        }
        let (mut sent, mut received, mut staged) = (Tally::default(), Tally::default(), Data::new());
        for index in 0..elements {
            let Some((from, value)) = at.get(&index).copied() else {
                return Err(format!("element {index} has no source"));
            };
            let to = new_owner(index);
            let piece = Tally {
                bytes: Bytes(8),
                checksum: digest(index, value),
                ahead: Bytes(0),
            };
            if from == key && to != Some(from) {
                sent = sent.plus(piece);
            }
            if to == Some(key) {
                staged.insert(index, value);
                if from != key {
                    received = received.plus(piece);
                }
            }
        }
        if received != Tally::default() && self.breaks(self.scenario.faults.damage) {
            if self.random.chance(0.5) {
                return Err("checksum of a chunk".to_owned());
            }
            received.checksum ^= 1;
        }
        self.plant_in_data(&mut staged, elements);
        if let Some(own) = self.ranks.get_mut(&key) {
            own.staged = Some(staged);
        }
        Ok((sent, received))
    }

    fn plant_in_data(&mut self, staged: &mut Data, elements: u32) {
        if self.plants_now(Plant::AppDropsElement) {
            staged.pop_last();
        }
        if self.plants_now(Plant::AppDoublesElement)
            && let Some((index, value)) = staged.last_key_value().map(|(index, value)| (*index, *value))
        {
            staged.insert((index + 1) % elements, value);
        }
    }

    /// Hands the data of a process to its daemon.
    fn park(&mut self, key: ProcessKey, attempt: Attempt) -> Tally {
        let Some(rank) = self.ranks.get(&key) else {
            return Tally::default();
        };
        let (tally, file) = image_of(rank);
        let bytes = file.borrow().len() as u64;
        self.say(key, AppToDaemon::Parked { attempt, bytes }, Some(file));
        tally
    }

    /// Data that a keeper copies out of a process; none if nothing says where it is.
    pub(super) fn salvaged(&self, key: ProcessKey) -> Option<File> {
        let rank = self.ranks.get(&key)?;
        let is_there = rank.is_alive && rank.page.is_published;
        is_there.then(|| image_of(rank).1)
    }
}

fn image_of(rank: &Rank) -> (Tally, File) {
    let mut bytes = image::encode(rank.iteration, &rank.data);
    image::sum(&mut bytes);
    let pieces = rank.data.iter().map(|(index, value)| Tally {
        bytes: Bytes(8),
        checksum: digest(*index, *value),
        ahead: Bytes(0),
    });
    (pieces.fold(Tally::default(), Tally::plus), image::file(bytes))
}
