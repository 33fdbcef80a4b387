//! Checkpoints in the memory of this node: buffers that ranks of this node filled and copies of those of other nodes.
//! Has the keeper hold them, takes their checksums, gives them to restored ranks, copies them to and from other nodes,
//! and tells the job's coordinator. Decides nothing about what counts: [`super::checkpoints`] does, at the coordinator.

use super::abandoned::ABANDONED_AFTER;
use super::beside::{beside, drop_beside};
use super::daemon::Daemon;
use super::event::Event;
use super::image_sums;
use super::memory::Memory;
use super::spare_copies::SpareCopies;
use crate::keeper_link::HandedBuffer;
use pcm_core::node::ranks::pages::{PageQuestion, Reader};
use pcm_core::node::record::{Holding, PartKey, Record};
use pcm_core::node::timer::Timer;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{
    BufferKey, CheckpointMessage, CheckpointOrder, IntoFiles, PartTally, RankCheckpoint, Stamp,
};
use pcm_proto::ids::{CheckpointId, Epoch, JobId, NodeName, ProcessId};
use pcm_proto::image::ImageName;
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::peer::JobMessage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) memory: Arc<Memory>,
    pub(super) holds: Option<Holding>,
    /// Whether another process may have it to read: then it is never used for another copy.
    pub(super) is_handed: bool,
}

impl Buffer {
    fn new(memory: Memory, holds: Option<Holding>) -> Self {
        Self {
            memory: Arc::new(memory),
            holds,
            is_handed: false,
        }
    }
}

/// A copy that is ordered and not begun.
pub(super) type Ordered = (PartKey, Stamp, ProcessId, NodeName, NodeName);

/// All checkpoints this daemon deals with.
#[derive(Debug, Default)]
pub(super) struct KeptParts {
    pub(super) buffers: BTreeMap<BufferKey, Buffer>,
    pub(super) parts: BTreeMap<PartKey, BufferKey>,
    pub(super) queue: VecDeque<Ordered>,
    /// Copies that were ever made here.
    pub(super) copies: u32,
    pub(super) spares: SpareCopies,
}

impl KeptParts {
    /// What a successor has to know.
    pub(super) fn records(&self) -> Vec<Record> {
        let known = self.buffers.iter().filter_map(|(key, buffer)| {
            let holds = buffer.holds.clone().filter(|holds| holds.tally.is_some())?;
            Some(Record::Kept {
                key: *key,
                holds: Box::new(holds),
            })
        });
        known.collect()
    }

    /// A part that is whole here, for another process to read.
    pub(super) fn part_for_others(&mut self, key: PartKey) -> Option<&Arc<Memory>> {
        let buffer = self.buffers.get_mut(self.parts.get(&key)?)?;
        buffer.is_handed = true;
        Some(&buffer.memory)
    }

    /// Forgets what a buffer holds; what that was, if it counted.
    fn empty(&mut self, key: BufferKey) -> Option<Holding> {
        let holds = self.buffers.get_mut(&key)?.holds.take()?;
        let part = (key.job, holds.stamp.id, holds.rank);
        let counted = self.parts.get(&part) == Some(&key);
        if counted {
            self.parts.remove(&part);
        }
        counted.then_some(holds)
    }
}

impl Daemon {
    /// The daemon started again: takes over what the keeper holds, as far as it is known what it is.
    pub(super) fn take_over_buffers(&mut self, held: Vec<HandedBuffer>, mut known: BTreeMap<BufferKey, Holding>) {
        let mut unknown = Vec::new();
        for HandedBuffer { key, bytes, file } in held {
            let holds = known.remove(&key);
            let Some(memory) = Memory::of(File::from(file), bytes) else {
                unknown.push(key);
                continue;
            };
            // A rank may have begun to overwrite it, or have done so, since that was written down.
            let holds = holds.filter(|holds| image_sums::stated_tally(memory.file(), bytes) == holds.tally);
            if holds.is_none() && !self.parts.contains_key(&key.job) {
                unknown.push(key);
                continue;
            }
            if let Some(holds) = &holds {
                self.kept.parts.insert((key.job, holds.stamp.id, holds.rank), key);
            }
            self.kept.copies = self.kept.copies.max(if key.is_copy { key.number + 1 } else { 0 });
            self.kept.buffers.insert(key, Buffer::new(memory, holds));
        }
        if !unknown.is_empty() {
            self.out.keeper(DaemonToKeeper::DropKept { keys: unknown });
        }
    }

