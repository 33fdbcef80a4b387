//! The session's checkpoints in files: restored at the start, written when due or asked for, old ones removed. Never
//! fails the program because a checkpoint that was due could not be written.

use crate::{
    file_checkpoint::{CheckpointError, Looks, Settings, restore, write},
    mpi::{Communicator, MpiError},
    region::Registry,
};
use std::{collections::VecDeque, path::PathBuf, time::Instant};

/// See the file head.
#[derive(Debug)]
pub(super) struct Files {
    settings: Settings,
    pub(super) looks: Looks,
    /// Written by this run and not removed, oldest first.
    written: VecDeque<PathBuf>,
    /// Why the last one that was due is not there.
    pub(super) failure: Option<CheckpointError>,
}

impl Files {
    /// Restores what the environment names, if this process begins a job. Returns the iteration that begins.
    pub(super) fn begin(
        registry: &mut Registry,
        job: &Communicator,
        is_first: bool,
    ) -> Result<(Self, u64), CheckpointError> {
        let settings = Settings::read()?;
        let iteration = if is_first && !settings.restore.is_empty() {
            restore(registry, job, &settings.restore)?
        } else {
            0
        };
        let files = Self {
            looks: Looks::new(&settings, iteration),
            settings,
            written: VecDeque::new(),
            failure: None,
        };
        Ok((files, iteration))
    }

    /// Looks with all ranks whether a checkpoint is due at the top of an iteration, `begun` of which have begun with
    /// this one, and writes it.
    pub(super) fn look(&mut self, registry: &mut Registry, job: &Communicator, begun: u64) -> Result<(), MpiError> {
        if self.looks.look(job, begun)? {
            self.failure = self.make(registry, job, begun).err();
        }
        Ok(())
    }

    /// Writes a checkpoint with all ranks.
    pub(super) fn make(
        &mut self,
        registry: &mut Registry,
        job: &Communicator,
        begun: u64,
    ) -> Result<PathBuf, CheckpointError> {
        let since = Instant::now();
        // The iteration that is beginning is done again by whoever restores it.
        let outcome = write(registry, job, &self.settings, begun.saturating_sub(1));
        self.looks.made(since.elapsed(), outcome.is_ok());
        let path = outcome?;
        self.written.push_back(path.clone());
        while self.written.len() > self.settings.keep {
            let oldest = self.written.pop_front();
            if let (Some(oldest), 0) = (oldest, job.rank()?) {
                // One that cannot be removed only takes room.
                _ = pcm_checkpoint::remove(&oldest);
            }
        }
        Ok(path)
    }
}
