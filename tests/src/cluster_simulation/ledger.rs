//! Everything that the rules remember of a history.

use super::groups::GroupKey;
use super::machine::machine_named;
use super::seen::Seen;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, Rank};
use pcm_proto::job::JobEnd;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::Layout;
use pcm_proto::reconfiguration::Attempt;
use std::collections::{BTreeMap, BTreeSet};

/// The end of a machine is known to all after this time, in microseconds.
const NOTICED_AFTER: u64 = 6_000_000;

/// A message takes no longer, in microseconds.
const ON_ITS_WAY_MAX: u64 = 500_000;

/// One start of a job.
pub(super) type RunKey = (JobId, u32);

pub(super) fn run_of(group: &GroupKey) -> RunKey {
    (group.job, group.generation)
}

/// What is known of the layouts of one job.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    pub(super) layouts: BTreeMap<Epoch, Layout>,
    pub(super) makers: BTreeMap<Epoch, Attempt>,
    /// Whether an attempt was committed.
    pub(super) decided: BTreeMap<Attempt, bool>,
}

/// What is known of one start of a job.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) newest_epoch: u64,
    /// Highest iteration started, by epoch.
    pub(super) farthest: BTreeMap<u64, u64>,
    /// Where the ranks stood when an attempt called them.
    pub(super) stood_at: BTreeMap<Attempt, u64>,
    pub(super) inside: BTreeMap<ProcessKey, Attempt>,
    /// Processes that have followed a call and are not out again, also those that hang in MPI.
    pub(super) called: BTreeMap<ProcessKey, Attempt>,
    /// Elements taken up, by epoch.
    pub(super) covered: BTreeMap<u64, BTreeMap<u32, ProcessKey>>,
    pub(super) taken_up: BTreeMap<u64, BTreeSet<ProcessKey>>,
    /// The process of each rank, by epoch, and the iteration that it started last.
    pub(super) places: BTreeMap<(u64, Rank), (ProcessKey, u64)>,
    pub(super) finished: BTreeMap<Rank, u64>,
}

/// The newest checkpoint of a job that was called complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Complete {
    pub(super) iteration: u64,
    pub(super) ranks: u32,
    /// Machines were lost since, so parts of it may be.
    pub(super) is_excused: bool,
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    seen: Vec<Seen>,
    pub(super) layouts: BTreeMap<JobId, Layouts>,
    pub(super) runs: BTreeMap<RunKey, Run>,
    pub(super) newest_generation: BTreeMap<JobId, u32>,
    pub(super) started: BTreeMap<ProcessKey, super::happening::Boot>,
    pub(super) living: BTreeSet<ProcessKey>,
    pub(super) accepted: BTreeMap<JobId, u64>,
    pub(super) ends: BTreeMap<JobId, i32>,
    /// What an heir on this machine was told last of a job's end by the newest of its coordinators, and which that was,
    /// while the heir does not lead the job.
    pub(super) willed: BTreeMap<(JobId, usize), (u32, Option<JobEnd>)>,
    /// When machines were last left the will of the job's newest coordinator, and its reign.
    pub(super) wills: BTreeMap<JobId, (u32, BTreeMap<usize, u64>)>,
    /// Jobs whose last heir knew how they were to end, and the machine of that heir.
    pub(super) known_ends: BTreeMap<JobId, (usize, JobEnd)>,
    /// Jobs of which the loss of any one machine leaves a whole checkpoint.
    pub(super) survivors: BTreeSet<JobId>,
    /// Jobs that were such when this machine was lost, while no other is lost and no daemon is started again.
    pub(super) bereaved: BTreeMap<JobId, usize>,
    pub(super) complete: BTreeMap<JobId, Complete>,
    /// The machine that took a job over last.
    pub(super) heirs: BTreeMap<JobId, usize>,
    /// The first epoch of the coordinator that took a job over last.
    pub(super) heirs_begin: BTreeMap<JobId, Epoch>,
    pub(super) buffers_changed: BTreeSet<JobId>,
    /// Processes that hang because this other one was ended while it was being joined with them.
    pub(super) left_behind: BTreeMap<ProcessKey, ProcessKey>,
    /// Where and when each job ended first.
    pub(super) ended_at: BTreeMap<JobId, (usize, u64)>,
    /// When a machine was lost, or left, last.
    pub(super) down_at: Option<u64>,
    /// When each machine was lost, or left, last.
    pub(super) downs: BTreeMap<usize, u64>,
    /// Machines that were lost without notice, or their daemons, and when.
    pub(super) losses: Vec<(usize, u64)>,
    /// The time of the present step.
    pub(super) now: u64,
    /// Whether the network was ever cut, or nodes took each other for lost.
    pub(super) has_cut: bool,
}

