//! The ranks that compute together, as MPI and the program see them: who is in which layout, how far each is, and what
//! all ranks decide together at an iteration.

use pcm_proto::ids::{JobId, Rank};
use pcm_proto::keeper::ProcessKey;
use std::collections::BTreeMap;

/// One layout of one start of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    pub(super) job: JobId,
    /// How often the job was started again.
    pub(super) generation: u32,
    pub(super) epoch: u64,
}

/// What a rank brings to a common look for a checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) is_wanted: bool,
    pub(super) in_files: bool,
    pub(super) is_free: bool,
}

/// What all ranks of a layout do at an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) is_due: bool,
    pub(super) in_files: bool,
}

/// One layout's ranks.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) size: u32,
    pub(super) weights: Vec<u32>,
    members: BTreeMap<Rank, ProcessKey>,
    /// The iterations that each has started.
    started: BTreeMap<Rank, u64>,
    looks: BTreeMap<u64, BTreeMap<Rank, Look>>,
    last: u64,
}

impl Group {
    pub(super) fn mates(&self) -> impl Iterator<Item = ProcessKey> + '_ {
        self.members.values().copied()
    }

    pub(super) fn starts(&mut self, rank: Rank, started: u64) {
        self.started.insert(rank, started);
    }

    /// Whether every rank has sent what others need in this iteration.
    pub(super) fn have_all_started(&self, iteration: u64) -> bool {
        let started = self.started.values().filter(|started| **started > iteration);
        started.count() == self.size as usize
    }

    pub(super) fn look(&mut self, iteration: u64, rank: Rank, look: Look) {
        self.looks.entry(iteration).or_default().insert(rank, look);
    }

    /// What all decide who have looked.
    pub(super) fn decision(&self, iteration: u64, every: u64) -> Due {
        let Some(looks) = self
            .looks
            .get(&iteration)
            .filter(|looks| looks.len() == self.size as usize)
        else {
            return Due::default();
        };
        let is_free = looks.values().all(|look| look.is_free);
        let is_wanted = looks.values().any(|look| look.is_wanted);
        let is_time = every > 0 && iteration > 0 && iteration.is_multiple_of(every);
        Due {
            is_due: is_free && (is_wanted || is_time),
            in_files: looks.values().any(|look| look.in_files),
        }
    }

    /// Drops what was said of iterations that are over.
    pub(super) fn forget_looks(&mut self, iteration: u64) {
        if iteration > self.last + 4 {
            self.last = iteration;
            self.looks = self.looks.split_off(&(iteration - 2));
        }
    }
}

/// All layouts of all jobs.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<GroupKey, Group>);

impl Groups {
    pub(super) fn join(&mut self, key: GroupKey, (size, weights): (u32, &[u32]), rank: Rank, process: ProcessKey) {
        let group = self.0.entry(key).or_default();
        group.size = size;
        group.weights = weights.to_vec();
        group.members.insert(rank, process);
    }

    pub(super) fn get(&self, key: GroupKey) -> Option<&Group> {
        self.0.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: GroupKey) -> Option<&mut Group> {
        self.0.get_mut(&key)
    }
}

pub(super) fn block(weights: &[u32], size: u32, elements: u32, rank: Rank) -> std::ops::Range<u32> {
    let weight = |rank: u32| u64::from(weights.get(rank as usize).copied().unwrap_or(1));
    let total: u64 = (0..size).map(weight).sum::<u64>().max(1);
    let edge = |rank: u32| ((0..rank).map(weight).sum::<u64>() * u64::from(elements) / total) as u32;
    edge(rank.0)..edge(rank.0 + 1)
}
