//! The end of a job on this node: its ranks are killed, then what they started, then the memory they left is removed.
//! Each step is short and repeated by the loop until nothing is left or the deadline has passed.

use super::held::Held;
use super::segments::Footprint;
use super::strays::{Mark, kill_strays, unknown_children};
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{KeeperToDaemon, ProcessKey};
use rustix::process::{Signal, kill_process, kill_process_group};
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
    killed: u32,
}

impl Clearing {
    /// Kills the job's ranks.
    pub(super) fn begin(job: JobId, table: &BTreeMap<ProcessKey, Held>, footprint: &mut Footprint) -> Self {
        let mut killed = 0;
        let living: Vec<&Held> = of_job(table, job).filter(|held| held.is_alive()).collect();
        // All are looked at before one is killed: what they share is unmapped one after the other.
        for held in &living {
            footprint.note_mapped(held.pid.as_raw_nonzero().get());
        }
        for held in &living {
            killed += u32::from(kill_process(held.pid, Signal::KILL).is_ok());
            let _ = kill_process_group(held.pid, Signal::KILL);
        }
        let now = Instant::now();
        Self {
            deadline: now + CLEARING_MAX,
            pause: PAUSE_MIN,
            next: now,
            killed,
        }
    }

    /// Looks again; the last word when nothing is left or time is up.
    pub(super) fn step(
        &mut self,
        job: JobId,
        mark: &Mark,
        table: &BTreeMap<ProcessKey, Held>,
        daemon: Option<i32>,
        footprint: &Footprint,
    ) -> Option<KeeperToDaemon> {
        let now = Instant::now();
        let living = u32::try_from(of_job(table, job).filter(|held| held.is_alive()).count()).unwrap_or(u32::MAX);
        let strays = kill_all_strays(job, mark, table, daemon);
        self.killed += strays;
        let left = living + strays;
        if left > 0 && now < self.deadline {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            return None;
        }
        let segments = footprint.remove();
        Some(KeeperToDaemon::JobCleared {
            job,
            killed: self.killed,
            segments,
            left,
        })
    }
}

/// Everything the job's ranks started hangs below a living rank or, its parents dead, below this process.
fn kill_all_strays(job: JobId, mark: &Mark, table: &BTreeMap<ProcessKey, Held>, daemon: Option<i32>) -> u32 {
    let pid = |held: &Held| held.pid.as_raw_nonzero().get();
    let known: BTreeSet<i32> = table
        .values()
        .filter(|held| held.is_alive())
        .map(pid)
        .chain(daemon)
        .collect();
    let has_living = of_job(table, job).any(Held::is_alive);
    if !has_living && unknown_children(&known).is_some_and(|unknown| unknown.is_empty()) {
        return 0;
    }
    let ranks: BTreeSet<i32> = of_job(table, job).map(pid).collect();
    kill_strays(mark, job, &ranks, &known)
}

fn of_job(table: &BTreeMap<ProcessKey, Held>, job: JobId) -> impl Iterator<Item = &Held> {
    table.values().filter(move |held| held.key.job == job)
}
