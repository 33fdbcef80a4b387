//! Why a checkpoint was not written or cannot be read. After a failed write nothing is left under the checkpoint's
//! name.

use crate::damage::Damage;
use std::{fmt, io, path::PathBuf};

/// Why a checkpoint was not written.
#[derive(Debug)]
pub enum WriteError {
    /// Something is there already.
    Exists { path: PathBuf },
    /// The system refused.
    System {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A part file is not there, or not of its length: it was written elsewhere, or its disk lost it.
    Part(Damage),
    /// The manifest contradicts itself: a defect of the writer.
    Manifest {
        /// What is wrong.
        fault: String,
    },
}

/// Why a checkpoint cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// There is no checkpoint here.
    NotACheckpoint {
        path: PathBuf,
        /// What is missing.
        missing: &'static str,
    },
    /// A later version wrote it.
    Version { path: PathBuf, found: u32 },
    /// The seal or the manifest is damaged.
    Manifest {
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// A part is damaged.
    Part(Damage),
    /// The system refused.
    System {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

pub(crate) fn writing(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.into();
    move |source| WriteError::System { action, path, source }
}

pub(crate) fn reading(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ReadError {
    let path = path.into();
    move |source| ReadError::System { action, path, source }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { path } => {
                write!(
                    f,
                    "{} exists already; give another directory for the checkpoint",
                    path.display()
                )
            }
            Self::System { action, path, source } => write!(
                f,
                "cannot {action} {}: {source}; no checkpoint was made, earlier ones are unchanged",
                path.display()
            ),
            Self::Part(damage) => write!(
                f,
                "{damage}; is the directory on a file system that all nodes share? No checkpoint was made"
            ),
            Self::Manifest { fault } => write!(f, "the checkpoint's manifest would be wrong: {fault}"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACheckpoint { path, missing } => write!(
                f,
                "{} is not a complete checkpoint: it has no {missing}; 'pcmctl checkpoints' lists complete ones",
                path.display()
            ),
            Self::Version { path, found } => write!(
                f,
                "{} was written in version {found} of the format, this program reads up to {}; use a newer one",
                path.display(),
                crate::manifest::VERSION
            ),
            Self::Manifest { path, fault } => {
                write!(f, "{} is damaged: {fault}; use another checkpoint", path.display())
            }
            Self::Part(damage) => write!(f, "{damage}; use another checkpoint"),
            Self::System { action, path, source } => write!(f, "cannot {action} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for WriteError {}
impl std::error::Error for ReadError {}
