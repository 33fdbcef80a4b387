//! Why a checkpoint was not written, or not restored: the same on every rank.

use crate::mpi::MpiError;

/// See the file head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// A variable of the environment makes no sense.
    #[error("{name} is {value:?}; it must be {wanted}")]
    Setting {
        name: &'static str,
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The checkpoint was not written. Nothing of the program has changed.
    #[error("the checkpoint was not written: {problem}")]
    Write {
        /// Which rank could not do what.
        problem: String,
    },
    /// No checkpoint was restored; the program's data is not to be used.
    #[error("the checkpoint was not restored: {problem}; end the program")]
    Restore {
        /// Which rank could not do what.
        problem: String,
    },
    /// The ranks could not agree.
    #[error("the ranks could not agree on a checkpoint: {0}")]
    Mpi(#[source] MpiError),
}

impl From<MpiError> for CheckpointError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}