    /// A rank says something about a checkpoint.
    pub(super) fn on_rank_checkpoint(&mut self, from: ProcessKey, said: RankCheckpoint, files: Vec<OwnedFd>) {
        let Some(part) = self.parts.get(&from.job).filter(|part| !part.state.is_ending()) else {
            return;
        };
        let coordinator = part.state.coordinator().clone();
        match said {
            RankCheckpoint::Kept {
                buffer,
                id,
                iteration,
                rank,
                ranks,
                bytes,
                held_us,
            } => {
                let epoch = part.reforming.layout().map_or(Epoch(0), |layout| layout.epoch);
                let stamp = Stamp {
                    id,
                    epoch,
                    iteration,
                    ranks,
                };
                let holds = Holding {
                    stamp,
                    rank,
                    tally: None,
                    held_us,
                    coordinator,
                };
                self.on_kept(from, buffer, (bytes, holds), files);
            }
            RankCheckpoint::NotKept { id, reason } => {
                self.say_checkpoint(&coordinator, from.job, CheckpointMessage::NotStored { id, reason });
            }
            RankCheckpoint::Filed { iteration, directory } => {
                let filed = CheckpointMessage::Filed { iteration, directory };
                self.say_checkpoint(&coordinator, from.job, filed);
            }
            RankCheckpoint::NotFiled { reason } => {
                self.say_checkpoint(&coordinator, from.job, CheckpointMessage::NotFiled { reason });
            }
        }
    }

    fn on_kept(&mut self, from: ProcessKey, number: u32, (bytes, holds): (u64, Holding), files: Vec<OwnedFd>) {
        let key = BufferKey {
            job: from.job,
            process: from.process,
            number,
            is_copy: false,
        };
        let handed = files.into_iter().next();
        if let Some(memory) = handed.and_then(|file| Memory::of(File::from(file), bytes))
            && let Ok(for_keeper) = memory.file().try_clone()
        {
            self.keeper.keep(key, bytes, for_keeper.into());
            self.kept.buffers.insert(key, Buffer::new(memory, None));
        }
        self.overwritten(key);
        let known = self.kept.buffers.get_mut(&key);
        let Some(buffer) = known.filter(|buffer| buffer.memory.bytes() == bytes) else {
            let reason = "a rank did not hand over the memory it speaks of".to_owned();
            let (id, coordinator) = (holds.stamp.id, holds.coordinator);
            return self.say_checkpoint(&coordinator, key.job, CheckpointMessage::NotStored { id, reason });
        };
        let id = holds.stamp.id;
        buffer.holds = Some(holds);
        let memory = Arc::clone(&buffer.memory);
        let events = self.events.clone();
        tokio::spawn(async move {
            let tally = beside(move || image_sums::complete(&memory)).await;
            let _ = events.send(Event::Summed { key, id, tally }).await;
        });
    }

