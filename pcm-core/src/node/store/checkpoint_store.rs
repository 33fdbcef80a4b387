//! Checkpoints in the memory of this node: buffers that ranks of this node filled and copies of those of other nodes.
//! Has the keeper hold them, has their checksums taken, and tells the job's coordinator when both is done. Decides
//! nothing about what counts: the coordinator does.

use super::arrival::CopyOrder;
use super::buffer::{AtKeeper, Buffer};
use super::buffer_pool::BufferPool;
use super::effect::{StoreEffect, Sums};
use super::inbound::FinishedCopy;
use super::step::Step;
use crate::node::memory::MemoryFile;
use crate::node::record::{Holding, PartKey, Record};
use crate::node::timer::Timer;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, CheckpointOrder, PartTally, RankCheckpoint, Stamp};
use pcm_proto::ids::{CheckpointId, Epoch, JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A coordinator that is out of reach has come back, or an heir has taken the job over, long before this.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(90);

/// How often parts of jobs without a process here are said again.
const SAID_AGAIN: Duration = Duration::from_secs(20);

/// A buffer that the keeper handed to a daemon that started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBuffer {
    pub key: BufferKey,
    /// Its memory, if that is an image.
    pub memory: Option<MemoryFile>,
    /// What a complete image says of itself.
    pub stated: Option<PartTally>,
}

/// All checkpoints that this node holds.
#[derive(Debug, Default)]
pub(super) struct CheckpointStore {
    buffers: BTreeMap<BufferKey, Buffer>,
    /// The buffers whose checksums are known.
    parts: BTreeMap<PartKey, BufferKey>,
    /// Copies that were ever made here.
    copies: u32,
    /// The last checkpoints that have all the copies they will have.
    settled: BTreeMap<JobId, CheckpointId>,
}

impl CheckpointStore {
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

    /// The daemon started again: takes over what the keeper holds, as far as it is known what it is.
    pub(super) fn take_over(
        &mut self,
        held: Vec<HeldBuffer>,
        mut known: BTreeMap<BufferKey, Holding>,
        step: &mut Step<'_>,
    ) {
        step.out.arm(SAID_AGAIN, Timer::Held);
        let mut unknown = Vec::new();
        for HeldBuffer { key, memory, stated } in held {
            let holds = known.remove(&key);
            let Some(memory) = memory else {
                unknown.push(key);
                continue;
            };
            // A rank may have begun to overwrite it, or have done so, since that was written down.
            let holds = holds.filter(|holds| holds.tally == stated);
            if holds.is_none() && step.around.job(key.job).is_none() {
                unknown.push(key);
                step.release([memory]);
                continue;
            }
            if let Some(holds) = &holds {
                self.parts.insert((key.job, holds.stamp.id, holds.rank), key);
            }
            self.copies = self.copies.max(if key.is_copy { key.number + 1 } else { 0 });
            self.buffers.insert(key, Buffer::new(memory, AtKeeper::Held, holds));
        }
        if !unknown.is_empty() {
            step.out.keeper(DaemonToKeeper::DropKept { keys: unknown });
        }
        for coordinator in self.orderers_of_copies() {
            // It may have gone before, and never be seen again.
            Self::on_node_gone(&coordinator, step);
        }
    }

    fn orderers_of_copies(&self) -> BTreeSet<NodeName> {
        let copies = self.buffers.iter().filter(|(key, _)| key.is_copy);
        let holds = copies.filter_map(|(_, buffer)| buffer.holds.as_ref());
        holds.map(|holds| holds.coordinator.clone()).collect()
    }

    /// A part that is whole here, for another process to read.
    pub(super) fn part_for_others(&mut self, key: PartKey) -> Option<MemoryFile> {
        let buffer = self.buffers.get_mut(self.parts.get(&key)?)?;
        buffer.is_handed = true;
        Some(buffer.memory)
    }

    /// Says again that a part is here; false if it is not.
    pub(super) fn say_held(&self, part: PartKey, step: &mut Step<'_>) -> bool {
        let Some(key) = self.parts.get(&part) else {
            return false;
        };
        let Some(holds) = self.buffers.get(key).and_then(|buffer| buffer.holds.as_ref()) else {
            return false;
        };
        say_stored(*key, holds, step);
        true
    }

