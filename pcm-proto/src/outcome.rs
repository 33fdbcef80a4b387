//! How an attempt ended and why, as every daemon says it to the others and to people.

use crate::ids::{Epoch, NodeName, ProcessId};
use crate::reconfiguration::{Attempt, Phase, Tally};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why one participant cannot take part any more. It has not agreed and never will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// A newcomer could not be started.
    StartFailed {
        process: ProcessId,
        /// The system's words.
        reason: String,
    },
    /// A process that takes part ended.
    ProcessDied { process: ProcessId },
    /// A rank left its loop: there will be no further iteration.
    JobEnding { process: ProcessId },
    /// A rank was not standing at the ceiling when it was called to the meeting.
    NotStanding { process: ProcessId },
    /// The processes could not be joined.
    NotJoined {
        /// The process that reports it.
        process: ProcessId,
        reason: String,
    },
    /// Data did not arrive, or not as it was sent, or could not be parked.
    NotMoved {
        /// The process that reports it.
        process: ProcessId,
        /// What went wrong.
        reason: String,
    },
    /// The program does not allow the change: its registrations differ, or a hook failed. Another way cannot help.
    Refused {
        /// The process that reports it.
        process: ProcessId,
        reason: String,
    },
    /// Nothing was heard from the coordinator for longer than a participant waits.
    CoordinatorSilent,
    /// The coordinator of the attempt was replaced.
    CoordinatorReplaced,
    /// The participant's daemon was started again in the middle.
    DaemonRestarted,
    /// The participant still has an older attempt to settle.
    Busy { with: Attempt },
    /// The participant knows another layout than the plan starts from.
    OtherLayout {
        /// The epoch it knows.
        epoch: Epoch,
    },
    /// The participant has no record of this attempt.
    Unknown,
}

/// Why an attempt was aborted. The old layout is intact in every case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortReason {
    /// A phase took longer than it may.
    Deadline { phase: Phase },
    /// A participant failed.
    Failed { node: NodeName, failure: Failure },
    /// A participant's node is gone.
    NodeGone { node: NodeName },
    /// Senders and receivers do not agree on what moved.
    TallyMismatch {
        /// Sum over all senders.
        sent: Tally,
        /// Sum over all receivers.
        received: Tally,
    },
    /// The ranks could not be stopped before their loops end, as they declared.
    EndsFirst {
        /// Iterations left after those that had begun.
        left: u64,
    },
    /// The ranks kept outrunning the ceiling.
    NoCeiling { rounds: u32 },
    /// The coordinator's daemon was started again before it had decided.
    CoordinatorRestarted,
    /// The lease moved before anything was decided.
    CoordinatorReplaced,
    /// Somebody asked for it.
    Cancelled,
}

/// What became of an attempt. Made once; every copy says the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The new layout is the job's.
    Committed,
    /// The old layout stays.
    Aborted { reason: AbortReason },
}

/// Why the job cannot go on by reconfiguration alone. Whoever restarts jobs from checkpoints begins here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// A process that held data ended.
    ProcessDied { process: ProcessId },
    /// A process did not come back from MPI and its data could not be saved.
    ProcessStuck { process: ProcessId },
    /// A node that hosts ranks is gone.
    NodeGone { node: NodeName },
    /// Everything was ready to be committed when the coordinator was lost, and nobody left knows whether it was.
    Undecided { attempt: Attempt },
    /// No coordinator could be found for too long.
    NoCoordinator,
    /// A committed reconfiguration did not settle in time.
    NotSettled {
        /// A node that has not answered.
        node: NodeName,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartFailed { process, reason } => write!(f, "process {process} could not be started: {reason}"),
            Self::ProcessDied { process } => write!(f, "process {process} died"),
            Self::JobEnding { process } => write!(f, "process {process} has left its loop: the job is ending"),
            Self::NotStanding { process } => write!(f, "process {process} was not waiting at the meeting point"),
            Self::NotJoined { process, reason } => write!(f, "process {process} could not join: {reason}"),
            Self::NotMoved { process, reason } => write!(f, "the data of process {process} did not move: {reason}"),
            Self::Refused { process, reason } => {
                write!(f, "the program in process {process} does not allow it: {reason}")
            }
            Self::CoordinatorSilent => write!(f, "nothing was heard of the coordinator"),
            Self::CoordinatorReplaced => write!(f, "another coordinator took over"),
            Self::DaemonRestarted => write!(f, "its daemon was started again"),
            Self::Busy { with } => write!(f, "it has not settled attempt {with} yet"),
            Self::OtherLayout { epoch } => write!(f, "it knows layout {epoch} already"),
            Self::Unknown => write!(f, "it knows nothing of this attempt"),
        }
    }
}

impl AbortReason {
    /// Whether a rank had left its loop, or would have before it could be stopped: the job is at its end.
    pub fn is_end_of_job(&self) -> bool {
        matches!(
            self,
            Self::EndsFirst { .. }
                | Self::Failed {
                    failure: Failure::JobEnding { .. },
                    ..
                }
        )
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline { phase } => write!(f, "{} took longer than it may", phase.as_str()),
            Self::Failed { node, failure } => write!(f, "node {node}: {failure}"),
            Self::NodeGone { node } => write!(f, "node {node} is gone"),
            Self::TallyMismatch { sent, received } => {
                write!(
                    f,
                    "{} bytes were sent and {} received, or not the same ones",
                    sent.bytes, received.bytes
                )
            }
            Self::EndsFirst { left: 0 } => write!(f, "the job ends with the iteration it is in"),
            Self::EndsFirst { left: 1 } => {
                write!(f, "the job ends in 1 iteration, too soon for its ranks to stop before")
            }
            Self::EndsFirst { left } => {
                write!(
                    f,
                    "the job ends in {left} iterations, too soon for its ranks to stop before"
                )
            }
            Self::NoCeiling { rounds } => write!(f, "the ranks outran {rounds} ceilings"),
            Self::CoordinatorRestarted => write!(f, "the coordinator's daemon was started again"),
            Self::CoordinatorReplaced => write!(f, "the coordinator was replaced"),
            Self::Cancelled => write!(f, "cancelled on request"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProcessDied { process } => write!(f, "process {process} died and its data with it"),
            Self::ProcessStuck { process } => {
                write!(f, "process {process} hangs in MPI and its data could not be saved")
            }
            Self::NodeGone { node } => write!(f, "node {node} is gone with its ranks"),
            Self::Undecided { attempt } => {
                write!(
                    f,
                    "reconfiguration {attempt} was ready to be committed when its coordinator was lost, and nobody \
                     knows whether it was"
                )
            }
            Self::NoCoordinator => write!(f, "no coordinator could be found"),
            Self::NotSettled { node } => write!(f, "node {node} did not carry out a reconfiguration in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_names_what_it_is_about() {
        let node = NodeName::new("n3").unwrap();
        let failure = Failure::ProcessDied { process: ProcessId(7) };
        let text = AbortReason::Failed { node, failure }.to_string();
        assert_eq!(text, "node n3: process 7 died");
    }
}
