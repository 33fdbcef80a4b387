//! The catalogue of one job's checkpoints, held by its coordinator: a checkpoint exists when every part of it exists
//! somewhere, at one iteration, and a record says so. Decides what counts and what is not needed any more. Never holds
//! data, never decides when a checkpoint is made.
//!
//! ```text
//!                  last missing part stored                      persisted
//!   (stored) ─► Gathering ──────────────► Persisting ─ Persist! ──────────► Committed ─ Announce!
//!                  ▲                          │                                │
//!                  └──── a part's last copy lost or damaged ◄──────────────────┘ Lost!
//! ```
//!
//! A catalogue can be lost with its daemon: the next coordinator builds it anew from what the nodes say they hold,
//! as completeness follows from the parts alone.

use super::entry::{Entry, PartTally, Place, Progress, Stamp};
use pcm_proto::ids::{Bytes, CheckpointId, NodeName, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Most checkpoints a catalogue holds: one is made at a time and old ones are collected, so more are a fault of those
/// who report them.
pub const CHECKPOINTS_MAX: usize = 64;

/// How many complete checkpoints are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// In memory. One: with the one being made, each rank's data is there twice.
    pub memory: usize,
    pub files: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { memory: 1, files: 2 }
    }
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make a record that the checkpoint is complete, then say [`Catalogue::persisted`].
    Persist(Stamp),
    /// The checkpoint counts; it may be spoken of.
    Announce(Stamp),
    /// A checkpoint that was announced has lost a part, and no newer one replaces it.
    Lost {
        stamp: Stamp,
        /// A part without a copy.
        missing: Rank,
        /// What a restart would begin with now.
        next: Option<Stamp>,
    },
    /// This copy is not needed any more.
    Drop {
        /// Of which checkpoint.
        id: CheckpointId,
        rank: Rank,
        place: Place,
    },
}

/// Why a stored part is not taken in. The catalogue is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartRefused {
    /// The checkpoint has another iteration, epoch or size than the part says.
    #[error(
        "checkpoint {} is of iteration {} on {} ranks in epoch {}, the part is of iteration {} on {} in epoch {}",
        .known.id,
        .known.iteration,
        .known.ranks,
        .known.epoch,
        .said.iteration,
        .said.ranks,
        .said.epoch
    )]
    StampDiffers {
        /// What is known.
        known: Stamp,
        /// What the part says.
        said: Stamp,
    },
    /// The checkpoint has no such rank.
    #[error("there is no rank {rank} among {ranks}")]
    NoSuchRank {
        rank: Rank,
        /// The number of ranks.
        ranks: u32,
    },
    /// It was given up: what there is of it is dropped.
    #[error("the checkpoint is given up")]
    GivenUp,
    /// A newer checkpoint is complete: this one will not be.
    #[error("checkpoint {by} is newer and complete")]
    Superseded { by: CheckpointId },
    /// Its bytes differ from those of the other copies: one of them is damaged, and the first counts.
    #[error("the part of rank {rank} differs from its other copies")]
    ContentsDiffer {
        /// The part's rank.
        rank: Rank,
    },
    /// [`CHECKPOINTS_MAX`] others are unfinished.
    #[error("{CHECKPOINTS_MAX} checkpoints are unfinished already")]
    TooMany,
}

/// A checkpoint that can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restorable {
    pub stamp: Stamp,
    /// Bytes of all parts.
    pub bytes: Bytes,
    /// By rank: where its part can be had, fastest first; never empty.
    pub sources: Vec<Vec<Place>>,
}

/// See the file head.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    keep: Keep,
    entries: BTreeMap<CheckpointId, Entry>,
    /// No number up to this one is given again.
    highest: CheckpointId,
    /// Nothing goes before a newer one than this is there: of those up to it not everything was heard yet.
    learned: CheckpointId,
    /// The newest that is as safe as it can be; none where that is never said. Nothing goes for a newer one, unless one
    /// is there that outlives the loss of a node.
    settled: Option<CheckpointId>,
    /// Nodes were told to drop these, whatever they had said before they heard of it.
    given_up: BTreeSet<CheckpointId>,
}

