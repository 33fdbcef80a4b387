//! Parts of checkpoints on their way between nodes: copies that this node is to hold, and what restored ranks here need of
//! other nodes' parts. At most a few copies at a time, each with a window of blocks; a copy counts when its checksums are
//! verified. Never decides where a copy goes.

use super::daemon::Daemon;
use super::event::Event;
use super::fetch::{ASK_AGAIN, Fetch, Unfit, block_checksum};
use super::image_sums;
use super::kept::{Buffer, Copying, Holding, Ordered, PartKey};
use super::timers::Timer;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, Stamp};
use pcm_proto::ids::{NodeName, ProcessId, Rank};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{BLOCK_BYTES, BlockRun, RestoreAnswer, RestoreAsk};
use std::collections::VecDeque;
use std::collections::btree_map::Entry;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// Stands for this node among those who wait for a copy.
const OURSELVES: ProcessId = ProcessId(u32::MAX);

/// Copies made at once; the others wait. With the window of each they bound what copying takes of a link.
const COPIES_AT_ONCE: usize = 2;

impl Daemon {
    pub(super) fn on_copy_ordered(&mut self, ordered: Ordered) {
        let (key, ..) = ordered;
        if let Some((buffer, holds)) = self
            .kept
            .parts
            .get(&key)
            .and_then(|buffer| Some((*buffer, self.kept.buffers.get(buffer)?.holds.clone()?)))
        {
            return self.say_stored(buffer, &holds);
        }
        let is_known = self.kept.copying.contains_key(&key) || self.kept.queue.iter().any(|(known, ..)| *known == key);
        if !is_known {
            self.kept.queue.push_back(ordered);
            self.start_copies();
        }
    }

    pub(super) fn start_copies(&mut self) {
        while self
            .kept
            .copying
            .values()
            .filter(|copying| copying.copy.is_some())
            .count()
            < COPIES_AT_ONCE
        {
            let Some((key, stamp, process, from, coordinator)) = self.kept.queue.pop_front() else {
                return;
            };
            let whole = BlockRun {
                first: 0,
                count: u64::MAX,
            };
            let copy = Some((stamp, process, coordinator));
            self.fetch_part(key, (from, VecDeque::new()), (OURSELVES, vec![whole]), copy);
        }
    }

    fn fetch_part(
        &mut self,
        key: PartKey,
        (from, others): (NodeName, VecDeque<NodeName>),
        (asker, runs): (ProcessId, Vec<BlockRun>),
        copy: Option<(Stamp, ProcessId, NodeName)>,
    ) {
        if let Entry::Vacant(place) = self.kept.copying.entry(key) {
            match Fetch::new(from) {
                Ok(fetch) => place.insert(Copying { fetch, copy, others }),
                Err(error) => return tracing::warn!(%error, "no memory for a copy of a checkpoint"),
            };
        }
        if let Some(copying) = self.kept.copying.get_mut(&key) {
            // Too many waiting are told by their own deadline.
            _ = copying.fetch.want(asker, key.2, runs);
        }
        self.fetch_part_on(key);
    }

    /// Hands over what has come, and asks for more.
    fn fetch_part_on(&mut self, key: PartKey) {
        let Some(copying) = self.kept.copying.get_mut(&key) else {
            return;
        };
        let fetch = &mut copying.fetch;
        let (ask, node, served) = (fetch.take_asks(Instant::now()), fetch.node.clone(), fetch.take_served());
        let is_busy = fetch.is_busy();
        let (job, id, rank) = key;
        for (asker, rank, bytes) in served {
            if asker == OURSELVES {
                self.on_copy_there(key, bytes);
                continue;
            }
            let file = self
                .kept
                .copying
                .get(&key)
                .map(|copying| copying.fetch.file.try_clone());
            if let Some(file) = file {
                self.hand_image(ProcessKey { job, process: asker }, rank, None, (bytes, file));
            }
        }
        for block in ask {
            self.say_checkpoint(&node, job, CheckpointMessage::Want { id, rank, block });
        }
        if is_busy && !self.kept.is_timer_armed {
            self.kept.is_timer_armed = true;
            self.timers.arm(ASK_AGAIN, Timer::Copies);
        }
    }

    /// Blocks may have been lost.
    pub(super) fn on_copies_timer(&mut self) {
        self.kept.is_timer_armed = false;
        for key in self.kept.copying.keys().copied().collect::<Vec<_>>() {
            self.fetch_part_on(key);
        }
    }

