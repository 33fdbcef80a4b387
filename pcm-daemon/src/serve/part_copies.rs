//! Parts of checkpoints on their way between nodes: copies that this node is to hold, and what restored ranks here need of
//! other nodes' parts. At most a few copies at a time; a copy counts when its checksums are verified.
//!
//! A copy takes the best way there is ([`super::copy_ways`]): what a daemon of this host has is borrowed and copied beside the loop;
//! memory for what another host has is offered to its daemon, which writes into it ([`super::bulk`]), over InfiniBand or RoCE where both have it, else and
//! where that fails over TCP; anything else, and whatever fails, comes block by block over the link. Never decides where a copy goes.

use super::beside::{beside, drop_beside};
use super::bulk::Put;
use super::copy_ways::Way;
use super::daemon::Daemon;
use super::event::Event;
use super::fetch::{ASK_AGAIN, Fetch, Unfit, block_checksum};
use super::image_sums;
use super::kept::{Copying, Ordered, PartKey};
use super::lending::{self, lending_name};
use super::memory::Memory;
use super::timers::Timer;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{CheckpointMessage, PartTally};
use pcm_proto::fabric::BulkAddress;
use pcm_proto::ids::{NodeName, ProcessId, Rank};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{BLOCK_BYTES, BlockRun, RestoreAnswer, RestoreAsk};
use std::collections::VecDeque;
use std::collections::btree_map::Entry;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Stands for this node among those who wait for a copy.
const OURSELVES: ProcessId = ProcessId(u32::MAX);

/// Copies made at once; the others wait. With the window of each they bound what copying takes of a link.
const COPIES_AT_ONCE: usize = 2;

