//! The session's checkpoints: restored from files at the start, made when due or asked for: in memory where a daemon
//! keeps them, in files where that is wanted or there is no daemon. The program is held for a copy of its data; files
//! are written behind its back. Never fails the program because a checkpoint that was due could not be made.

use crate::{
    file_checkpoint::{
        Behind, CheckpointError, Due, Looks, Outline, Said, Settings, Source, Task, Tell, begin_together, end_together,
        restore,
    },
    keep::{Begun, Buffers, Kept},
    mpi::{Communicator, MpiError},
    park::Image,
    region::Registry,
    start::Started,
};
use pcm_core::checkpoint::When;
use pcm_proto::{
    app::AppToDaemon,
    checkpoint::{IntoFiles, RankCheckpoint},
    ids::{CheckpointId, Iteration, Rank},
};
use std::{
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// See the file head.
#[derive(Debug)]
pub(super) struct Checkpoints {
    settings: Settings,
    pub(super) looks: Looks,
    /// Where a daemon keeps checkpoints, in memory.
    memory: Option<Memory>,
    /// What writes files.
    behind: Behind,
    /// What became of the last checkpoint in files, as far as this rank knows; none before the first.
    ended: Result<(), String>,
    /// Whether memory for the next one is to be made, at a top at which the ranks look: to know how much it is, data is
    /// packed, and the program has gone on with what it got by then.
    lacks_memory: bool,
    /// Why the last one that was due is not there.
    pub(super) failure: Option<CheckpointError>,
}

#[derive(Debug)]
struct Memory {
    started: &'static Started,
    buffers: Buffers,
    /// The last checkpoint that the daemon was told of.
    told: Option<CheckpointId>,
}

impl Checkpoints {
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
            told: None,
        });
        let checkpoints = Self {
            looks: Looks::new(&settings, iteration, started.is_some()),
            settings,
            memory,
            behind: Behind::default(),
            ended: Ok(()),
            lacks_memory: true,
            failure: None,
        };
        Ok((checkpoints, iteration))
    }

    /// The ranks have changed, and their data with them.
    pub(super) fn renew(&mut self, begun: u64) {
        self.looks.renew(begun);
        self.lacks_memory = true;
    }

    /// Memory that is touched now is not touched while the program is held.
    fn prepare(&mut self, registry: &mut Registry) {
        if self.settings.when == When::OnDemand {
            return;
        }
        // What is lacking is told when a checkpoint is due.
        match &mut self.memory {
            Some(memory) => _ = memory.buffers.prepare(registry),
            None => {
                if let Ok(image) = Image::for_checkpoint(registry, 0)
                    && registry.check_room(image.bytes()).is_ok()
                {
                    _ = self.behind.prepare(image.bytes());
                }
            }
        }
    }

    /// Looks with all ranks whether a checkpoint is due at the top of an iteration, `begun` of which have begun with
    /// this one, and makes it.
    pub(super) fn look(&mut self, registry: &mut Registry, job: &Communicator, begun: u64) -> Result<(), MpiError> {
        self.hear();
        if std::mem::take(&mut self.lacks_memory) {
            self.prepare(registry);
        }
        if self.memory.as_ref().is_some_and(Memory::is_kept_back) {
            self.behind.give_way(self.settings.memory_max);
        }
        let said = self.memory.as_ref().map_or_else(
            || Said {
                is_free: !self.behind.is_busy(),
                ..Said::default()
            },
            |memory| {
                let orders = &memory.started.orders.checkpoints;
                // Who wants files now waits for those that are being written.
                let (in_files, is_busy) = (orders.is_wanted_in_files(), self.behind.is_busy());
                Said {
                    is_wanted: orders.is_wanted(),
                    in_files,
                    is_free: memory.buffers.is_free(orders) && !(in_files && is_busy),
                }
            },
        );
        let Some(Due { in_files }) = self.looks.look(job, begun, said)? else {
            return Ok(());
        };
        let Some(memory) = &mut self.memory else {
            self.failure = self.make_due(registry, job, begun, (None, false)).err();
            return Ok(());
        };
        let place = (job.rank()?, job.size()?);
        let into = memory.started.orders.checkpoints.wanted_take();
        let in_memory = memory.begin(registry, begun);
        // Writers follow the copy that is made next.
        let filed = if self.settings.has_files || in_files {
            self.make_due(registry, job, begun, (into, true))
        } else {
            Ok(())
        };
        let kept = self.keep(in_memory, place, begun);
        self.failure = filed.and(kept).err();
        Ok(())
    }

    /// Learns what became of files that were being written.
    fn hear(&mut self) {
        if let Some(ended) = self.behind.take_outcome() {
            if ended.is_err() && self.memory.is_none() {
                self.looks.made(Duration::ZERO, false);
            }
            self.ended = ended;
        }
    }

    /// Begins to write files, unless rank 0 still writes others: they are due again soon enough. Fails, too, when those
    /// before came to nothing.
    fn make_due(
        &mut self,
        registry: &mut Registry,
        job: &Communicator,
        begun: u64,
        (into, is_kept): (Option<IntoFiles>, bool),
    ) -> Result<(), CheckpointError> {
        let mut is_busy = u64::from(self.behind.is_busy()).to_ne_bytes();
        job.broadcast_in_place(&mut is_busy, 0)?;
        if u64::from_ne_bytes(is_busy) != 0 {
            return Ok(());
        }
        let before = end_together(job, self.ended.clone());
        self.start(registry, job, begun, (into, is_kept))?;
        before
    }

    /// Begins to write a checkpoint into files with all ranks, after the last one. Returns where it will be.
    pub(super) fn make(
        &mut self,
        registry: &mut Registry,
        job: &Communicator,
        begun: u64,
    ) -> Result<PathBuf, CheckpointError> {
        self.finish();
        let (place, mut in_memory) = ((job.rank()?, job.size()?), None);
        let is_kept = match &mut self.memory {
            Some(memory) => {
                let orders = &memory.started.orders.checkpoints;
                // One that was due at this iteration is it.
                let is_made = memory.buffers.has(CheckpointId(begun));
                let mut said = [u64::from(is_made), u64::from(memory.buffers.is_free(orders))].map(u64::to_ne_bytes);
                job.broadcast_in_place(said.as_flattened_mut(), 0)?;
                let [is_made, is_free] = said.map(|word| u64::from_ne_bytes(word) != 0);
                in_memory = (is_free && !is_made).then(|| memory.begin(registry, begun));
                is_free || is_made
            }
            None => false,
        };
        let started = self.start(registry, job, begun, (None, is_kept));
        if let Some(in_memory) = in_memory {
            // Files that are to be written from there come to nothing without it, and say so.
            _ = self.keep(in_memory, place, begun);
        }
        started
    }

    /// Makes a checkpoint in memory that was begun.
    fn keep(&mut self, in_memory: Result<Begun, String>, place: (u32, u32), begun: u64) -> Result<(), CheckpointError> {
        let Some(memory) = &mut self.memory else {
            return Ok(());
        };
        let kept = memory.keep(in_memory, place, begun);
        let held = kept.as_ref().copied().unwrap_or_default();
        self.looks.made(held, kept.is_ok());
        kept.map(drop).map_err(|problem| CheckpointError::Write { problem })
    }

    /// Waits for the files that are being written. Fails, on all ranks, if they came to nothing.
    pub(super) fn wait(&mut self, job: &Communicator) -> Result<(), CheckpointError> {
        self.finish();
        end_together(job, self.ended.clone())
    }

    fn finish(&mut self) {
        if let Some(ended) = self.behind.finish() {
            self.ended = ended;
        }
        if self.behind.is_busy() {
            self.ended = Err("the disk does not accept data any more".to_owned());
        }
    }

    fn start(
        &mut self,
        registry: &mut Registry,
        job: &Communicator,
        begun: u64,
        (into, is_kept): (Option<IntoFiles>, bool),
    ) -> Result<PathBuf, CheckpointError> {
        let since = Instant::now();
        // Rank 0's has ended, so the others' are about to.
        self.finish();
        // The iteration that is beginning is done again by whoever restores it.
        let (rank, iteration) = (job.rank()?, begun.saturating_sub(1));
        let opened = begin_together(job, &self.settings, iteration, (into, is_kept));
        let opened = opened.inspect_err(|error| {
            self.looks.made(since.elapsed(), false);
            if let Some(memory) = self.memory.as_ref().filter(|_| rank == 0) {
                let reason = error.to_string();
                memory.tell(RankCheckpoint::NotFiled { reason });
            }
        })?;
        let source = match &self.memory {
            Some(memory) if opened.is_kept => memory.source(CheckpointId(begun)),
            _ => self.copy(registry, iteration),
        };
        let task = Task {
            outline: Outline::new(registry, &self.settings, iteration),
            rank,
            ranks: job.size()?,
            directory: opened.directory,
            draft: opened.draft,
            source,
            tell: self
                .memory
                .as_ref()
                .filter(|_| rank == 0)
                .map(|memory| memory.teller(iteration)),
        };
        if self.behind.is_busy() {
            // Rank 0 does not wait for its record for ever.
            return Err(CheckpointError::Write {
                problem: format!("rank {rank} still writes the one before"),
            });
        }
        self.behind
            .begin(&self.settings, task)
            .map_err(|error| CheckpointError::Write {
                problem: format!("rank {rank} has no thread to write with: {error}"),
            })?;
        if !opened.is_kept {
            self.looks.made(since.elapsed(), true);
        }
        Ok(opened.target)
    }

    /// A copy of this process's own.
    fn copy(&mut self, registry: &mut Registry, iteration: u64) -> Result<Arc<Source>, String> {
        let image = Image::for_checkpoint(registry, iteration).map_err(|error| error.to_string())?;
        let bytes = image.bytes();
        if let Some(most) = self.settings.memory_max.filter(|most| bytes > *most) {
            return Err(format!(
                "its copy takes {bytes} bytes, PCM_CHECKPOINT_MEMORY allows {most}"
            ));
        }
        let mut memory = self.behind.memory(bytes).map_err(|error| error.to_string())?;
        image.copy_into(&mut memory);
        Ok(Arc::new(Source::own(memory)))
    }
}

