//! Why a request for a reconfiguration is not taken on. Nothing has changed when one of these is given.

use pcm_proto::ids::{NodeName, Rank};
use pcm_proto::reconfiguration::{Attempt, Loss, Phase};
use pcm_proto::refusal;
use std::fmt;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This daemon does not hold the job's lease.
    NotCoordinator {
        /// Who does, as far as it knows.
        holder: NodeName,
    },
    /// Another reconfiguration is under way.
    Busy {
        running: Attempt,
        /// In which phase.
        phase: Phase,
    },
    /// The job is lost.
    JobLost { loss: Loss },
    /// What is asked for cannot be.
    Plan(PlanError),
}

/// Why no plan can be made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A job has at least one rank.
    NoRanks,
    /// More ranks than a job may have.
    TooManyRanks { ranks: usize },
    /// A seat names a rank that is not there.
    UnknownRank {
        rank: Rank,
        /// Ranks there are.
        size: usize,
    },
    /// Two seats name the same rank.
    RankTwice { rank: Rank },
    /// Not one weight for each rank.
    Weights {
        weights: usize,
        /// Ranks asked for.
        ranks: usize,
    },
    /// A rank with no share at all.
    ZeroWeight { rank: Rank },
    /// A node is gone.
    NodeGone { node: NodeName },
    /// The layout asked for is the present one.
    NothingToDo,
    /// Too many worlds for a live reconfiguration, and nothing else was allowed.
    Worlds {
        /// Worlds the communicator of the meeting would have.
        in_communicator: u32,
        /// Worlds some process would have met.
        met: u32,
    },
    /// Numbers of processes or worlds are used up.
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

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCoordinator { holder } => {
                write!(f, "this daemon does not coordinate the job: ask the one on {holder}")
            }
            Self::Busy { running, phase } => write!(
                f,
                "reconfiguration {running} of the job is under way ({}): ask again when it is over",
                phase.as_str()
            ),
            Self::JobLost { loss } => write!(f, "the job is lost ({loss}): restart it from a checkpoint"),
            Self::Plan(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRanks => write!(f, "a job needs at least one rank: to end it, use kill"),
            Self::TooManyRanks { ranks } => {
                write!(
                    f,
                    "{ranks} ranks were asked for, a job has at most {}",
                    pcm_proto::job::RANKS_MAX
                )
            }
            Self::UnknownRank { rank, size } => {
                write!(f, "there is no rank {rank}: the job has {size} ranks, numbered from 0")
            }
            Self::RankTwice { rank } => {
                write!(f, "rank {rank} is named twice: each present rank has at most one place")
            }
            Self::Weights { weights, ranks } => {
                write!(f, "{weights} weights for {ranks} ranks: give one for each rank or none")
            }
            Self::ZeroWeight { rank } => write!(f, "rank {rank} would get no share: let it leave instead"),
            Self::NodeGone { node } => write!(f, "node {node} does not answer: choose another one"),
            Self::NothingToDo => write!(f, "the job already has this layout"),
            Self::Worlds { in_communicator, met } => write!(
                f,
                "a live reconfiguration would join {in_communicator} worlds (some process would have met {met}), \
                 more than this MPI bears: use relaunch"
            ),
            Self::NumbersExhausted => write!(
                f,
                "the job has used up its process numbers: restart it from a checkpoint"
            ),
        }
    }
}

impl std::error::Error for Refused {}
impl std::error::Error for PlanError {}
