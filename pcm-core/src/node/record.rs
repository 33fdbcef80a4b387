//! What a daemon must not forget when it is killed: the records of its journal, and what they say together about the
//! past.

use crate::job::coordinator::{self, Coordinator};
use crate::job::participant::{self, Participant};
use crate::reconfiguration::record::JobRecord;
use pcm_proto::checkpoint::{BufferKey, PartTally, Stamp};
use pcm_proto::control::Stream;
use pcm_proto::ids::{CheckpointId, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::JobStatus;
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
    /// When the keeper was started.
    KeeperSince(u64),
    /// The node takes no new ranks, or does again.
    Draining {
        is_draining: bool,
    },
    /// The highest job number heard of.
    HighestJob(JobId),
    Node(Box<NodeReport>),
    /// The state of a coordinator.
    Coordinator {
        job: JobId,
        state: Box<Coordinator>,
    },
    /// An input to a coordinator.
    CoordinatorInput {
        job: JobId,
        now_us: u64,
        input: coordinator::Input,
    },
    /// The state of this node's part of a job.
    Part {
        job: JobId,
        state: Box<Participant>,
    },
    /// An input to this node's part of a job.
    PartInput {
        job: JobId,
        now_us: u64,
        input: participant::Input,
    },
    /// What is remembered of a job's reconfigurations.
    Reform {
        job: JobId,
        record: Box<JobRecord>,
    },
    /// This node's part of a job is over.
    PartOver {
        job: JobId,
    },
    /// Another daemon leads this job.
    Abdicated {
        job: JobId,
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

/// What a journal says about the past.
#[derive(Debug, Default)]
pub struct Past {
    pub address: Option<String>,
    pub is_draining: bool,
    pub keeper_since_us: Option<u64>,
    pub highest_job: JobId,
    pub nodes: Vec<NodeReport>,
    pub coordinators: BTreeMap<JobId, Coordinator>,
    pub parts: BTreeMap<JobId, Participant>,
    pub reforms: BTreeMap<JobId, JobRecord>,
    pub kept: BTreeMap<BufferKey, Holding>,
    pub ended: Vec<(u64, JobStatus)>,
    pub printed: BTreeMap<JobId, BTreeMap<(ProcessId, Stream), u64>>,
    pub written: BTreeMap<JobId, BTreeMap<(ProcessId, Stream), u64>>,
}

impl Past {
    /// Takes in the next record.
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Listens { address } => self.address = Some(address),
            Record::KeeperSince(since_us) => self.keeper_since_us = Some(since_us),
            Record::Draining { is_draining } => self.is_draining = is_draining,
            Record::HighestJob(job) => self.highest_job = self.highest_job.max(job),
            Record::Node(report) => {
                self.nodes.retain(|known| known.node != report.node);
                self.nodes.push(*report);
            }
            Record::Coordinator { job, state } => {
                self.coordinators.insert(job, *state);
            }
            Record::CoordinatorInput { job, now_us, input } => {
                if let Some(coordinator) = self.coordinators.get_mut(&job) {
                    coordinator.handle(now_us, input);
                }
            }
            Record::Part { job, state } => {
                self.parts.insert(job, *state);
            }
            Record::PartInput { job, now_us, input } => {
                if let Some(part) = self.parts.get_mut(&job) {
                    part.handle(now_us, input);
                }
            }
            Record::Reform { job, record } => {
                self.reforms.insert(job, *record);
            }
            Record::Kept { key, holds } => {
                self.kept.insert(key, *holds);
            }
            Record::NotKept { key } => {
                self.kept.remove(&key);
            }
            Record::PartOver { job } => {
                self.reforms.remove(&job);
                self.parts.remove(&job);
                self.printed.remove(&job);
            }
            Record::Abdicated { job } => {
                self.coordinators.remove(&job);
                self.written.remove(&job);
            }
            Record::Ended { now_us, status } => {
                self.coordinators.remove(&status.job);
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
