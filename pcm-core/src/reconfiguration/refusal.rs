//! Why a request for a reconfiguration is not taken on. Nothing has changed when one of these is given.

use pcm_proto::ids::{NodeName, Rank};
use pcm_proto::reconfiguration::{Attempt, Loss, Phase};
use pcm_proto::refusal;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// This daemon does not hold the job's lease.
    #[error("this daemon does not coordinate the job: ask the one on {holder}")]
    NotCoordinator {
        /// Who does, as far as it knows.
        holder: NodeName,
    },
    /// Another reconfiguration is under way.
    #[error("reconfiguration {running} of the job is under way ({}): ask again when it is over", .phase.as_str())]
    Busy {
        running: Attempt,
        /// In which phase.
        phase: Phase,
    },
    /// The job is lost.
    #[error("the job is lost ({loss}): restart it from a checkpoint")]
    JobLost { loss: Loss },
    /// What is asked for cannot be.
    #[error(transparent)]
    Plan(PlanError),
}

/// Why no plan can be made of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A job has at least one rank.
    #[error("a job needs at least one rank: to end it, use kill")]
    NoRanks,
    /// More ranks than a job may have.
    #[error("{ranks} ranks were asked for, a job has at most {}", pcm_proto::job::RANKS_MAX)]
    TooManyRanks { ranks: usize },
    /// A seat names a rank that is not there.
    #[error("there is no rank {rank}: the job has {size} ranks, numbered from 0")]
    UnknownRank {
        rank: Rank,
        /// Ranks there are.
        size: usize,
    },
    /// Two seats name the same rank.
    #[error("rank {rank} is named twice: each present rank has at most one place")]
    RankTwice { rank: Rank },
    /// Not one weight for each rank.
    #[error("{weights} weights for {ranks} ranks: give one for each rank or none")]
    Weights {
        weights: usize,
        /// Ranks asked for.
        ranks: usize,
    },
    /// A rank with no share at all.
    #[error("rank {rank} would get no share: let it leave instead")]
    ZeroWeight { rank: Rank },
    /// A node is gone.
    #[error("node {node} does not answer: choose another one")]
    NodeGone { node: NodeName },
    /// The layout asked for is the present one.
    #[error("the job already has this layout")]
    NothingToDo,
    /// Too many worlds for a live reconfiguration, and nothing else was allowed.
    #[error(
        "a live reconfiguration would join {in_communicator} worlds (some process would have met {met}), more \
             than this MPI bears: use relaunch"
    )]
    Worlds {
        /// Worlds the communicator of the meeting would have.
        in_communicator: u32,
        /// Worlds some process would have met.
        met: u32,
    },
    /// Numbers of processes or worlds are used up.
    #[error("the job has used up its process numbers: restart it from a checkpoint")]
    NumbersExhausted,
}

impl Refused {
    /// Its code among the refusals people and programs rely on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotCoordinator { .. } => refusal::NOT_COORDINATOR,
            Self::Busy { .. } => refusal::RECONFIGURING,
            Self::JobLost { .. } => refusal::JOB_LOST,
            Self::Plan(PlanError::NodeGone { .. }) => refusal::NODE_UNREACHABLE,
            Self::Plan(PlanError::NoRanks | PlanError::TooManyRanks { .. }) => refusal::BAD_SIZE,
            Self::Plan(PlanError::Worlds { .. }) => refusal::NOT_SUPPORTED,
            Self::Plan(_) => refusal::BAD_LAYOUT,
        }
    }
}