impl Catalogue {
    /// An empty catalogue.
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }

    /// A catalogue that learns what there is, of which this is the newest, and hears which are settled.
    pub fn learning(keep: Keep, newest: CheckpointId) -> Self {
        Self {
            learned: newest,
            settled: Some(CheckpointId::default()),
            ..Self::new(keep)
        }
    }

    /// A number for a checkpoint about to be made: above all that was ever heard of.
    pub fn next_id(&mut self) -> CheckpointId {
        self.highest.0 += 1;
        self.highest
    }

    /// A copy of a part exists, whole and checked. May be said again.
    pub fn stored(
        &mut self,
        stamp: Stamp,
        rank: Rank,
        place: Place,
        tally: PartTally,
    ) -> Result<Vec<Effect>, PartRefused> {
        self.highest = self.highest.max(stamp.id);
        if rank.0 >= stamp.ranks {
            let ranks = stamp.ranks;
            return Err(PartRefused::NoSuchRank { rank, ranks });
        }
        if self.given_up.contains(&stamp.id) {
            return Err(PartRefused::GivenUp);
        }
        match self.entries.get(&stamp.id) {
            Some(entry) if entry.stamp != stamp => {
                let known = entry.stamp;
                return Err(PartRefused::StampDiffers { known, said: stamp });
            }
            Some(_) => {}
            None => self.open(stamp)?,
        }
        let Some(entry) = self.entries.get_mut(&stamp.id) else {
            return Ok(Vec::new());
        };
        if !entry.add(rank, place, tally) {
            return Err(PartRefused::ContentsDiffer { rank });
        }
        let mut effects = Vec::new();
        if entry.progress == Progress::Gathering && entry.is_complete(|_| true) {
            entry.progress = Progress::Persisting;
            effects.push(Effect::Persist(stamp));
        }
        if entry.is_complete(|place| *place == Place::File) {
            entry.is_filing = false;
        }
        self.collect(&mut effects);
        Ok(effects)
    }

    /// The record that a checkpoint is complete will last.
    pub fn persisted(&mut self, id: CheckpointId) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.progress == Progress::Persisting
        {
            entry.progress = Progress::Committed;
            effects.push(Effect::Announce(entry.stamp));
        }
        self.collect(&mut effects);
        effects
    }

    /// A copy turned out to be damaged, or is gone.
    pub fn damaged(&mut self, id: CheckpointId, rank: Rank, place: &Place) -> Vec<Effect> {
        self.lose(|entry| {
            if entry.stamp.id == id {
                entry.remove(rank, place);
            }
        })
    }

    /// A node is gone, with all it had in memory.
    pub fn node_lost(&mut self, node: &NodeName) -> Vec<Effect> {
        self.lose(|entry| {
            for (rank, place) in entry.copies(|place| place.node() == Some(node)) {
                entry.remove(rank, &place);
            }
        })
    }

    /// This one is as safe as it can be: what is older may go.
    pub fn settled(&mut self, id: CheckpointId) -> Vec<Effect> {
        self.settled = self.settled.max(Some(id));
        let mut effects = Vec::new();
        self.collect(&mut effects);
        effects
    }

    /// Files of a checkpoint are being written: it is kept until they are complete, or [`Catalogue::file_given_up`].
    pub fn file_begun(&mut self, id: CheckpointId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_filing = !entry.is_complete(|place| *place == Place::File);
        }
    }

    /// No files of this checkpoint will come.
    pub fn file_given_up(&mut self, id: CheckpointId) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_filing = false;
            drop_copies(entry, |place| *place == Place::File, &mut effects);
        }
        effects.extend(self.lose(|_| {}));
        effects
    }

    /// A checkpoint that is not complete will not be: its parts are dropped.
    pub fn given_up(&mut self, id: CheckpointId) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.progress == Progress::Gathering
        {
            drop_copies(entry, |_| true, &mut effects);
            self.entries.remove(&id);
            self.given_up.insert(id);
            if self.given_up.len() > CHECKPOINTS_MAX {
                self.given_up.pop_first();
            }
        }
        effects
    }

    /// The job goes on from this checkpoint, or from before all: what was made after it will not be complete any more,
    /// and other data will bear its numbers.
    pub fn rolled_back_to(&mut self, id: CheckpointId) {
        self.entries.retain(|known, _| *known <= id);
        self.given_up.retain(|known| *known <= id);
        self.learned = self.learned.min(id);
        self.settled = self.settled.map(|settled| settled.min(id));
    }

    /// A checkpoint that was found not to be restorable is none.
    pub fn condemned(&mut self, id: CheckpointId) {
        self.entries.remove(&id);
    }

    /// Where the parts of a checkpoint are.
    pub fn copies_of(&self, id: CheckpointId) -> Vec<(Rank, Place)> {
        self.entries
            .get(&id)
            .map(|entry| entry.copies(|_| true))
            .unwrap_or_default()
    }

    /// What can be restored, newest first.
    pub fn restorable(&self) -> impl Iterator<Item = Restorable> + '_ {
        self.committed().map(|entry| Restorable {
            stamp: entry.stamp,
            bytes: entry.bytes(),
            sources: entry.sources(),
        })
    }

    /// What a restart begins with.
    pub fn newest(&self) -> Option<Restorable> {
        self.restorable().next()
    }

    /// Every checkpoint that is known, oldest first, and whether it counts.
    pub fn stamps(&self) -> impl Iterator<Item = (Stamp, bool)> + '_ {
        let entries = self.entries.values();
        entries.map(|entry| (entry.stamp, entry.progress == Progress::Committed))
    }

    fn committed(&self) -> impl Iterator<Item = &Entry> {
        let newest_first = self.entries.values().rev();
        newest_first.filter(|entry| entry.progress == Progress::Committed)
    }

    fn open(&mut self, stamp: Stamp) -> Result<(), PartRefused> {
        // A file may still make an old checkpoint whole; what is older than every kept one will be nothing any more.
        if let Some(newest) = self.committed().next().filter(|newest| newest.stamp.id > stamp.id) {
            return Err(PartRefused::Superseded { by: newest.stamp.id });
        }
        if self.entries.len() >= CHECKPOINTS_MAX {
            return Err(PartRefused::TooMany);
        }
        self.entries.insert(stamp.id, Entry::new(stamp));
        Ok(())
    }

    /// Takes copies away, then sees what does not count any more.
    fn lose(&mut self, take: impl Fn(&mut Entry)) -> Vec<Effect> {
        let before = self.committed().next().map(|entry| entry.stamp);
        for entry in self.entries.values_mut() {
            take(entry);
            if entry.progress != Progress::Gathering && !entry.is_complete(|_| true) {
                entry.progress = Progress::Gathering;
            }
        }
        let mut effects = Vec::new();
        let next = self.committed().next().map(|entry| entry.stamp);
        if let Some(stamp) = before.filter(|before| next != Some(*before)) {
            let missing = self.entries.get(&stamp.id).and_then(|entry| entry.missing().next());
            let missing = missing.unwrap_or_default();
            effects.push(Effect::Lost { stamp, missing, next });
        }
        self.collect(&mut effects);
        effects
    }

    /// Drops what no restart will ask for: all older than the newest complete ones of each level, and than the newest
    /// that outlives the loss of a node.
    fn collect(&mut self, effects: &mut Vec<Effect>) {
        let newest = self.committed().next().map(|entry| entry.stamp.id);
        let Some(newest) = newest.filter(|newest| *newest > self.learned) else {
            return;
        };
        if self.settled.is_some_and(|settled| settled < newest) && !self.committed().any(Entry::is_doubled) {
            return;
        }
        let (mut memory, mut files, mut doubled) = (self.keep.memory, self.keep.files, 1);
        for (id, entry) in self.entries.range_mut(..=newest).rev() {
            let is_committed = entry.progress == Progress::Committed;
            let is_safe = is_committed && entry.is_doubled() && take_one(&mut doubled);
            let is_newest = is_committed && entry.is_complete(Place::is_memory) && take_one(&mut memory);
            let keeps_memory = is_newest || is_safe;
            let has_files = entry.is_complete(|place| *place == Place::File);
            let is_whole = entry.progress != Progress::Gathering;
            let keeps_files = entry.is_filing || is_whole && has_files && take_one(&mut files);
            if *id == newest {
                continue;
            }
            drop_copies(
                entry,
                |place| if place.is_memory() { !keeps_memory } else { !keeps_files },
                effects,
            );
            if entry.progress != Progress::Gathering && !entry.is_complete(|_| true) {
                entry.progress = Progress::Gathering;
            }
        }
        let is_of_use = |entry: &Entry| entry.is_filing || !entry.copies(|_| true).is_empty();
        self.entries.retain(|id, entry| *id >= newest || is_of_use(entry));
    }
}

fn take_one(left: &mut usize) -> bool {
    let has_one = *left > 0;
    *left = left.saturating_sub(1);
    has_one
}

fn drop_copies(entry: &mut Entry, is_unwanted: impl Fn(&Place) -> bool, effects: &mut Vec<Effect>) {
    let id = entry.stamp.id;
    for (rank, place) in entry.copies(is_unwanted) {
        entry.remove(rank, &place);
        effects.push(Effect::Drop { id, rank, place });
    }
}
