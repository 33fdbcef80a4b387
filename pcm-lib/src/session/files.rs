//! The session's checkpoints: restored from files at the start, made when due or asked for: in memory where a daemon
//! keeps them, in files where that is wanted or there is no daemon. Old files are removed. Never fails the program because
//! a checkpoint that was due could not be made.

use crate::{
    file_checkpoint::{CheckpointError, Looks, Settings, restore, write},
    keep::{Buffers, Kept},
    mpi::{Communicator, MpiError},
    region::Registry,
    start::Started,
};
use pcm_core::checkpoint::When;
use pcm_proto::{
    app::AppToDaemon,
    checkpoint::RankCheckpoint,
    ids::{CheckpointId, Iteration, Rank},
};
use std::{
    collections::VecDeque,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// See the file head.
#[derive(Debug)]
pub(super) struct Files {
    settings: Settings,
    pub(super) looks: Looks,
    /// Where a daemon keeps checkpoints, in memory.
    memory: Option<Memory>,
    /// Written by this run and not removed, oldest first.
    written: VecDeque<PathBuf>,
    /// Why the last one that was due is not there.
    pub(super) failure: Option<CheckpointError>,
}

#[derive(Debug)]
struct Memory {
    started: &'static Started,
    buffers: Buffers,
}

impl Files {
    /// Restores what the environment names, if this process begins a job. Returns the iteration that begins.
    pub(super) fn begin(
        registry: &mut Registry,
        job: &Communicator,
        is_first: bool,
        started: Option<&'static Started>,
    ) -> Result<(Self, u64), CheckpointError> {
        let settings = Settings::read()?;
        let iteration = if is_first && !settings.restore.is_empty() {
            restore(registry, job, &settings.restore, &mut |bytes| {
                show_restored(started, bytes)
            })?
        } else {
            0
        };
        let memory = started.map(|started| Memory {
            started,
            buffers: Buffers::default(),
        });
        let mut files = Self {
            looks: Looks::new(&settings, iteration, started.is_some()),
            settings,
            memory,
            written: VecDeque::new(),
            failure: None,
        };
        files.prepare(registry);
        Ok((files, iteration))
    }

    /// The ranks have changed, and their data with them.
    pub(super) fn renew(&mut self, registry: &mut Registry, begun: u64) {
        self.looks.renew(begun);
        self.prepare(registry);
    }

    /// Memory that is touched now is not touched while the program is held.
    fn prepare(&mut self, registry: &mut Registry) {
        if self.settings.when != When::OnDemand
            && let Some(memory) = &mut self.memory
        {
            // What is lacking is told when a checkpoint is due.
            _ = memory.buffers.prepare(registry);
        }
    }

    /// Looks with all ranks whether a checkpoint is due at the top of an iteration, `begun` of which have begun with
    /// this one, and makes it.
    pub(super) fn look(&mut self, registry: &mut Registry, job: &Communicator, begun: u64) -> Result<(), MpiError> {
        let said = self.memory.as_ref().map_or((false, true), |memory| {
            let orders = &memory.started.orders.checkpoints;
            (orders.is_wanted(), memory.buffers.is_free(orders))
        });
        if !self.looks.look(job, begun, said)? {
            return Ok(());
        }
        let Some(memory) = &mut self.memory else {
            self.failure = self.make(registry, job, begun).err();
            return Ok(());
        };
        let since = Instant::now();
        let kept = memory.keep(registry, (job.rank()?, job.size()?), begun);
        self.looks.made(since.elapsed(), kept.is_ok());
        self.failure = kept.err().map(|problem| CheckpointError::Write { problem });
        if self.settings.has_files
            && let Err(error) = self.make(registry, job, begun)
        {
            self.failure = Some(error);
        }
        Ok(())
    }

    /// Writes a checkpoint into files with all ranks.
    pub(super) fn make(
        &mut self,
        registry: &mut Registry,
        job: &Communicator,
        begun: u64,
    ) -> Result<PathBuf, CheckpointError> {
        let since = Instant::now();
        // The iteration that is beginning is done again by whoever restores it.
        let iteration = begun.saturating_sub(1);
        let outcome = write(registry, job, &self.settings, iteration);
        self.looks.made(since.elapsed(), outcome.is_ok());
        let path = outcome?;
        let is_first = job.rank()? == 0;
        if let Some(memory) = self.memory.as_ref().filter(|_| is_first) {
            let directory = path.as_os_str().as_bytes().to_vec();
            let iteration = Iteration(iteration);
            memory.tell(RankCheckpoint::Filed { iteration, directory });
        }
        self.written.push_back(path.clone());
        while self.written.len() > self.settings.keep {
            let oldest = self.written.pop_front();
            if let (Some(oldest), true) = (oldest, is_first) {
                // One that cannot be removed only takes room.
                _ = pcm_checkpoint::remove(&oldest);
            }
        }
        Ok(path)
    }
}

impl Memory {
    /// Copies what is registered and tells the daemon. What one rank cannot keep, the daemon gives up for all.
    fn keep(&mut self, registry: &mut Registry, (rank, ranks): (u32, u32), begun: u64) -> Result<(), String> {
        let Self { started, buffers } = self;
        let orders = &started.orders.checkpoints;
        orders.wanted_take();
        let since = Instant::now();
        // Iterations only go on between two checkpoints, so they number them.
        let (id, iteration) = (CheckpointId(begun), begun.saturating_sub(1));
        match buffers.keep(registry, orders, (id, iteration)) {
            Ok(Kept { buffer, bytes, file }) => {
                let kept = RankCheckpoint::Kept {
                    buffer,
                    id,
                    iteration: Iteration(iteration),
                    rank: Rank(rank),
                    ranks,
                    bytes,
                    held_us: micros(since.elapsed()),
                };
                let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
                let sent = started.channel.send_with(&AppToDaemon::Checkpoint(kept), &files);
                sent.map_err(|error| {
                    buffers.not_told(buffer);
                    format!("the daemon cannot be told: {error:?}")
                })
            }
            Err(reason) => {
                let not_kept = RankCheckpoint::NotKept {
                    id,
                    reason: reason.clone(),
                };
                self.tell(not_kept);
                Err(reason)
            }
        }
    }

    /// A daemon that cannot be told knows nothing of the checkpoint, and gives it up in time.
    fn tell(&self, said: RankCheckpoint) {
        _ = self.started.channel.send(&AppToDaemon::Checkpoint(said));
    }
}

/// Says on the page how far restoring has come.
fn show_restored(started: Option<&'static Started>, bytes: u64) {
    if let Some(started) = started {
        let progress = &started.recorder.page().head.progress;
        progress.restored_bytes.fetch_add(bytes, Relaxed);
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