    /// A copy of a part is here, and its checksums if they were verified already.
    pub(super) fn hold_copy(
        &mut self,
        (job, _, rank): PartKey,
        (stamp, process, coordinator): (Stamp, ProcessId, NodeName),
        (memory, is_handed): (Memory, bool),
        tally: Option<PartTally>,
    ) {
        let key = BufferKey {
            job,
            process,
            number: self.kept.copies,
            is_copy: true,
        };
        self.kept.copies += 1;
        if let Ok(for_keeper) = memory.file().try_clone() {
            self.keeper.keep(key, memory.bytes(), for_keeper.into());
        }
        let holds = Holding {
            stamp,
            rank,
            tally: None,
            held_us: 0,
            coordinator,
        };
        let buffer = Buffer {
            is_handed,
            ..Buffer::new(memory, Some(holds))
        };
        let memory = Arc::clone(&buffer.memory);
        self.kept.buffers.insert(key, buffer);
        if let Some(tally) = tally {
            return self.on_summed(key, stamp.id, Ok(tally));
        }
        let events = self.events.clone();
        tokio::spawn(async move {
            let tally = beside(move || image_sums::verify(&memory)).await;
            let id = stamp.id;
            let _ = events.send(Event::Summed { key, id, tally }).await;
        });
    }

    /// What a buffer held is gone: whoever counts on it is told.
    fn overwritten(&mut self, key: BufferKey) {
        if let Some(holds) = self.kept.empty(key) {
            let gone = CheckpointMessage::Overwritten {
                id: holds.stamp.id,
                rank: holds.rank,
                is_copy: key.is_copy,
            };
            self.say_checkpoint(&holds.coordinator, key.job, gone);
        }
    }

    /// The checksums of a buffer, or of a copy, are there.
    pub(super) fn on_summed(&mut self, key: BufferKey, id: CheckpointId, tally: io::Result<PartTally>) {
        let Some(holds) = self
            .kept
            .buffers
            .get_mut(&key)
            .and_then(|buffer| buffer.holds.as_mut())
            .filter(|holds| holds.stamp.id == id)
        else {
            return;
        };
        match tally {
            Ok(tally) => {
                holds.tally = Some(tally);
                let holds = holds.clone();
                self.kept.parts.insert((key.job, id, holds.rank), key);
                let record = Box::new(holds.clone());
                self.record(Record::Kept { key, holds: record });
                self.say_stored(key, &holds);
            }
            Err(error) => {
                tracing::warn!(job = %key.job, process = %key.process, %error, "a part of a checkpoint is no good");
                let (coordinator, is_copy) = (holds.coordinator.clone(), key.is_copy);
                let reason = format!("the part of process {}: {error}", key.process);
                self.kept.empty(key);
                if is_copy {
                    self.drop_buffers(vec![key]);
                } else {
                    self.say_checkpoint(&coordinator, key.job, CheckpointMessage::NotStored { id, reason });
                }
            }
        }
    }

    pub(super) fn say_stored(&mut self, key: BufferKey, holds: &Holding) {
        let Some(tally) = holds.tally else { return };
        let stored = CheckpointMessage::Stored {
            stamp: holds.stamp,
            rank: holds.rank,
            process: key.process,
            is_copy: key.is_copy,
            tally,
            held_us: holds.held_us,
        };
        self.say_checkpoint(&holds.coordinator.clone(), key.job, stored);
    }

    pub(super) fn say_checkpoint(&mut self, node: &NodeName, job: JobId, message: CheckpointMessage) {
        self.send_job(node, job, JobMessage::Checkpoint(Box::new(message)));
    }

    /// A node is linked (again): it may coordinate jobs whose checkpoints are here.
    pub(super) fn on_checkpoints_linked(&mut self, node: &NodeName) {
        let known: Vec<(BufferKey, Holding)> = self
            .kept
            .buffers
            .iter()
            .filter_map(|(key, buffer)| Some((*key, buffer.holds.clone()?)))
            .filter(|(_, holds)| holds.coordinator == *node)
            .collect();
        for (key, holds) in known {
            self.say_stored(key, &holds);
        }
    }

    /// Copies ordered by a node that is gone, and that no heir of it claimed, are of no use.
    pub(super) fn on_orphans_timer(&mut self, node: &NodeName) {
        if self.nodes.is_live(node) {
            return;
        }
        let is_orphan = |(key, buffer): &(&BufferKey, &Buffer)| {
            let coordinator = buffer.holds.as_ref().map(|holds| &holds.coordinator);
            key.is_copy && coordinator == Some(node)
        };
        let orphans = self.kept.buffers.iter().filter(is_orphan).map(|(key, _)| *key);
        let orphans = orphans.collect();
        self.drop_buffers(orphans);
    }