impl Ledger {
    pub(super) fn see(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    /// Which jobs survive the loss of a machine, or have survived one.
    pub(super) fn note_survivors(&mut self, seen: &Seen) {
        match seen {
            Seen::Noted { machine, job, kind, .. } => match (job, &**kind) {
                (_, EventKind::NodeGone { name, .. }) => {
                    self.survivors.clear();
                    self.bereaved.retain(|_, lost| machine_named(name) == Some(*lost));
                }
                (Some(job), EventKind::Inherited { .. }) => {
                    self.survivors.remove(job);
                    self.heirs.insert(*job, *machine);
                }
                (Some(job), EventKind::JobEnded { .. }) => _ = self.survivors.remove(job),
                _ => {}
            },
            Seen::MachineLost { machine } => {
                let survivors = std::mem::take(&mut self.survivors);
                self.bereaved = survivors.into_iter().map(|job| (job, *machine)).collect();
                self.downs.insert(*machine, self.now);
            }
            Seen::MachineDown => self.survivors.clear(),
            _ => {}
        }
    }

    pub(super) fn take_seen(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }

    /// Whether the machine on which a job ended, or its daemon, was lost so soon afterwards that a message may have
    /// been on its way.
    pub(super) fn is_lost_at_end(&self, job: JobId) -> bool {
        let Some((machine, at)) = self.ended_at.get(&job) else {
            return false;
        };
        let is_its_loss = |(lost, when): &(usize, u64)| lost == machine && (*at..at + ON_ITS_WAY_MAX).contains(when);
        self.losses.iter().any(is_its_loss)
    }

    /// Whether a machine was lost, or left, so lately that nobody may know it.
    pub(super) fn is_loss_unnoticed(&self) -> bool {
        self.down_at.is_some_and(|at| self.now - at < NOTICED_AFTER)
    }

    /// Whether an heir on another machine ended the job, and that machine was lost, or left, afterwards: the
    /// coordinator before it, whose daemon was away, hears of that from nobody.
    pub(super) fn is_end_forgotten(&self, job: JobId, machine: usize) -> bool {
        let (Some(heir), Some((ended_on, at))) = (self.heirs.get(&job), self.ended_at.get(&job)) else {
            return false;
        };
        heir == ended_on && *heir != machine && self.downs.get(heir).is_some_and(|down| down >= at)
    }

    /// A machine was left a will, of a coordinator with this reign.
    pub(super) fn note_will(&mut self, job: JobId, machine: usize, reign: u32) {
        let known = self.wills.entry(job).or_default();
        if reign > known.0 {
            *known = (reign, BTreeMap::new());
        }
        if reign == known.0 {
            known.1.insert(machine, self.now);
        }
    }

    /// A machine hears that a will is void.
    pub(super) fn note_void(&mut self, job: JobId, machine: usize) {
        if let Some((_, holders)) = self.wills.get_mut(&job) {
            holders.remove(&machine);
        }
    }

    /// A machine whose daemon has held the will of a job ever since it was left there.
    pub(super) fn holder_of_will(&self, job: JobId) -> Option<usize> {
        let (_, holders) = self.wills.get(&job)?;
        let lost = |machine: usize| self.losses.iter().filter(move |(lost, _)| *lost == machine);
        let last_of = |machine: usize| lost(machine).map(|(_, at)| at).chain(self.downs.get(&machine)).max();
        let mut held = holders.iter().filter(|(machine, at)| last_of(**machine) < Some(*at));
        held.next().map(|(machine, _)| *machine)
    }

    /// The first layout that a process is a member of, as far as any daemon has written it.
    pub(super) fn epoch_of(&self, key: ProcessKey) -> Option<u64> {
        let layouts = &self.layouts.get(&key.job)?.layouts;
        let mut with = layouts.values().filter(|layout| layout.member(key.process).is_some());
        with.next().map(|layout| layout.epoch.0)
    }
}
