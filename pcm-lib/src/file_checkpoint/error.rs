//! Why a checkpoint was not written, or not restored: the same on every rank.

use crate::mpi::MpiError;
use std::fmt;

/// See the file head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointError {
    /// A variable of the environment makes no sense.
    Setting {
        name: &'static str,
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The checkpoint was not written. Nothing of the program has changed.
    Write {
        /// Which rank could not do what.
        problem: String,
    },
    /// No checkpoint was restored; the program's data is not to be used.
    Restore {
        /// Which rank could not do what.
        problem: String,
    },
    /// The ranks could not agree.
    Mpi(MpiError),
}

impl From<MpiError> for CheckpointError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, value, wanted } => write!(f, "{name} is {value:?}; it must be {wanted}"),
            Self::Write { problem } => write!(f, "the checkpoint was not written: {problem}"),
            Self::Restore { problem } => write!(f, "the checkpoint was not restored: {problem}; end the program"),
            Self::Mpi(error) => write!(f, "the ranks could not agree on a checkpoint: {error}"),
        }
    }
}

impl std::error::Error for CheckpointError {}
