//! Whether libpcm works with a daemon in this process, and why not.

use crate::{
    start,
    start_error::{self, StartError},
};
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// No daemon started this process, or MPI is not initialised yet.
    Plain,
    /// Started by a daemon and working with it.
    Active,
    /// Started by a daemon, but plain MPI.
    Failed(StartError),
}

/// The status, after hearing what the daemon may have to say.
pub(crate) fn now() -> Status {
    if let Some(started) = start::started() {
        started.hear_if_rung();
    }
    match (start_error::failure(), start::started()) {
        (Some(error), _) => Status::Failed(error),
        (None, Some(_)) => Status::Active,
        (None, None) => Status::Plain,
    }
}