    /// A rank says something about a checkpoint.
    pub(super) fn on_rank(
        &mut self,
        from: ProcessKey,
        said: RankCheckpoint,
        handed: Option<MemoryFile>,
        step: &mut Step<'_>,
    ) {
        let Some(job) = step.around.job(from.job).filter(|job| !job.is_ending) else {
            return step.release(handed);
        };
        let coordinator = job.coordinator.clone();
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
                let epoch = job.layout.map_or(Epoch(0), |layout| layout.epoch);
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
                let key = BufferKey {
                    job: from.job,
                    process: from.process,
                    number: buffer,
                    is_copy: false,
                };
                self.on_kept(key, (bytes, holds), handed, step);
            }
            RankCheckpoint::NotKept { id, reason } => {
                step.say_checkpoint(&coordinator, from.job, CheckpointMessage::NotStored { id, reason });
            }
            RankCheckpoint::Filed { iteration, directory } => {
                let filed = CheckpointMessage::Filed { iteration, directory };
                step.say_checkpoint(&coordinator, from.job, filed);
            }
            RankCheckpoint::NotFiled { reason } => {
                step.say_checkpoint(&coordinator, from.job, CheckpointMessage::NotFiled { reason });
            }
        }
    }

    fn on_kept(
        &mut self,
        key: BufferKey,
        (bytes, holds): (u64, Holding),
        handed: Option<MemoryFile>,
        step: &mut Step<'_>,
    ) {
        self.overwritten(key, step);
        if let Some(memory) = handed {
            let before = self.buffers.insert(key, Buffer::new(memory, AtKeeper::Refused, None));
            step.release(before.map(|buffer| buffer.memory));
        }
        let known = self.buffers.get_mut(&key);
        let id = holds.stamp.id;
        let Some(buffer) = known.filter(|buffer| buffer.memory.bytes == bytes) else {
            let reason = "the memory that a rank speaks of did not arrive (out of open files?)".to_owned();
            return step.say_checkpoint(&holds.coordinator, key.job, CheckpointMessage::NotStored { id, reason });
        };
        if buffer.at_keeper == AtKeeper::Refused {
            // A keeper that had no room for it may have it now.
            buffer.at_keeper = AtKeeper::Asked;
            let memory = buffer.memory.id;
            step.push(StoreEffect::Keep { key, memory });
        }
        if begun_with(key.job, step).is_some_and(|stamp| stamp.id == id) {
            // What the ranks began with is the checkpoint of this iteration, on whichever nodes its parts are.
            let order = DaemonToApp::Checkpoint(CheckpointOrder::GivenUp { id });
            let BufferKey { job, process, .. } = key;
            return step.tell(ProcessKey { job, process }, order);
        }
        buffer.holds = Some(holds);
        step.push(StoreEffect::Sum {
            key,
            id,
            memory: buffer.memory.id,
            sums: Sums::Complete,
        });
    }

    /// A copy of a part is here, and its checksum if it was verified already.
    pub(super) fn hold_copy(&mut self, copy: FinishedCopy, pool: &mut BufferPool, step: &mut Step<'_>) {
        let FinishedCopy {
            part: (job, _, rank),
            copy,
            memory,
            is_handed,
            tally,
        } = copy;
        let CopyOrder {
            stamp,
            process,
            coordinator,
        } = copy;
        let key = BufferKey {
            job,
            process,
            number: self.copies,
            is_copy: true,
        };
        self.copies += 1;
        step.push(StoreEffect::Keep { key, memory: memory.id });
        let holds = Holding {
            stamp,
            rank,
            tally: None,
            held_us: 0,
            coordinator,
        };
        let buffer = Buffer {
            is_handed,
            ..Buffer::new(memory, AtKeeper::Asked, Some(holds))
        };
        self.buffers.insert(key, buffer);
        match tally {
            Some(tally) => self.on_summed(key, stamp.id, Ok(tally), pool, step),
            None => step.push(StoreEffect::Sum {
                key,
                id: stamp.id,
                memory: memory.id,
                sums: Sums::Verify,
            }),
        }
    }

    /// What a buffer held is gone: the coordinator that counts on it is told.
    fn overwritten(&mut self, key: BufferKey, step: &mut Step<'_>) {
        if let Some(holds) = self.empty(key) {
            let gone = CheckpointMessage::Overwritten {
                id: holds.stamp.id,
                rank: holds.rank,
                is_copy: key.is_copy,
            };
            step.say_checkpoint(&holds.coordinator, key.job, gone);
        }
    }

    /// Forgets what a buffer holds; what that was, if it counted.
    fn empty(&mut self, key: BufferKey) -> Option<Holding> {
        let buffer = self.buffers.get_mut(&key)?;
        buffer.summed = None;
        let holds = buffer.holds.take()?;
        let part = (key.job, holds.stamp.id, holds.rank);
        let counted = self.parts.get(&part) == Some(&key);
        if counted {
            self.parts.remove(&part);
        }
        counted.then_some(holds)
    }

    /// The checksums of a buffer, or of a copy, are there.
    pub(super) fn on_summed(
        &mut self,
        key: BufferKey,
        id: CheckpointId,
        tally: Result<PartTally, String>,
        pool: &mut BufferPool,
        step: &mut Step<'_>,
    ) {
        let is_of = |buffer: &&mut Buffer| buffer.holds.as_ref().is_some_and(|holds| holds.stamp.id == id);
        let Some(buffer) = self.buffers.get_mut(&key).filter(is_of) else {
            return;
        };
        match tally {
            Ok(tally) => {
                buffer.summed = Some(tally);
                self.count_if_safe(key, step);
            }
            Err(error) => {
                tracing::warn!(job = %key.job, process = %key.process, error, "a part of a checkpoint is no good");
                // The coordinator orders a copy again.
                if !key.is_copy {
                    self.say_refused(key, &error, step);
                }
                self.drop_refused(key, pool, step);
            }
        }
    }

    /// The keeper holds a buffer, or cannot: then the daemon's next end would cost what is in it.
    pub(super) fn on_keeper_answered(
        &mut self,
        key: BufferKey,
        outcome: Result<(), String>,
        pool: &mut BufferPool,
        step: &mut Step<'_>,
    ) {
        let Some(buffer) = self.buffers.get_mut(&key) else {
            return;
        };
        match outcome {
            Ok(()) => {
                buffer.at_keeper = AtKeeper::Held;
                self.count_if_safe(key, step);
            }
            Err(reason) => {
                tracing::warn!(job = %key.job, process = %key.process, reason, "a part of a checkpoint is not held");
                buffer.at_keeper = AtKeeper::Refused;
                self.say_refused(key, &reason, step);
                self.drop_refused(key, pool, step);
            }
        }
    }

    /// A part counts when its checksums are there and the keeper holds it.
    fn count_if_safe(&mut self, key: BufferKey, step: &mut Step<'_>) {
        let held = self
            .buffers
            .get_mut(&key)
            .filter(|buffer| buffer.at_keeper == AtKeeper::Held);
        if let Some(buffer) = held
            && let Some(holds) = &mut buffer.holds
            && let Some(tally) = buffer.summed.take()
        {
            holds.tally = Some(tally);
            self.parts.insert((key.job, holds.stamp.id, holds.rank), key);
            let record = Box::new(holds.clone());
            step.out.record(Record::Kept { key, holds: record });
            say_stored(key, holds, step);
        }
    }

    fn say_refused(&self, key: BufferKey, reason: &str, step: &mut Step<'_>) {
        let Some(holds) = self.buffers.get(&key).and_then(|buffer| buffer.holds.as_ref()) else {
            return;
        };
        let (id, rank) = (holds.stamp.id, holds.rank);
        let said = if key.is_copy {
            let reason = reason.to_owned();
            CheckpointMessage::NotCopied { id, rank, reason }
        } else {
            let reason = format!("the part of process {}: {reason}", key.process);
            CheckpointMessage::NotStored { id, reason }
        };
        step.say_checkpoint(&holds.coordinator, key.job, said);
    }

    /// The rank has its own buffer yet, and writes into it again.
    fn drop_refused(&mut self, key: BufferKey, pool: &mut BufferPool, step: &mut Step<'_>) {
        if key.is_copy {
            self.drop_buffers(vec![key], pool, step);
        } else {
            self.empty(key);
        }
    }

    /// A node is linked (again): it may coordinate jobs whose checkpoints are here.
    pub(super) fn on_coordinator_linked(&self, node: &NodeName, step: &mut Step<'_>) {
        self.say_again(|_, holds| holds.coordinator == *node, step);
    }

    /// Says parts of jobs without a process here again: the word that a job is over may have been lost with a link.
    pub(super) fn on_held_timer(&self, step: &mut Step<'_>) {
        step.out.arm(SAID_AGAIN, Timer::Held);
        let around = step.around;
        self.say_again(|job, _| !around.job(job).is_some_and(|job| job.has_process()), step);
    }

    fn say_again(&self, is_meant: impl Fn(JobId, &Holding) -> bool, step: &mut Step<'_>) {
        let held = self.buffers.iter();
        let held = held.filter_map(|(key, buffer)| Some((*key, buffer.holds.as_ref()?)));
        say_all_stored(held.filter(|(key, holds)| is_meant(key.job, holds)), step);
    }

    /// Whether a part is held here that may have no copy elsewhere yet.
    pub(super) fn holds_unsettled(&self) -> bool {
        let mut own = self.buffers.iter().filter(|(key, _)| !key.is_copy);
        own.any(|(key, buffer)| {
            let id = buffer.holds.as_ref().map(|holds| holds.stamp.id);
            id > self.settled.get(&key.job).copied()
        })
    }

    /// Whether parts are held here for jobs that this node coordinates.
    pub(super) fn holds_for(&self, node: &NodeName) -> bool {
        self.held_for(node).next().is_some()
    }

    /// The jobs of those.
    pub(super) fn jobs_led_by(&self, node: &NodeName) -> BTreeSet<JobId> {
        self.held_for(node).collect()
    }

    fn held_for<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = JobId> + 'a {
        let held = self.buffers.iter().filter(|(_, buffer)| {
            let holds = buffer.holds.as_ref();
            holds.is_some_and(|holds| holds.coordinator == *node)
        });
        held.map(|(key, _)| key.job)
    }

    /// Another daemon leads a job: it is told what is held here for it.
    pub(super) fn on_led(&mut self, job: JobId, by: &NodeName, step: &mut Step<'_>) {
        let of_job = self.buffers.iter_mut().filter(|(key, _)| key.job == job);
        for (key, buffer) in of_job {
            let Some(holds) = &mut buffer.holds else { continue };
            holds.coordinator = by.clone();
            if holds.tally.is_some() {
                let record = Box::new(holds.clone());
                step.out.record(Record::Kept {
                    key: *key,
                    holds: record,
                });
            }
        }
        let of_job = self.buffers.iter().filter(|(key, _)| key.job == job);
        let held = of_job.filter_map(|(key, buffer)| Some((*key, buffer.holds.as_ref()?)));
        say_all_stored(held, step);
    }

    /// A node is gone, perhaps with the coordinator that ordered copies.
    pub(super) fn on_node_gone(node: &NodeName, step: &mut Step<'_>) {
        step.out.arm(ABANDONED_AFTER, Timer::Orphans(node.clone()));
    }

    /// Copies ordered by a node that is gone, and that no heir of it claimed, are of no use. One that is back may have
    /// said with the link that was lost that their job is over: it hears of them again.
    pub(super) fn on_orphans_timer(&mut self, node: &NodeName, pool: &mut BufferPool, step: &mut Step<'_>) {
        let copies = self.buffers.iter().filter_map(|(key, buffer)| {
            let holds = buffer.holds.as_ref().filter(|holds| holds.coordinator == *node)?;
            key.is_copy.then_some((*key, holds))
        });
        if step.around.is_live(node) {
            return say_all_stored(copies, step);
        }
        let orphans = copies.map(|(key, _)| key).collect();
        self.drop_buffers(orphans, pool, step);
    }

    /// A checkpoint will not be complete: ranks write into its buffers again. A coordinator that is started again must
    /// not take them for its parts.
    pub(super) fn on_given_up(&mut self, job: JobId, id: CheckpointId, pool: &mut BufferPool, step: &mut Step<'_>) {
        let begun_with = begun_with(job, step);
        let is_over = |holds: &Holding| holds.stamp.id == id && Some(holds.stamp) != begun_with;
        let of_job = self.buffers.iter().filter(|(key, _)| key.job == job && !key.is_copy);
        let over = of_job.filter(|(_, buffer)| buffer.holds.as_ref().is_some_and(is_over));
        let over: Vec<BufferKey> = over.map(|(key, _)| *key).collect();
        if step.around.job(job).is_none() {
            // No process of the job is here that would write into them.
            return self.drop_buffers(over, pool, step);
        }
        for key in over {
            self.empty(key);
            step.out.record(Record::NotKept { key });
        }
    }

    /// Older copies are not needed, nor what ended processes left, nor buffers that living ones replaced.
    pub(super) fn on_settled(&mut self, job: JobId, id: CheckpointId, pool: &mut BufferPool, step: &mut Step<'_>) {
        let settled = self.settled.entry(job).or_insert(id);
        *settled = id.max(*settled);
        let mut newest: BTreeMap<ProcessId, u32> = BTreeMap::new();
        for key in self.buffers.keys().filter(|key| key.job == job && !key.is_copy) {
            let known = newest.entry(key.process).or_default();
            *known = key.number.max(*known);
        }
        let facts = step.around.job(job);
        let is_alive = |process: &ProcessId| {
            let local = facts.as_ref().and_then(|facts| facts.processes.get(process));
            local.is_some_and(|local| local.is_alive())
        };
        let is_over = |key: &BufferKey, holds: Option<&Holding>| {
            // What is newer may be all that is left of its checkpoint, also where its process has ended.
            let is_needed = holds.is_some_and(|holds| holds.stamp.id >= id);
            let is_in_use = |key: &BufferKey| is_alive(&key.process) && key.number + 1 >= newest[&key.process];
            !is_needed && (key.is_copy || !is_in_use(key))
        };
        self.drop_of_job(job, is_over, pool, step);
    }

    /// Drops buffers that hold nothing: no process of the job is here that would write into them.
    pub(super) fn drop_empty(&mut self, job: JobId, pool: &mut BufferPool, step: &mut Step<'_>) {
        self.drop_of_job(job, |_, holds| holds.is_none(), pool, step);
    }

    /// Drops what is over of what is held of a job.
    pub(super) fn drop_of_job(
        &mut self,
        job: JobId,
        is_over: impl Fn(&BufferKey, Option<&Holding>) -> bool,
        pool: &mut BufferPool,
        step: &mut Step<'_>,
    ) {
        let of_job = self.buffers.iter().filter(|(key, _)| key.job == job);
        let over = of_job.filter(|(key, buffer)| is_over(key, buffer.holds.as_ref()));
        let over = over.map(|(key, _)| *key).collect();
        self.drop_buffers(over, pool, step);
    }

    fn drop_buffers(&mut self, keys: Vec<BufferKey>, pool: &mut BufferPool, step: &mut Step<'_>) {
        if keys.is_empty() {
            return;
        }
        let mut over = Vec::new();
        for key in &keys {
            // As long as its checksums are being verified, it is read.
            let holds = self.buffers.get(key).and_then(|buffer| buffer.holds.as_ref());
            let is_read = holds.is_some_and(|holds| holds.tally.is_none());
            self.empty(*key);
            match self.buffers.remove(key) {
                Some(buffer) if key.is_copy && !buffer.is_handed && !is_read => pool.put(key.job, buffer.memory),
                buffer => over.extend(buffer.map(|buffer| buffer.memory)),
            }
            step.out.record(Record::NotKept { key: *key });
        }
        let jobs: BTreeSet<JobId> = keys.iter().map(|key| key.job).collect();
        for job in jobs {
            let copies = self.buffers.keys().filter(|key| key.job == job && key.is_copy);
            over.extend(pool.limit(job, copies.count()));
        }
        step.release(over);
        step.out.keeper(DaemonToKeeper::DropKept { keys });
        let buffers = &self.buffers;
        self.settled.retain(|job, _| buffers.keys().any(|key| key.job == *job));
    }
}

/// The checkpoint that the present processes of a job began with.
fn begun_with(job: JobId, step: &Step<'_>) -> Option<Stamp> {
    Some(step.around.job(job)?.restores?.stamp)
}

/// The newest checkpoint comes first: a coordinator that waits for one starts the job again from the first that is
/// whole.
fn say_all_stored<'a>(held: impl Iterator<Item = (BufferKey, &'a Holding)>, step: &mut Step<'_>) {
    let mut held: Vec<(BufferKey, &Holding)> = held.collect();
    held.sort_by_key(|(_, holds)| Reverse(holds.stamp.id));
    for (key, holds) in held {
        say_stored(key, holds, step);
    }
}

fn say_stored(key: BufferKey, holds: &Holding, step: &mut Step<'_>) {
    let Some(tally) = holds.tally else { return };
    let stored = CheckpointMessage::Stored {
        stamp: holds.stamp,
        rank: holds.rank,
        process: key.process,
        is_copy: key.is_copy,
        tally,
        held_us: holds.held_us,
    };
    step.say_checkpoint(&holds.coordinator, key.job, stored);
}
