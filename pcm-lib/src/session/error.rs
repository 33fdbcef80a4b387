//! Why a call of the session failed.

use crate::{
    channel::ChannelError,
    file_checkpoint::CheckpointError,
    mpi::MpiError,
    redistribute::MoveError,
    region::{HookFailed, RegionError},
};
use std::fmt;

/// Why the library cannot be used now. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUsable {
    /// MPI is not initialised.
    BeforeMpi,
    /// MPI is finalised.
    AfterMpi,
    /// The calling thread is not the one that initialised MPI.
    OtherThread,
    /// A hook that the library has called calls the library.
    InHook,
    /// MPI does not answer.
    Mpi(MpiError),
}

/// See the file head.
#[derive(Debug)]
pub enum SessionError {
    /// The library cannot be used now.
    NotUsable(NotUsable),
    /// A registration failed, or a call came before or after the start.
    Region(RegionError),
    /// MPI failed when the next layout was already decided.
    Mpi(MpiError),
    /// The data of the next layout is not what it should be: an unpack hook failed after the decision.
    Move(MoveError),
    /// The change hook failed. The next layout is in force.
    ChangeHook(HookFailed),
    /// What was parked for a relaunch could not be taken up; why, when it is told for the first time.
    NotRestored(Option<String>),
    /// No job has 0 ranks.
    NoRanks,
    /// The daemon cannot be asked.
    Channel(ChannelError),
    /// A checkpoint was not written or not restored.
    Checkpoint(CheckpointError),
    /// The program has a session already.
    SecondSession,
    /// A defect of the library.
    Defect(&'static str),
}

impl From<RegionError> for SessionError {
    fn from(error: RegionError) -> Self {
        Self::Region(error)
    }
}

impl From<NotUsable> for SessionError {
    fn from(error: NotUsable) -> Self {
        Self::NotUsable(error)
    }
}

impl From<MpiError> for SessionError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

impl From<CheckpointError> for SessionError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error)
    }
}

impl From<MoveError> for SessionError {
    fn from(error: MoveError) -> Self {
        Self::Move(error)
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUsable(error) => error.fmt(f),
            Self::Region(error) => error.fmt(f),
            Self::Mpi(error) => write!(f, "the ranks changed, but {error}; end the program"),
            Self::Move(error) => write!(f, "the ranks changed, but {error}; end the program"),
            Self::ChangeHook(error) => write!(f, "the ranks changed, but the change hook failed: {error}"),
            Self::NotRestored(None) => {
                f.write_str("this process did not get its data and must not continue; end the program")
            }
            Self::NotRestored(Some(why)) => write!(f, "this process cannot restore its data: {why}; end the program"),
            Self::NoRanks => f.write_str("a job cannot have 0 ranks; ask for 1 or more"),
            Self::Channel(error) => error.fmt(f),
            Self::Checkpoint(error) => error.fmt(f),
            Self::SecondSession => f.write_str("the program has a session already; a process has one at a time"),
            Self::Defect(text) => write!(f, "a defect in libpcm, please report it: {text}"),
        }
    }
}

impl std::error::Error for SessionError {}

impl fmt::Display for NotUsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeMpi => f.write_str("MPI is not initialised; call MPI_Init first"),
            Self::AfterMpi => f.write_str("MPI is finalised; call this before MPI_Finalize"),
            Self::OtherThread => {
                f.write_str("this thread is not the one that called MPI_Init; call libpcm from that thread")
            }
            Self::InHook => f.write_str("a hook must not call libpcm; use only the arguments of the hook"),
            Self::Mpi(error) => error.fmt(f),
        }
    }
}