    /// All blocks of a copy came; it counts when its checksums are verified.
    fn on_copy_there(&mut self, key: PartKey, bytes: u64) {
        let Some(Copying {
            fetch,
            copy: Some((stamp, process, coordinator)),
            ..
        }) = self.kept.copying.remove(&key)
        else {
            return;
        };
        let buffer = BufferKey {
            job: key.0,
            process,
            number: self.kept.copies,
            is_copy: true,
        };
        self.kept.copies += 1;
        if let Ok(held) = fetch.file.try_clone() {
            self.keeper.keep(buffer, bytes, held.into());
        }
        let file = Arc::new(fetch.file);
        let holds = Some(Holding {
            stamp,
            rank: key.2,
            tally: None,
            held_us: 0,
            coordinator,
        });
        let ours = Arc::clone(&file);
        self.kept.buffers.insert(buffer, Buffer { file, bytes, holds });
        let events = self.events.clone();
        tokio::spawn(async move {
            let work = tokio::task::spawn_blocking(move || image_sums::verify(&ours, bytes));
            let tally = work.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            let (key, id) = (buffer, stamp.id);
            let _ = events.send(Event::Summed { key, id, tally }).await;
        });
        self.start_copies();
    }

    pub(super) fn kept_block(&self, key: PartKey, block: u64) -> Result<CheckpointMessage, String> {
        let (_, id, rank) = key;
        let Some(buffer) = self.kept.part(key) else {
            return Err(format!("node {} does not hold the part of rank {rank}", self.own));
        };
        let begin = block.saturating_mul(BLOCK_BYTES).min(buffer.bytes);
        let mut bytes = vec![0; (buffer.bytes - begin).min(BLOCK_BYTES) as usize];
        let read = buffer.file.read_exact_at(&mut bytes, begin);
        read.map_err(|error| format!("the part of rank {rank} cannot be read: {error}"))?;
        Ok(CheckpointMessage::Block {
            id,
            rank,
            block,
            image_bytes: buffer.bytes,
            checksum: block_checksum(&bytes),
            bytes,
        })
    }

    pub(super) fn on_kept_block(
        &mut self,
        key: PartKey,
        node: &NodeName,
        (block, image_bytes, checksum): (u64, u64, u64),
        bytes: &[u8],
    ) {
        let Some(copying) = self.kept.copying.get_mut(&key).filter(|c| c.fetch.node == *node) else {
            return;
        };
        match copying.fetch.take(block, image_bytes, checksum, bytes) {
            Ok(Ok(())) => self.fetch_part_on(key),
            Ok(Err(Unfit::Unasked)) => {}
            Ok(Err(unfit)) => tracing::warn!(%node, block, ?unfit, "a block of a checkpoint is not taken"),
            Err(error) => self.on_part_gone(key, &format!("no memory for a copy: {error}")),
        }
    }

    /// A part cannot be had from where it was fetched: from the next node, or not at all.
    pub(super) fn on_part_gone(&mut self, key: PartKey, reason: &str) {
        let Some(mut copying) = self.kept.copying.remove(&key) else {
            return;
        };
        let (job, _, rank) = key;
        let waiting = copying.fetch.take_waiting();
        let waiting: Vec<ProcessId> = waiting.into_iter().map(|(asker, _)| asker).collect();
        match copying.others.pop_front() {
            // Each rank asks again by itself; what was fetched so far is of the same part, but easier had anew.
            Some(next) => match Fetch::new(next) {
                Ok(fetch) => {
                    copying.fetch = fetch;
                    self.kept.copying.insert(key, copying);
                }
                Err(error) => tracing::warn!(%error, "no memory for a copy of a checkpoint"),
            },
            None => {
                for process in waiting.into_iter().filter(|asker| *asker != OURSELVES) {
                    let asker = ProcessKey { job, process };
                    self.tell_lost(asker, rank, None, reason.to_owned());
                }
            }
        }
        self.start_copies();
    }

    /// A rank that continues others from a checkpoint asks for data.
    pub(super) fn on_checkpoint_ask(&mut self, asker: ProcessKey, ask: RestoreAsk) {
        let Some(restores) = self
            .parts
            .get(&asker.job)
            .and_then(|part| part.state.restores().cloned())
        else {
            tracing::warn!(job = %asker.job, process = %asker.process, "a rank asks for data, but nothing is restored");
            return;
        };
        match ask {
            RestoreAsk::Plan => {
                let answer = RestoreAnswer::Plan {
                    old_size: restores.stamp.ranks,
                    continues: (0..restores.stamp.ranks).map(|rank| Some(Rank(rank))).collect(),
                    weights: Vec::new(),
                };
                self.tell_app(asker.job, asker.process, &DaemonToApp::Restore(answer));
            }
            RestoreAsk::Blocks { rank, runs } => {
                let key = (asker.job, restores.stamp.id, rank);
                if let Some(buffer) = self.kept.part(key) {
                    let (bytes, file) = (buffer.bytes, buffer.file.try_clone());
                    return self.hand_image(asker, rank, None, (bytes, file));
                }
                let sources = restores.sources.get(rank.0 as usize).cloned().unwrap_or_default();
                let mut sources: VecDeque<NodeName> = sources.into_iter().filter(|node| *node != self.own).collect();
                match sources.pop_front() {
                    Some(from) => self.fetch_part(key, (from, sources), (asker.process, runs), None),
                    None => self.tell_lost(asker, rank, None, format!("no node holds the part of rank {rank}")),
                }
            }
        }
    }
}
