//! What a daemon must not forget when it is killed: the records of its journal, and what they say together about the
//! past.

use crate::job::at_node::{Entry, JobAtNode};
use crate::job::participant::Participant;
use crate::moment::Moment;
use crate::node::numbers::Numbers;
use crate::reconfiguration::limits::Limits;
use pcm_proto::checkpoint::{BufferKey, PartTally, Stamp};
use pcm_proto::control::Stream;
use pcm_proto::ids::{CheckpointId, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::{JobEnd, JobState, JobStatus};
use pcm_proto::peer::NodeReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of a checkpoint: which job's, which checkpoint's, whose.
pub type PartKey = (JobId, CheckpointId, Rank);

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub stamp: Stamp,
    pub rank: Rank,
    /// Known when the checksums are taken.
    pub tally: Option<PartTally>,
    pub held_us: u64,
    /// The node whose daemon coordinates the job.
    pub coordinator: NodeName,
}

/// One fact that a daemon must not forget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The daemon listens here.
    Listens {
        address: String,
    },
    /// The number of the daemon's boot.
    Boot(u64),
    /// When the keeper was started.
    KeeperSince(u64),
    /// The node takes no new ranks, or does again.
    Draining {
        is_draining: bool,
    },
    /// The highest job number heard of.
    HighestJob(JobId),
    Node(Box<NodeReport>),
    /// A node left on purpose.
    NodeLeft(NodeName),
    /// What a job decided in one step, or all of the job.
    Job {
        job: JobId,
        entry: Box<Entry>,
    },
    /// This node's part of a job is over.
    PartOver {
        job: JobId,
    },
    /// Another daemon leads this job.
    Abdicated {
        job: JobId,
    },
    /// The daemon panicked at something that came about this job.
    Panicked {
        job: JobId,
        at_us: u64,
    },
    /// A job that this daemon coordinated ended, and everybody was told.
    Ended {
        now_us: u64,
        status: Box<JobStatus>,
    },
    /// What a buffer of a checkpoint holds.
    Kept {
        key: BufferKey,
        holds: Box<Holding>,
    },
    /// A buffer of a checkpoint was dropped.
    NotKept {
        key: BufferKey,
    },
    /// Output of a process here that was passed on.
    Printed {
        job: JobId,
        process: ProcessId,
        stream: Stream,
        bytes: u64,
    },
    /// Output of a detached job that was written to its files.
    Written {
        job: JobId,
        process: ProcessId,
        stream: Stream,
        bytes: u64,
    },
}

/// So many panics in a row cost the job. A keeper gives its daemon up after twice as many.
const PANICS_MAX: u32 = 3;

/// Panics further apart are not in a row.
const PANIC_PAUSE_US: u64 = 60_000_000;

/// Jobs at which daemons of this node panicked: when that was last, and how many times in a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panics(BTreeMap<JobId, (u64, u32)>);

impl Panics {
    /// Takes note of a panic; whether it costs the job.
    fn note(&mut self, job: JobId, at_us: u64) -> bool {
        let (last_us, count) = self.0.entry(job).or_default();
        let is_in_row = at_us.saturating_sub(*last_us) <= PANIC_PAUSE_US;
        (*last_us, *count) = (at_us, if is_in_row { *count + 1 } else { 1 });
        *count == PANICS_MAX
    }

    /// Forgets a job that is over here.
    pub fn forget(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    /// What a successor has to know.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let each = self
            .0
            .iter()
            .flat_map(|(job, (at_us, count))| (0..*count).map(move |_| (*job, *at_us)));
        each.map(|(job, at_us)| Record::Panicked { job, at_us })
    }
}

/// A job of which a record could not be taken in: its ranks here are ended, and others hear of it.
#[derive(Clone, Debug, PartialEq)]
pub struct LostJob {
    pub reason: String,
    /// How it ended, and the nodes that it used; where this node led it.
    pub led: Option<(JobStatus, Vec<NodeName>)>,
    /// The other node that leads it.
    pub leader: Option<NodeName>,
}

/// What a journal says about the past.
#[derive(Debug)]
pub struct Past {
    own: NodeName,
    limits: Limits,
    /// The highest number of a boot.
    boot: u64,
    pub address: Option<String>,
    pub is_draining: bool,
    pub keeper_since_us: Option<u64>,
    pub numbers: Numbers,
    pub nodes: Vec<NodeReport>,
    pub jobs: BTreeMap<JobId, JobAtNode>,
    pub lost: BTreeMap<JobId, LostJob>,
    pub panics: Panics,
    pub kept: BTreeMap<BufferKey, Holding>,
    pub ended: Vec<(u64, JobStatus)>,
    pub printed: BTreeMap<JobId, BTreeMap<(ProcessId, Stream), u64>>,
    pub written: BTreeMap<JobId, BTreeMap<(ProcessId, Stream), u64>>,
}