    /// Another daemon leads a job: it is told what is held here for it.
    pub(super) fn report_holdings_to(&mut self, job: JobId, node: &NodeName) {
        let of_job = self.kept.buffers.iter_mut().filter(|(key, _)| key.job == job);
        let mut held = Vec::new();
        for (key, buffer) in of_job {
            if let Some(holds) = &mut buffer.holds {
                holds.coordinator = node.clone();
                held.push((*key, holds.clone()));
            }
        }
        for (key, holds) in held {
            if holds.tally.is_some() {
                let record = Box::new(holds.clone());
                self.record(Record::Kept { key, holds: record });
            }
            self.say_stored(key, &holds);
        }
        self.kept.queue.retain(|((of, _, _), ..)| *of != job);
    }

    /// A node is gone, and what was to be copied from it.
    pub(super) fn on_checkpoints_node_gone(&mut self, node: &NodeName) {
        self.out.arm(ABANDONED_AFTER, Timer::Orphans(node.clone()));
        self.kept.queue.retain(|(_, _, _, from, _)| from != node);
        self.on_images_node_gone(node);
    }

    fn drop_buffers(&mut self, keys: Vec<BufferKey>) {
        if keys.is_empty() {
            return;
        }
        let mut over = Vec::new();
        for key in &keys {
            self.kept.empty(*key);
            match self.kept.buffers.remove(key) {
                Some(buffer) if key.is_copy && !buffer.is_handed => self.kept.spares.put(key.job, buffer.memory),
                buffer => over.extend(buffer.map(|buffer| buffer.memory)),
            }
            self.record(Record::NotKept { key: *key });
        }
        let jobs: BTreeSet<JobId> = keys.iter().map(|key| key.job).collect();
        for job in jobs {
            let copies = self.kept.buffers.keys().filter(|key| key.job == job && key.is_copy);
            self.kept.spares.limit(job, copies.count());
        }
        drop_beside(over);
        self.out.keeper(DaemonToKeeper::DropKept { keys });
    }

    /// The coordinator of a job, or a node that holds or wants a copy, says something.
    pub(super) fn on_kept_message(&mut self, job: JobId, node: &NodeName, message: CheckpointMessage) {
        match message {
            CheckpointMessage::Settled { id } => self.on_checkpoint_settled(job, id),
            CheckpointMessage::GivenUp { id } => {
                let copies = |key: &BufferKey, holds: Option<&Holding>| {
                    key.is_copy && holds.is_some_and(|holds| holds.stamp.id == id)
                };
                self.drop_of_job(job, copies);
                self.tell_ranks(job, &CheckpointOrder::GivenUp { id });
            }
            CheckpointMessage::Forget { but } => self.forget_checkpoints(job, |id| Some(id) == but),
            CheckpointMessage::RolledBack { to } => self.forget_checkpoints(job, |id| id <= to),
            CheckpointMessage::Drop { id, rank } => self.drop_of_job(job, |key, holds| {
                key.is_copy && holds.is_some_and(|holds| holds.stamp.id == id && holds.rank == rank)
            }),
            CheckpointMessage::Make { into } => self.tell_first_rank(job, into),
            CheckpointMessage::Copy {
                stamp,
                rank,
                process,
                from,
            } => {
                let key = (job, stamp.id, rank);
                self.on_copy_ordered((key, stamp, process, from, node.clone()));
            }
            _ => {}
        }
    }

