//! Whether libpcm works with a daemon in this process, and why not.

use crate::start::{self, StartError};
use pcm_proto::app::DaemonToApp;
use std::sync::atomic::Ordering::Acquire;

/// Messages read from the channel in one go; more stay for the next time.
const MESSAGES_MAX: usize = 16;

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
        for _ in 0..MESSAGES_MAX {
            let doorbell = started.recorder.page().head.orders.doorbell.load(Acquire);
            match started.channel.receive(doorbell) {
                Ok(None) => break,
                Ok(Some(DaemonToApp::Refused { version, reason })) => {
                    start::failure_keep(StartError::Refused { version, reason });
                }
                // A program that calls no pcm_iterate takes part in none; the daemon's deadline is its answer.
                Ok(Some(DaemonToApp::Reconfiguration(_))) => {}
                Err(error) => {
                    start::failure_keep(StartError::Channel(error));
                    break;
                }
            }
        }
    }
    match (start::failure(), start::started()) {
        (Some(error), _) => Status::Failed(error),
        (None, Some(_)) => Status::Active,
        (None, None) => Status::Plain,
    }
}
