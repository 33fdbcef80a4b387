//! A process of a job, as the job's coordinator knows it.

use pcm_proto::ids::{NodeName, WorldId};
use pcm_proto::peer::ProcessEnd;
use serde::{Deserialize, Serialize};

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessState {
    /// Ordered; its node has not confirmed it.
    Ordered,
    Running {
        /// Its process id.
        pid: u32,
    },
    Ended(ProcessEnd),
    /// It was never there: its node refused to start it.
    Refused,
}

/// What a process is to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A rank of the job's communicator.
    Member,
    /// Started by the application's own `MPI_Comm_spawn`.
    Guest,
    /// Started by a reconfiguration that is not committed: its end is no failure of the job.
    Newcomer,
    /// Told to leave: its end is no failure.
    Leaver,
    /// Started before a spawn asks for it; its end is no failure, and the job does not wait for it.
    Spare,
}

/// One process of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub node: NodeName,
    /// The world it started in.
    pub world: WorldId,
    /// What it is to the job.
    pub role: Role,
    /// Where it stands.
    pub state: ProcessState,
}

impl Process {
    /// Whether nothing more is to be expected of it.
    pub fn is_over(&self) -> bool {
        matches!(self.state, ProcessState::Ended(_) | ProcessState::Refused)
    }

    /// Whether it is, or may be, at work for the job.
    pub(super) fn counts(&self) -> bool {
        !self.is_over() && self.role != Role::Spare
    }
}