    /// Older copies are not needed, nor what ended processes left, nor buffers that living ones replaced.
    fn on_checkpoint_settled(&mut self, job: JobId, id: CheckpointId) {
        let mut newest: BTreeMap<ProcessId, u32> = BTreeMap::new();
        for key in self.kept.buffers.keys().filter(|key| key.job == job && !key.is_copy) {
            let known = newest.entry(key.process).or_default();
            *known = key.number.max(*known);
        }
        let is_alive = |daemon: &Self, process: ProcessId| {
            let part = daemon.parts.get(&job);
            part.and_then(|part| part.state.processes().get(&process))
                .is_some_and(|local| local.is_alive())
        };
        let alive: Vec<ProcessId> = newest
            .keys()
            .copied()
            .filter(|process| is_alive(self, *process))
            .collect();
        self.drop_of_job(job, |key, holds| {
            let held = holds.map(|holds| holds.stamp.id);
            if key.is_copy {
                return held.is_none_or(|held| held < id);
            }
            let is_in_use = alive.contains(&key.process) && key.number + 1 >= newest[&key.process];
            held != Some(id) && !is_in_use
        });
        self.images.forget_restored(job, id);
        self.tell_ranks(job, &CheckpointOrder::Settled { id });
    }

    /// Drops all of a job but these checkpoints.
    pub(super) fn forget_checkpoints(&mut self, job: JobId, is_needed: impl Fn(CheckpointId) -> bool) {
        let is_over = |(of, id, _): &PartKey| *of == job && !is_needed(*id);
        self.kept.queue.retain(|(part, ..)| !is_over(part));
        self.images.forget(|key| match key.name {
            ImageName::Part { id, rank } => is_over(&(key.job, id, rank)),
            ImageName::Parked { .. } => false,
        });
        self.forget_ways(job);
        self.drop_of_job(job, |_, holds| holds.is_none_or(|holds| !is_needed(holds.stamp.id)));
        self.start_copies();
    }

    fn drop_of_job(&mut self, job: JobId, is_over: impl Fn(&BufferKey, Option<&Holding>) -> bool) {
        let of_job = self.kept.buffers.iter().filter(|(key, _)| key.job == job);
        let over = of_job.filter(|(key, buffer)| is_over(key, buffer.holds.as_ref()));
        let over = over.map(|(key, _)| *key).collect();
        self.drop_buffers(over);
    }

    fn tell_ranks(&mut self, job: JobId, order: &CheckpointOrder) {
        let Some(part) = self.parts.get(&job) else { return };
        for process in part.ranks.processes().collect::<Vec<_>>() {
            self.tell_app(job, process, DaemonToApp::Checkpoint(order.clone()));
        }
    }

    fn tell_first_rank(&mut self, job: JobId, into: Option<IntoFiles>) {
        let layout = self.parts.get(&job).and_then(|part| part.reforming.layout());
        let first = layout
            .and_then(|layout| layout.members.first())
            .map(|member| member.process);
        if let Some(process) = first {
            self.tell_app(job, process, DaemonToApp::Checkpoint(CheckpointOrder::Make { into }));
        }
    }

    /// The ranks of a job are about to be ended: how far they had come.
    pub(super) fn say_reached(&mut self, job: JobId) {
        let Some(part) = self.parts.get(&job) else { return };
        let node = part.state.coordinator().clone();
        let reader = Reader::Coordinator { job, node };
        self.page_questions
            .ask(reader, PageQuestion::Reached { job }, &mut self.out);
    }

    /// A process that continues another has its data, or cannot get it.
    pub(super) fn on_checkpoint_taken_up(&mut self, process: ProcessKey, outcome: Result<(), String>) {
        let Some(part) = self.parts.get(&process.job) else {
            return;
        };
        let Some(id) = part.state.restores().map(|restores| restores.stamp.id) else {
            return;
        };
        let coordinator = part.state.coordinator().clone();
        let said = match outcome {
            Ok(()) => CheckpointMessage::Restored {
                process: process.process,
            },
            Err(reason) => CheckpointMessage::NotRestored { id, reason },
        };
        self.say_checkpoint(&coordinator, process.job, said);
    }
}
