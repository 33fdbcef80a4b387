//! Where all ranks begin a checkpoint in files, and learn what became of the last one: rank 0 opens the draft and says
//! so. Collective; either all ranks begin or none.

use super::{CheckpointError, Settings, agree, settings::Owner};
use crate::mpi::Communicator;
use pcm_checkpoint::{Draft, WriteError, remove_drafts};
use pcm_proto::checkpoint::IntoFiles;
use serde::{Deserialize, Serialize};
use std::{
    env,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// After a restart the same iterations come again; so many checkpoints of one iteration get names of their own.
const SAME_NAME_MAX: u32 = 1000;

/// A checkpoint whose parts can be written.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Where parts go.
    pub(crate) directory: PathBuf,
    /// Where it will be.
    pub(crate) target: PathBuf,
    /// Whether the data comes from a checkpoint in memory that is made for it.
    pub(crate) is_kept: bool,
    pub(crate) draft: Option<Draft>,
}

#[derive(Serialize, Deserialize)]
struct Announced {
    directory: Vec<u8>,
    target: Vec<u8>,
    is_kept: bool,
}

/// Opens the draft of a checkpoint of this iteration. What ranks other than 0 give counts for nothing.
pub(crate) fn begin_together(
    job: &Communicator,
    settings: &Settings,
    iteration: u64,
    (into, is_kept): (Option<IntoFiles>, bool),
) -> Result<Begun, CheckpointError> {
    let failed = |problem| CheckpointError::Write { problem };
    let mut draft = (job.rank()? == 0).then(|| open(settings, into, iteration));
    let announced = draft.as_ref().map(|draft| match draft {
        Ok(draft) => Ok(Announced {
            directory: bytes_of(draft.directory()),
            target: bytes_of(draft.target()),
            is_kept,
        }),
        Err(error) => Err(error.to_string()),
    });
    let announced: Announced = agree::announce(job, announced)?.map_err(failed)?;
    Ok(Begun {
        directory: path_of(announced.directory),
        target: path_of(announced.target),
        is_kept: announced.is_kept,
        draft: draft.take().and_then(Result::ok),
    })
}

/// What became of the last one, as rank 0 knows, everywhere.
pub(crate) fn end_together(job: &Communicator, outcome: Result<(), String>) -> Result<(), CheckpointError> {
    let own = (job.rank()? == 0).then_some(outcome);
    agree::announce(job, own)?.map_err(|problem| CheckpointError::Write { problem })
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

fn open(settings: &Settings, into: Option<IntoFiles>, iteration: u64) -> Result<Draft, WriteError> {
    let directory = match into {
        Some(IntoFiles::Directory(directory)) => path_of(directory),
        Some(IntoFiles::Usual) | None => settings.directory.clone(),
    };
    let directory = env::current_dir().unwrap_or_default().join(directory);
    let owner = settings.owner.as_ref();
    if let Some(owner) = owner {
        remove_drafts(&directory, |other| owner.is_before(other));
    }
    let owner = owner.map(Owner::text).unwrap_or_default();
    let name = format!("{}-{iteration:08}", settings.name);
    let mut opened = Draft::begin_for(&directory.join(&name), &owner);
    for again in 2..SAME_NAME_MAX {
        match opened {
            Err(WriteError::Exists { .. }) => {
                opened = Draft::begin_for(&directory.join(format!("{name}-{again}")), &owner)
            }
            other => return other,
        }
    }
    opened
}
