//! Why data did not move. Old data is intact in every case.

use crate::{
    mpi::MpiError,
    region::{HookFailed, memory::MemoryError},
};
use pcm_core::{
    partition::PartitionError,
    redistribution::{ChangeError, ChunkHeader, ChunkRefused, PlanError, parcels::ParcelError},
};
use pcm_proto::reconfiguration::Trouble;
use std::fmt;

/// What went wrong on this process. It cannot agree to the move any more; the move must be aborted everywhere.
#[derive(Debug)]
pub enum MoveError {
    Mpi(MpiError),
    /// The list of ranks makes no sense.
    Change(ChangeError),
    /// The list of ranks names one the transfer communicator does not have.
    NoSuchRank {
        rank: u32,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// This process registered something else than the one that leads the move.
    RegistrationsDiffer {
        /// Rank of this process in the transfer communicator.
        rank: u32,
        /// The first region that differs.
        region: String,
        /// What it is here; none if it is not registered here at this place.
        here: Option<String>,
        /// What it is on rank 0.
        there: Option<String>,
    },
    /// The statement that opens a move is damaged or too long.
    Statement {
        problem: String,
    },
    /// An array cannot be divided among the new ranks.
    Partition {
        region: String,
        error: PartitionError,
    },
    /// There is no plan for an array.
    Plan {
        region: String,
        error: PlanError,
    },
    /// There is no memory for what arrives.
    Memory {
        region: String,
        error: MemoryError,
    },
    /// A custom region's targets are no ranks.
    Parcel {
        region: String,
        error: ParcelError,
    },
    /// The job would shrink, and nobody says what becomes of a per-rank value.
    NoMergeHook {
        region: String,
    },
    /// A hook of the application failed.
    Hook {
        region: String,
        hook: &'static str,
        error: HookFailed,
    },
    /// A chunk is not what its sender sent.
    Corrupt {
        chunk: ChunkHeader,
        /// The sender's rank in the transfer communicator.
        from: u32,
    },
    /// A process sent something else than this one expects.
    Unexpected {
        /// The sender's rank in the transfer communicator.
        from: u32,
        problem: String,
    },
    /// There is no memory for what travels.
    NoRoom {
        /// How much is wanted.
        bytes: u64,
    },
    /// A sender gave up.
    SenderStopped {
        /// Its rank in the transfer communicator.
        from: u32,
    },
    /// Another process cannot take part.
    Elsewhere {
        /// Its rank in the transfer communicator.
        rank: u32,
    },
}

impl MoveError {
    pub(super) fn refused(from: u32, refused: ChunkRefused) -> Self {
        Self::Unexpected {
            from,
            problem: refused.to_string(),
        }
    }
}

impl MoveError {
    /// Whether the program is at fault, so that no other way would help.
    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            Self::RegistrationsDiffer { .. }
            | Self::Partition { .. }
            | Self::Parcel { .. }
            | Self::NoMergeHook { .. }
            | Self::Hook { .. } => Trouble::Program,
            _ => Trouble::Moving,
        }
    }
}

impl From<MpiError> for MoveError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mpi(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
            Self::NoSuchRank { rank, ranks } => write!(
                f,
                "the new layout names rank {rank} of the transfer communicator, which has {ranks}; this is a defect"
            ),
            Self::RegistrationsDiffer {
                rank,
                region,
                here,
                there,
            } => {
                let said = |text: &Option<String>| text.clone().unwrap_or_else(|| "not registered".to_owned());
                write!(
                    f,
                    "region \"{region}\": process {rank} has it as {}, process 0 as {}; every rank must register the \
                     same regions in the same order",
                    said(here),
                    said(there)
                )
            }
            Self::Statement { problem } => write!(f, "the statement that opens a move {problem}"),
            Self::Partition { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Plan { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Memory { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Parcel { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::NoMergeHook { region } => write!(
                f,
                "region \"{region}\": the values of ending ranks would be lost; register it with a merge hook, or do \
                 not shrink the job"
            ),
            Self::Hook { region, hook, error } => write!(f, "region \"{region}\": its {hook} hook failed: {error}"),
            Self::Corrupt { chunk, from } => write!(
                f,
                "region {}: bytes {}+{} of {} arrived damaged from process {from}; the network or memory is faulty",
                chunk.region, chunk.offset, chunk.length, chunk.transfer
            ),
            Self::Unexpected { from, problem } => {
                write!(f, "process {from} sent an unexpected message: {problem}")
            }
            Self::NoRoom { bytes } => write!(
                f,
                "there is no memory for {bytes} bytes that travel by a collective operation; choose a method with p2p"
            ),
            Self::SenderStopped { from } => write!(f, "process {from} stopped sending"),
            Self::Elsewhere { rank } => write!(f, "process {rank} cannot take part; its own report says why"),
        }
    }
}

impl std::error::Error for MoveError {}

/// Messages that are still under way although a move was aborted: their memory is left to MPI for ever, old data is
/// intact, and the transfer communicator is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} messages of an aborted move are still under way; a process that takes part has probably ended", .messages)]
pub struct NotDrained {
    pub messages: usize,
}