impl Past {
    /// Before the first record of a node.
    pub fn new(own: NodeName, limits: Limits) -> Self {
        Self {
            numbers: Numbers::new(&own),
            own,
            limits,
            boot: 0,
            address: None,
            is_draining: false,
            keeper_since_us: None,
            nodes: Vec::new(),
            jobs: BTreeMap::new(),
            lost: BTreeMap::new(),
            panics: Panics::default(),
            kept: BTreeMap::new(),
            ended: Vec::new(),
            printed: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// The first moment of the next daemon, which is the number of its boot, too: others take a daemon whose number is
    /// lower than that of the one before for the earlier one, so a clock that was set back does not count.
    pub fn next_boot(&self, clock: Moment) -> Moment {
        clock.max(Moment(self.boot.saturating_add(1)))
    }

    fn change(&mut self, job: JobId, change: impl FnOnce(&mut JobAtNode)) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        change(known);
        if known.coordinator().is_none() && known.part().is_none() {
            self.jobs.remove(&job);
        }
    }

    /// Gives up a job whose last record could not be taken in. What comes of it later does not count.
    pub fn lose(&mut self, job: JobId, reason: String) {
        let known = self.jobs.remove(&job);
        let led = known.as_ref().and_then(JobAtNode::coordinator).map(|coordinator| {
            let status = JobStatus {
                state: JobState::Ended,
                end: Some(JobEnd {
                    code: 1,
                    reason: reason.clone(),
                }),
                ..coordinator.status()
            };
            (status, coordinator.nodes_with_output().cloned().collect())
        });
        let leader = known.as_ref().and_then(JobAtNode::part).map(Participant::coordinator);
        let leader = leader.filter(|leader| **leader != self.own).cloned();
        self.lost.insert(job, LostJob { reason, led, leader });
    }

    /// A job at which the daemon panicked before may be lost for it.
    fn note_panic(&mut self, job: JobId, at_us: u64) {
        if self.panics.note(job, at_us) {
            let reason = format!("its node's daemon died {PANICS_MAX} times in a row of what came about the job");
            self.lose(job, reason);
        }
    }

    /// What others had to hear of a lost job is over.
    fn settle(&mut self, job: JobId, settle: impl FnOnce(&mut LostJob)) {
        let Some(lost) = self.lost.get_mut(&job) else { return };
        settle(lost);
        if lost.led.is_none() && lost.leader.is_none() {
            self.lost.remove(&job);
        }
    }

    /// Takes in the next record.
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Listens { address } => self.address = Some(address),
            Record::Boot(boot) => self.boot = self.boot.max(boot),
            Record::KeeperSince(since_us) => self.keeper_since_us = Some(since_us),
            Record::Draining { is_draining } => self.is_draining = is_draining,
            Record::HighestJob(job) => {
                self.numbers.note(job);
            }
            Record::Node(report) => {
                self.nodes.retain(|known| known.node != report.node);
                self.nodes.push(*report);
            }
            Record::NodeLeft(node) => self.nodes.retain(|known| known.node != node),
            Record::Job { job, .. } if self.lost.contains_key(&job) => {}
            Record::Job { job, entry } if self.jobs.contains_key(&job) || matches!(*entry, Entry::State { .. }) => {
                let machine = JobAtNode::new(job, self.own.clone(), self.limits.clone());
                self.jobs.entry(job).or_insert(machine).take(*entry);
            }
            // A step of a job that was lost before, and is over in part.
            Record::Job { .. } => {}
            Record::Panicked { job, at_us } => self.note_panic(job, at_us),
            Record::Kept { key, holds } => {
                self.kept.insert(key, *holds);
            }
            Record::NotKept { key } => {
                self.kept.remove(&key);
            }
            Record::PartOver { job } => {
                self.change(job, JobAtNode::stop_running);
                self.settle(job, |lost| lost.leader = None);
                self.panics.forget(job);
                self.printed.remove(&job);
            }
            Record::Abdicated { job } => {
                self.change(job, |known| _ = known.stop_leading());
                self.settle(job, |lost| lost.led = None);
                self.written.remove(&job);
            }
            Record::Ended { now_us, status } => {
                self.change(status.job, |known| _ = known.stop_leading());
                self.settle(status.job, |lost| lost.led = None);
                self.panics.forget(status.job);
                self.written.remove(&status.job);
                self.ended.push((now_us, *status));
            }
            Record::Printed {
                job,
                process,
                stream,
                bytes,
            } => {
                self.printed.entry(job).or_default().insert((process, stream), bytes);
            }
            Record::Written {
                job,
                process,
                stream,
                bytes,
            } => {
                self.written.entry(job).or_default().insert((process, stream), bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_boot_is_above_that_before_also_when_the_clock_was_set_back() {
        let mut past = Past::new(NodeName::new("n0").unwrap(), Limits::default());
        assert_eq!(past.next_boot(Moment(70)), Moment(70));
        past.take(Record::Boot(70));
        past.take(Record::Boot(60));
        assert_eq!(past.next_boot(Moment(5)), Moment(71));
        assert_eq!(past.next_boot(Moment(90)), Moment(90));
    }
}