impl Memory {
    /// Whether the next checkpoint could be made, were files not written from where it is to go.
    fn is_kept_back(&self) -> bool {
        let orders = &self.started.orders.checkpoints;
        self.told.is_some_and(|told| orders.is_over(told)) && !self.buffers.is_free(orders)
    }

    /// Finds room for what is registered.
    fn begin(&mut self, registry: &mut Registry, begun: u64) -> Result<Begun, String> {
        let orders = &self.started.orders.checkpoints;
        self.buffers.begin(registry, orders, Self::id_and_iteration(begun))
    }

    /// Iterations only go on between two checkpoints, so they number them.
    fn id_and_iteration(begun: u64) -> (CheckpointId, u64) {
        (CheckpointId(begun), begun.saturating_sub(1))
    }

    /// Copies what is registered and tells the daemon. What one rank cannot keep, the daemon gives up for all. Returns
    /// how long the program was held for it.
    fn keep(
        &mut self,
        in_memory: Result<Begun, String>,
        (rank, ranks): (u32, u32),
        begun: u64,
    ) -> Result<Duration, String> {
        let Self { started, buffers, told } = self;
        let (id, iteration) = Self::id_and_iteration(begun);
        match in_memory.and_then(|begun| buffers.keep(begun)) {
            Ok(Kept {
                buffer,
                bytes,
                file,
                held,
            }) => {
                let kept = RankCheckpoint::Kept {
                    buffer,
                    id,
                    iteration: Iteration(iteration),
                    rank: Rank(rank),
                    ranks,
                    bytes,
                    held_us: micros(held),
                };
                let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
                let sent = started.channel.send_with(&AppToDaemon::Checkpoint(kept), &files);
                *told = sent.is_ok().then_some(id);
                sent.map(|()| held).map_err(|error| {
                    buffers.not_told(buffer);
                    format!("cannot send to the daemon: {error:?}")
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

    /// The data of the checkpoint that is kept just now.
    fn source(&self, id: CheckpointId) -> Result<Arc<Source>, String> {
        let read = self.buffers.read(id);
        let kept = read.and_then(|(file, filled, pin)| Source::kept(file, filled, pin));
        kept.map(Arc::new)
            .map_err(|error| format!("its copy cannot be read: {error}"))
    }

    /// Tells the daemon of files that are published.
    fn teller(&self, iteration: u64) -> Tell {
        let started = self.started;
        Box::new(move |outcome: Result<&Path, &str>| {
            let filed = match outcome {
                Ok(path) => RankCheckpoint::Filed {
                    iteration: Iteration(iteration),
                    directory: path.as_os_str().as_bytes().to_vec(),
                },
                Err(reason) => RankCheckpoint::NotFiled {
                    reason: reason.to_owned(),
                },
            };
            // A daemon that cannot be told does without.
            _ = started.channel.send(&AppToDaemon::Checkpoint(filed));
        })
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
