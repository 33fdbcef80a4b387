//! The end of a job on this node: its ranks are killed, then what they started, then the memory they left is removed.
//! Each step is short and repeated by the loop until nothing is left or the deadline has passed.

use super::held::Held;
use super::segments::Footprint;
use super::standbys::Standbys;
use super::strays::{Mark, Stray, strays, unknown_children};
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{KeeperToDaemon, ProcessKey};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A process that has not ended this long after SIGKILL hangs in the kernel; the job must not hang with it.
const CLEARING_MAX: Duration = Duration::from_secs(5);
/// First pause between two looks; killed processes are gone in well under this.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A job that is being ended.
#[derive(Debug)]
pub(super) struct Clearing {
    deadline: Instant,
    pause: Duration,
    pub(super) next: Instant,
    ranks_killed: u32,
    killed: BTreeSet<Stray>,
}

/// What clearing needs to see of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub(super) mark: &'a Mark,
    pub(super) table: &'a BTreeMap<ProcessKey, Held>,
    /// No strays: a job whose ranks have left the node may come back.
    pub(super) standbys: &'a Standbys,
    pub(super) daemon: Option<i32>,
}

impl Clearing {
    /// Kills the job's ranks and what they started.
    pub(super) fn begin(job: JobId, scene: Scene<'_>, footprint: &mut Footprint) -> Self {
        let living: Vec<&Held> = scene.of_job(job).filter(|held| held.is_alive()).collect();
        // All are looked at before one is killed: what they share is unmapped, and their children lose their parent,
        // one after the other.
        for held in &living {
            footprint.note_mapped(held.number());
        }
        let strays = scene.strays(job);
        for held in &living {
            held.kill();
        }
        let ranks_killed = u32::try_from(living.len()).unwrap_or(u32::MAX);
        let now = Instant::now();
        let mut clearing = Self {
            deadline: now + CLEARING_MAX,
            pause: PAUSE_MIN,
            next: now,
            killed: BTreeSet::new(),
            ranks_killed,
        };
        clearing.kill(&strays);
        clearing
    }

    /// Looks again; the last word when nothing is left or time is up.
    pub(super) fn step(&mut self, job: JobId, scene: Scene<'_>, footprint: &Footprint) -> Option<KeeperToDaemon> {
        let now = Instant::now();
        let living = scene.of_job(job).filter(|held| held.is_alive()).count();
        let strays = scene.strays(job);
        self.kill(&strays);
        let left = u32::try_from(living + strays.len()).unwrap_or(u32::MAX);
        if left > 0 && now < self.deadline {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            return None;
        }
        let killed = self.ranks_killed + u32::try_from(self.killed.len()).unwrap_or(u32::MAX);
        Some(KeeperToDaemon::JobCleared {
            job,
            killed,
            segments: footprint.remove(),
            left,
        })
    }

    fn kill(&mut self, strays: &BTreeSet<Stray>) {
        self.killed.extend(strays.iter().filter(|stray| stray.kill()));
    }
}

impl<'a> Scene<'a> {
    fn of_job(self, job: JobId) -> impl Iterator<Item = &'a Held> {
        self.table.values().filter(move |held| held.key.job == job)
    }

    /// Everything the job's ranks started hangs below a living rank or, its parents dead, below this process. So in the
    /// plain case, all ranks ended and no child that is not known, there is no need to look through all processes.
    fn strays(self, job: JobId) -> BTreeSet<Stray> {
        let known: BTreeSet<i32> = self
            .table
            .values()
            .filter(|held| held.is_alive())
            .map(Held::number)
            .chain(self.daemon)
            .chain(self.standbys.numbers())
            .collect();
        let has_living = self.of_job(job).any(Held::is_alive);
        if !has_living && unknown_children(&known).is_some_and(|unknown| unknown.is_empty()) {
            return BTreeSet::new();
        }
        strays(self.mark, job, &self.of_job(job).map(Held::number).collect(), &known)
    }
}
