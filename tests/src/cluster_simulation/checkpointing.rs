//! A rank's checkpoints: its data is copied into the buffer that does not hold the newest safe one, and its daemon is
//! told. All ranks write files together.

use super::files::{DraftOf, directory};
use super::happening::{Happening, RankHappening, Turn};
use super::image;
use super::rank::{Activity, Buffer, Keeping};
use super::scenario::Plant;
use super::simulation::Simulation;
use pcm_proto::app::AppToDaemon;
use pcm_proto::checkpoint::{CheckpointOrder, RankCheckpoint};
use pcm_proto::ids::{CheckpointId, Iteration};
use pcm_proto::keeper::ProcessKey;

/// The number of the checkpoint at the top of an iteration: the iterations begun.
fn id_of(iteration: u64) -> CheckpointId {
    CheckpointId(iteration + 1)
}

impl Keeping {
    pub(super) fn on_order(&mut self, order: &CheckpointOrder) {
        match order {
            CheckpointOrder::Settled { id } => self.settled = self.settled.max(*id),
            CheckpointOrder::GivenUp { id } => self.given_up = self.given_up.max(*id),
            CheckpointOrder::Make { into } => {
                self.is_wanted = true;
                self.in_files |= into.is_some();
            }
        }
    }

    /// Whether the next checkpoint may be made as far as those before go.
    pub(super) fn is_free(&self) -> bool {
        self.made.is_none_or(|made| made <= self.settled.max(self.given_up))
    }

    pub(super) fn has(&self, iteration: u64) -> bool {
        self.made == Some(id_of(iteration))
    }

    /// The buffer that does not hold the newest safe checkpoint.
    fn next_place(&self, is_planted: bool) -> usize {
        let is_safe = |buffer: &Option<Buffer>| buffer.as_ref().map(|buffer| buffer.holds) != Some(self.settled);
        let place = self.buffers.iter().position(is_safe).unwrap_or(0);
        if is_planted { 1 - place } else { place }
    }
}

impl Simulation {
    /// It begins to copy its data.
    pub(super) fn begin_keeping(&mut self, key: ProcessKey, in_files: bool) {
        let is_planted = self.has_plant(Plant::RankOverwritesSafeBuffer);
        let now = self.queue.now();
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let (iteration, bytes) = (rank.iteration, image::length(rank.data.len()));
        let keeping = &mut rank.keeping;
        let place = keeping.next_place(is_planted);
        let (id, count) = (id_of(iteration), keeping.count);
        let fits = |buffer: &&mut Buffer| buffer.file.borrow().len() == bytes;
        match keeping.buffers[place].as_mut().filter(fits) {
            Some(buffer) => {
                image::spoil(&mut buffer.file.borrow_mut());
                buffer.holds = id;
            }
            None => {
                keeping.count += 1;
                keeping.buffers[place] = Some(Buffer {
                    number: count,
                    file: image::file(vec![0; bytes]),
                    holds: id,
                    is_handed: false,
                });
            }
        }
        keeping.made = Some(id);
        keeping.filling = Some((place, now));
        (keeping.is_wanted, keeping.in_files) = (false, false);
        rank.activity = Activity::Keeping;
        let turn = rank.next_turn();
        let (generation, data) = (rank.belonging.generation, rank.data.clone());
        let (group, number) = (rank.group(), rank.rank);
        let size = self.groups.get(group).map_or(0, |group| group.size);
        if in_files {
            self.files.write(
                DraftOf {
                    job: key.job,
                    generation,
                    iteration,
                },
                (number.0, size),
                data,
            );
            if number.0 == 0 {
                let delay = self.random.between(20_000, 400_000);
                self.queue
                    .after(delay, Happening::Rank(RankHappening::Filed { turn, iteration }));
            }
        }
        self.ledger.see(super::seen::Seen::BuffersChanged { job: key.job });
        let delay = self.random.between(100, 3_000);
        self.queue.after(delay, Happening::Rank(RankHappening::Kept(turn)));
    }

    /// The copy is whole.
    pub(super) fn on_kept(&mut self, turn: Turn) {
        let (key, now) = (turn.key, self.queue.now());
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_at(turn)) else {
            return;
        };
        let (group, number, iteration) = (rank.group(), rank.rank, rank.iteration);
        let bytes = image::encode(iteration, &rank.data);
        let length = bytes.len() as u64;
        let Some((place, since)) = rank.keeping.filling.take() else {
            return;
        };
        let Some(buffer) = &mut rank.keeping.buffers[place] else {
            return;
        };
        *buffer.file.borrow_mut() = bytes;
        let is_new = !std::mem::replace(&mut buffer.is_handed, true);
        let (buffer, file) = (buffer.number, is_new.then(|| buffer.file.clone()));
        let ranks = self.groups.get(group).map_or(0, |group| group.size);
        let kept = RankCheckpoint::Kept {
            buffer,
            id: id_of(iteration),
            iteration: Iteration(iteration),
            rank: number,
            ranks,
            bytes: length,
            held_us: now - since,
        };
        self.say(key, AppToDaemon::Checkpoint(kept), file);
        self.end_iteration(key);
    }

    /// The files of a checkpoint are there, or came to nothing.
    pub(super) fn on_filed(&mut self, turn: Turn, iteration: u64) {
        let key = turn.key;
        let Some(rank) = self.ranks.get(&key) else { return };
        let (is_alive, generation) = (rank.is_alive, rank.belonging.generation);
        let is_there = self.files.publish(DraftOf {
            job: key.job,
            generation,
            iteration,
        });
        if !is_alive {
            return;
        }
        let said = match is_there {
            true => RankCheckpoint::Filed {
                iteration: Iteration(iteration),
                directory: directory(key.job, iteration),
            },
            false => RankCheckpoint::NotFiled {
                reason: "a part is missing".to_owned(),
            },
        };
        self.say(key, AppToDaemon::Checkpoint(said), None);
    }
}