/// Parts written to others at once: those of a few partners; more are fetched block by block.
const PUTS_MAX: usize = 16;

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
            let Some(ordered) = self.kept.queue.pop_front() else {
                return;
            };
            self.start_copy(ordered);
        }
    }

    fn start_copy(&mut self, (key, stamp, process, from, coordinator): Ordered) {
        let Some(copying) = self.copying(key, from.clone(), VecDeque::new()) else {
            return;
        };
        copying.copy = Some((stamp, process, coordinator));
        let attempt = copying.attempt;
        let (way, why) = self.copy_way(&from);
        if let Some(copying) = self.kept.copying.get_mut(&key) {
            (copying.way, copying.why) = (way, why.to_owned());
        }
        match way {
            Way::Link => self.copy_by_link(key, why),
            // Its first block says how long it is.
            Way::Bulk | Way::Rdma => self.want_ourselves(key, 1),
            Way::Shared => {
                let (events, name) = (self.events.clone(), lending_name(&self.spec.cluster_id, &from));
                tokio::spawn(async move {
                    let lent = lending::borrow(&name, key).await;
                    let _ = events.send(Event::PartLent { key, attempt, lent }).await;
                });
            }
        }
    }

    /// What is being fetched of a part, from now on at the latest.
    fn copying(&mut self, key: PartKey, from: NodeName, others: VecDeque<NodeName>) -> Option<&mut Copying> {
        match self.kept.copying.entry(key) {
            Entry::Occupied(place) => Some(place.into_mut()),
            Entry::Vacant(place) => match Fetch::new(from) {
                Ok(fetch) => {
                    self.kept.attempts += 1;
                    Some(place.insert(Copying {
                        fetch,
                        copy: None,
                        others,
                        attempt: self.kept.attempts,
                        way: Way::Link,
                        why: String::new(),
                        offered: None,
                    }))
                }
                Err(error) => {
                    tracing::warn!(%error, "no memory for a copy of a checkpoint");
                    None
                }
            },
        }
    }

    fn copy_by_link(&mut self, key: PartKey, why: &str) {
        if let Some(copying) = self.kept.copying.get_mut(&key) {
            (copying.way, copying.why) = (Way::Link, why.to_owned());
            copying.offered = None;
            self.want_ourselves(key, u64::MAX);
        }
    }

    fn want_ourselves(&mut self, key: PartKey, count: u64) {
        if let Some(copying) = self.kept.copying.get_mut(&key) {
            // Too many waiting are told by their own deadline.
            _ = copying.fetch.want(OURSELVES, key.2, vec![BlockRun { first: 0, count }]);
        }
        self.fetch_part_on(key);
    }

    /// How long a part is is known: memory for it is offered.
    fn offer_part(&mut self, key: PartKey, bytes: u64) {
        let Some(copying) = self.kept.copying.get(&key) else {
            return;
        };
        let attempt = copying.attempt;
        let offered = match (&self.kept.bulk, copying.way.end()) {
            (Some(bulk), Some(end)) => self
                .kept
                .spares
                .take(key.0, bytes)
                .and_then(|memory| bulk.receive(key, attempt, end, memory)),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        match offered {
            Ok(wanted) => {
                if let Some(copying) = self.kept.copying.get_mut(&key) {
                    // Which region it is comes with the offer.
                    copying.offered = Some(([0; 16], wanted));
                }
            }
            Err(error) => self.on_part_copied(key, attempt, Err(error)),
        }
    }

    /// Memory for a part is on offer: the node that has it is told.
    pub(super) fn on_part_offered(&mut self, key: PartKey, attempt: u64, region: [u8; 16]) {
        let copying = self.kept.copying.get_mut(&key);
        let Some(copying) = copying.filter(|copying| copying.attempt == attempt) else {
            return;
        };
        let (bulk, end) = (self.kept.bulk.as_ref(), copying.way.end());
        let at = bulk.zip(end).and_then(|(bulk, end)| bulk.address(end).ok());
        if let (Some((known, _)), Some(at)) = (&mut copying.offered, at) {
            *known = region;
            let (node, (job, id, rank)) = (copying.fetch.node.clone(), key);
            self.say_checkpoint(&node, job, CheckpointMessage::Put { id, rank, region, at });
        }
    }

    /// Another node offers memory for a part.
    pub(super) fn on_put_wanted(&mut self, key: PartKey, node: &NodeName, offered: ([u8; 16], BulkAddress)) {
        let (region, _) = offered;
        let begun = self.begin_put(key, node, offered);
        if let Err(reason) = begun {
            self.say_not_put(key, node, region, reason);
        }
    }

    fn begin_put(
        &mut self,
        key: PartKey,
        node: &NodeName,
        (region, at): ([u8; 16], BulkAddress),
    ) -> Result<(), String> {
        // What it offered before it wants no more.
        self.kept.puts.retain(|put| put.key != key || put.node != *node);
        if self.kept.puts.len() >= PUTS_MAX {
            return Err(format!("node {} writes {PUTS_MAX} parts already", self.own));
        }
        let host = self.peers.address(node).and_then(host_of);
        let host = host.ok_or_else(|| format!("node {node} has no address"))?.to_owned();
        let memory = self.kept.part_for_others(key).map(Arc::clone);
        let memory = memory.ok_or_else(|| format!("node {} does not hold the part of rank {}", self.own, key.2))?;
        self.kept.attempts += 1;
        let number = self.kept.attempts;
        let bulk = self.kept.bulk.as_ref().ok_or("it has no port for bulk transfers")?;
        let wanted = bulk
            .put(number, (host, at), region, memory)
            .map_err(|error| error.to_string())?;
        self.kept.puts.push(Put {
            number,
            node: node.clone(),
            key,
            region,
            _wanted: wanted,
        });
        Ok(())
    }

    /// A part was written to another node, or could not be; where it could not, that node fetches it.
    pub(super) fn on_part_put(&mut self, number: u64, outcome: Result<(), String>) {
        let ended: Vec<Put> = self.kept.puts.extract_if(.., |put| put.number == number).collect();
        if let (Some(put), Err(reason)) = (ended.into_iter().next(), outcome) {
            self.say_not_put(put.key, &put.node, put.region, reason);
        }
    }

    fn say_not_put(&mut self, (job, id, rank): PartKey, node: &NodeName, region: [u8; 16], reason: String) {
        let not_put = CheckpointMessage::NotPut {
            id,
            rank,
            region,
            reason,
        };
        self.say_checkpoint(node, job, not_put);
    }

    /// What was to be written into memory here does not come.
    pub(super) fn on_not_put(&mut self, key: PartKey, region: [u8; 16], reason: &str) {
        let copying = self.kept.copying.get_mut(&key);
        let is_this = |copying: &&mut Copying| copying.offered.as_ref().is_some_and(|(known, _)| *known == region);
        if let Some(copying) = copying.filter(is_this) {
            let attempt = copying.attempt;
            self.on_part_copied(key, attempt, Err(io::Error::other(reason.to_owned())));
        }
    }

    /// The node that has a part lends it, or does not.
    pub(super) fn on_part_lent(&mut self, key: PartKey, attempt: u64, lent: io::Result<Memory>) {
        if !self.is_copying(key, attempt) {
            return;
        }
        let taken = lent.and_then(|lent| Ok((self.kept.spares.take(key.0, lent.bytes())?, lent)));
        let (mut own, lent) = match taken {
            Ok(taken) => taken,
            Err(error) => return self.on_part_copied(key, attempt, Err(error)),
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let copied = beside(move || image_sums::copy(&lent, &mut own).map(|tally| (own, tally))).await;
            let _ = events.send(Event::PartCopied { key, attempt, copied }).await;
        });
    }

    /// A copy of what was lent is made and verified, or is none.
    pub(super) fn on_part_copied(&mut self, key: PartKey, attempt: u64, copied: io::Result<(Memory, PartTally)>) {
        if !self.is_copying(key, attempt) {
            return drop_beside(copied.into_iter().map(|(memory, _)| Arc::new(memory)).collect());
        }
        let (memory, tally) = match copied {
            Ok(copied) => copied,
            Err(error) => {
                return self.copy_otherwise(key, &error);
            }
        };
        let Some(Copying {
            mut fetch,
            copy: Some(copy),
            way,
            why,
            ..
        }) = self.kept.copying.remove(&key)
        else {
            return;
        };
        let ((job, id, rank), epoch) = (key, copy.0.epoch);
        self.hold_copy(key, copy, memory, Some(tally));
        // Ranks that waited for blocks of it have all of it now.
        for (process, _) in fetch.take_waiting() {
            let held = self.kept.part_for_others((job, id, rank));
            let image = held.map(|memory| (memory.bytes(), memory.file().try_clone()));
            if let Some(image) = image {
                self.hand_image(ProcessKey { job, process }, rank, None, image);
            }
        }
        self.note_copy_way((job, epoch), &fetch.node, way, &why);
        self.start_copies();
    }

    /// The way a copy was to take did not work: over TCP if that may be, else over the link.
    fn copy_otherwise(&mut self, key: PartKey, error: &io::Error) {
        self.kept.attempts += 1;
        let attempt = self.kept.attempts;
        let Some(copying) = self.kept.copying.get_mut(&key) else {
            return;
        };
        // Nothing that is still to come of this attempt counts.
        copying.attempt = attempt;
        let (way, node, bytes) = (copying.way, copying.fetch.node.clone(), copying.fetch.image_bytes());
        self.note_failed_way(node.clone(), way);
        let why = format!("{way} did not work: {error}");
        let (next, _) = self.copy_way(&node);
        tracing::warn!(job = %key.0, rank = %key.2, %node, %why, "a copy of a checkpoint comes another way");
        match bytes {
            Some(bytes) if way == Way::Rdma && next == Way::Bulk => {
                if let Some(copying) = self.kept.copying.get_mut(&key) {
                    (copying.way, copying.why, copying.offered) = (next, why, None);
                }
                self.offer_part(key, bytes);
            }
            _ => self.copy_by_link(key, &why),
        }
    }

    fn is_copying(&self, key: PartKey, attempt: u64) -> bool {
        let copying = self.kept.copying.get(&key);
        copying.is_some_and(|copying| copying.attempt == attempt && copying.copy.is_some())
    }

    /// Another daemon of this host wants to copy a part.
    pub(super) fn on_part_wanted(&mut self, key: PartKey, lend: oneshot::Sender<Option<Arc<Memory>>>) {
        // Who asked may have gone.
        _ = lend.send(self.kept.part_for_others(key).map(Arc::clone));
    }

    fn fetch_part(
        &mut self,
        key: PartKey,
        (from, others): (NodeName, VecDeque<NodeName>),
        (asker, runs): (ProcessId, Vec<BlockRun>),
    ) {
        if let Some(copying) = self.copying(key, from, others) {
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
        let whole = served.iter().find(|(asker, ..)| *asker == OURSELVES);
        let whole = whole.map(|(_, _, bytes)| *bytes);
        for (process, rank, bytes) in served.into_iter().filter(|(asker, ..)| *asker != OURSELVES) {
            let file = self
                .kept
                .copying
                .get(&key)
                .map(|copying| copying.fetch.file.try_clone());
            if let Some(file) = file {
                self.hand_image(ProcessKey { job, process }, rank, None, (bytes, file));
            }
        }
        if let Some(bytes) = whole {
            self.on_copy_there(key, bytes);
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
        match self
            .kept
            .copying
            .get(&key)
            .map(|copying| (copying.way, &copying.offered))
        {
            Some((Way::Bulk | Way::Rdma, None)) => return self.offer_part(key, bytes),
            Some((Way::Link, _)) => (),
            _ => return,
        }
        let copying = self.kept.copying.remove(&key);
        let Some((fetch, copy, why)) = copying.and_then(|copying| Some((copying.fetch, copying.copy?, copying.why)))
        else {
            return;
        };
        let epoch = copy.0.epoch;
        if let Some(memory) = Memory::of(fetch.file, bytes) {
            self.hold_copy(key, copy, memory, None);
        }
        self.note_copy_way((key.0, epoch), &fetch.node, Way::Link, &why);
        self.start_copies();
    }

    pub(super) fn kept_block(&self, key: PartKey, block: u64) -> Result<CheckpointMessage, String> {
        let (_, id, rank) = key;
        let Some(buffer) = self.kept.part(key) else {
            return Err(format!("node {} does not hold the part of rank {rank}", self.own));
        };
        let image_bytes = buffer.memory.bytes();
        let begin = block.saturating_mul(BLOCK_BYTES).min(image_bytes);
        let mut bytes = vec![0; (image_bytes - begin).min(BLOCK_BYTES) as usize];
        let read = buffer.memory.file().read_exact_at(&mut bytes, begin);
        read.map_err(|error| format!("the part of rank {rank} cannot be read: {error}"))?;
        Ok(CheckpointMessage::Block {
            id,
            rank,
            block,
            image_bytes,
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
                if let Some(memory) = self.kept.part_for_others(key) {
                    let (bytes, file) = (memory.bytes(), memory.file().try_clone());
                    return self.hand_image(asker, rank, None, (bytes, file));
                }
                let sources = restores.sources.get(rank.0 as usize).cloned().unwrap_or_default();
                let mut sources: VecDeque<NodeName> = sources.into_iter().filter(|node| *node != self.own).collect();
                match sources.pop_front() {
                    Some(from) => self.fetch_part(key, (from, sources), (asker.process, runs)),
                    None => self.tell_lost(asker, rank, None, format!("no node holds the part of rank {rank}")),
                }
            }
        }
    }
}

/// The host in a daemon's address.
fn host_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemons_address_names_its_host() {
        assert_eq!(host_of("n1.example:70"), Some("n1.example"));
        assert_eq!(host_of("[::1]:70"), Some("::1"));
        assert_eq!(host_of("n1"), None);
    }
}
