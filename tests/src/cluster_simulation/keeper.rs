//! The keeper of one node: what it holds for its daemons, and what it says to them. It lives as long as its machine.

use super::image::File;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::parked::ParkKey;
use std::collections::{BTreeMap, BTreeSet};

/// Pauses before a daemon is started again, by the failures in a row, in microseconds.
const PAUSES: [u64; 5] = [0, 100_000, 400_000, 1_600_000, 6_400_000];

/// A daemon that lived so long had come up.
pub(super) const HEALTHY_AFTER: u64 = 1_000_000;

/// A process that the keeper holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldProcess {
    pub(super) pid: u32,
    pub(super) ended: Option<ExitStatus>,
    pub(super) has_stdin: bool,
}

/// What it says to its daemon.
#[derive(Debug)]
pub(super) enum KeeperWord {
    Started(ProcessKey),
    StartRefused { key: ProcessKey, reason: String },
    Exited { key: ProcessKey, status: ExitStatus },
    Parked { key: ParkKey, file: File },
    Holds(BufferKey),
    NotParked { key: ParkKey, reason: String },
    JobCleared { job: JobId, killed: u32 },
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    pub(super) table: BTreeMap<ProcessKey, HeldProcess>,
    pub(super) images: BTreeMap<ParkKey, File>,
    pub(super) buffers: BTreeMap<BufferKey, File>,
    salvages: BTreeSet<ParkKey>,
    /// Jobs that are being ended, with the processes that were killed for it.
    clearings: BTreeMap<JobId, u32>,
    restarts: u32,
    failures: usize,
    /// Everything ends; nothing is started any more.
    is_ending: bool,
    /// When its last word reaches the daemon.
    told_at: u64,
}

impl Keeper {
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub(super) fn end(&mut self) {
        self.is_ending = true;
    }

    /// When a word that takes until `at` reaches the daemon.
    pub(super) fn tells(&mut self, at: u64) -> u64 {
        self.told_at = at.max(self.told_at + 1);
        self.told_at
    }

    /// A daemon ended that was to be kept; the pause until the next one, if there is one.
    pub(super) fn on_daemon_end(&mut self, was_healthy: bool) -> Option<u64> {
        self.failures = if was_healthy { 1 } else { self.failures + 1 };
        self.restarts += 1;
        PAUSES.get(self.failures - 1).copied()
    }

    /// Why a process is not started.
    pub(super) fn refuses(&self, key: ProcessKey) -> Option<String> {
        let is_ending = self.is_ending || self.clearings.contains_key(&key.job);
        is_ending.then(|| format!("job {} is being ended", key.job))
    }

    pub(super) fn on_exited(&mut self, key: ProcessKey, status: ExitStatus) {
        if let Some(held) = self.table.get_mut(&key) {
            held.ended = Some(status);
        }
    }

    pub(super) fn is_alive(&self, key: ProcessKey) -> bool {
        self.table.get(&key).is_some_and(|held| held.ended.is_none())
    }

    pub(super) fn living(&self, job: JobId) -> Vec<ProcessKey> {
        let of_job = self
            .table
            .iter()
            .filter(|(key, held)| key.job == job && held.ended.is_none());
        of_job.map(|(key, _)| *key).collect()
    }

    pub(super) fn jobs(&self) -> BTreeSet<JobId> {
        self.table.keys().map(|key| key.job).collect()
    }

    /// Begins to end a job; false when that is under way.
    pub(super) fn begin_clearing(&mut self, job: JobId) -> bool {
        self.images.retain(|key, _| key.job != job);
        self.salvages.retain(|key| key.job != job);
        if self.clearings.contains_key(&job) {
            return false;
        }
        let killed = self.living(job).len() as u32;
        self.clearings.insert(job, killed);
        true
    }

    /// The processes that were killed, once none is left.
    pub(super) fn cleared(&mut self, job: JobId) -> Option<u32> {
        if self.living(job).is_empty() {
            self.clearings.remove(&job)
        } else {
            None
        }
    }

    pub(super) fn is_clearing(&self) -> bool {
        !self.clearings.is_empty()
    }

    /// Begins to copy a process's data; false when that is under way.
    pub(super) fn begin_salvage(&mut self, key: ParkKey) -> bool {
        self.salvages.insert(key)
    }

    pub(super) fn end_salvage(&mut self, key: ParkKey) -> bool {
        self.salvages.remove(&key)
    }
}
