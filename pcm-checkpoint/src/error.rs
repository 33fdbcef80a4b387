//! Why a checkpoint was not written or cannot be read. After a failed write nothing is left under the checkpoint's
//! name.

use crate::damage::Damage;
use own_files::Foreign;
use std::{io, path::PathBuf};

/// Why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Something is there already.
    #[error("{} exists already; give another directory for the checkpoint", .path.display())]
    Exists { path: PathBuf },
    /// The system refused.
    #[error("cannot {action} {}: {source}; no checkpoint was made, earlier ones are unchanged", .path.display())]
    System {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A part file is not there, or not of its length: it was written elsewhere, or its disk lost it.
    #[error("{0}; is the directory on a file system that all nodes share? No checkpoint was made")]
    Part(#[source] Damage),
    /// The manifest contradicts itself: a defect of the writer.
    #[error("the checkpoint's manifest would be wrong: {fault}")]
    Manifest {
        /// What is wrong.
        fault: String,
    },
}

/// Why a checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is not even a directory.
    #[error("there is no directory {}; 'pcmctl checkpoints' lists complete checkpoints", .path.display())]
    NoDirectory { path: PathBuf },
    /// There is no checkpoint here.
    #[error(
        "{} is not a complete checkpoint: it has no {missing}; 'pcmctl checkpoints' lists complete ones",
        .path.display()
    )]
    NotACheckpoint {
        path: PathBuf,
        /// What is missing.
        missing: &'static str,
    },
    /// Others may have written it.
    #[error("{0} checkpoint; a restart runs the program that the checkpoint names, as you")]
    Foreign(#[source] Foreign),
    /// A later version wrote it.
    #[error(
        "{} was written in version {found} of the format, this program reads up to {}; use a newer one",
        .path.display(),
        crate::manifest::VERSION
    )]
    Version { path: PathBuf, found: u32 },
    /// The seal or the manifest is damaged.
    #[error("{} is damaged: {fault}; use another checkpoint", .path.display())]
    Manifest {
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// A part is damaged.
    #[error("{0}; use another checkpoint")]
    Part(#[source] Damage),
    /// The system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
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
