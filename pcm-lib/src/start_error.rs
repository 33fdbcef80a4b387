//! Why a process that a daemon started is plain MPI all the same, and the first such reason, which is kept. Never
//! prints.

use crate::{channel::ChannelError, mpi::MpiError};
use pcm_proto::page::PageError;
use rustix::io::Errno;
use std::{
    fmt,
    os::fd::RawFd,
    sync::{Mutex, PoisonError},
};

/// Why a daemon's environment could not be used. The program goes on as plain MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartError {
    /// A variable is missing while others are there, or says nothing sensible.
    Variable { name: &'static str, value: Option<String> },
    /// A descriptor is not open, or not what it should be.
    Descriptor {
        name: &'static str,
        number: RawFd,
        errno: Errno,
    },
    /// The page cannot be mapped.
    Map { detail: String },
    /// The page is none for this build.
    Page(PageError),
    /// Another process uses the page; probably this one's parent.
    Taken { pid: u64 },
    /// The channel does not work.
    Channel(ChannelError),
    /// MPI does not answer.
    Mpi(MpiError),
    /// The daemon refused the process later on.
    Refused { version: u16, reason: String },
}

static FAILURE: Mutex<Option<StartError>> = Mutex::new(None);

/// Why the process is plain MPI although a daemon started it.
pub(crate) fn failure() -> Option<StartError> {
    FAILURE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps the first reason for [`failure`].
pub(crate) fn failure_keep(error: StartError) {
    FAILURE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert(error);
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name, value: None } => {
                write!(f, "the daemon's environment is incomplete: {name} is missing")?;
            }
            Self::Variable {
                name,
                value: Some(value),
            } => {
                write!(f, "the daemon's environment is damaged: {name} is {value:?}")?;
            }
            Self::Descriptor { name, number, errno } => {
                write!(
                    f,
                    "descriptor {number} ({name}) cannot be used: {errno}; was it closed, or not inherited?"
                )?;
            }
            Self::Map { detail } => write!(f, "the shared page cannot be mapped: {detail}")?,
            Self::Page(error) => error.fmt(f)?,
            Self::Taken { pid } => {
                write!(
                    f,
                    "the shared page belongs to process {pid}; a child of a rank cannot be a rank itself"
                )?;
            }
            Self::Channel(error) => error.fmt(f)?,
            Self::Mpi(error) => error.fmt(f)?,
            Self::Refused { version, reason } => {
                write!(
                    f,
                    "the daemon (protocol version {version}) refused this process: {reason}"
                )?;
            }
        }
        write!(f, "; the program runs as plain MPI")
    }
}
