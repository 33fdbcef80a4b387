//! Images of this node for other nodes: parked data, and parts of checkpoints, block by block, lent, or written into
//! memory that the other node offers. Never asks for one: [`super::arrivals`] does.

use super::arrivals::Arrival;
use super::beside::drop_beside;
use super::bulk::{Bulk, Put};
use super::copy_ways::{AllowedWays, FailedWays, Way};
use super::daemon::Daemon;
use super::fetch::{Came, block_checksum};
use super::links::CopyGoes;
use super::memory::Memory;
use pcm_core::node::record::PartKey;
use pcm_proto::fabric::BulkAddress;
use pcm_proto::ids::{CheckpointId, JobId, NodeName};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::parked::{BLOCK_BYTES, ParkKey};
use pcm_proto::peer::JobMessage;
use pcm_proto::reconfiguration::Attempt;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Images written to others at once: a relaunch has a node give to all others. What is more comes over links.
const PUTS_MAX: usize = 64;

/// An image of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageKey {
    pub(super) job: JobId,
    pub(super) name: ImageName,
}

impl ImageKey {
    /// For which attempt it was parked; none of a checkpoint.
    pub(super) fn attempt(self) -> Option<Attempt> {
        match self.name {
            ImageName::Parked { attempt, .. } => Some(attempt),
            ImageName::Part { .. } => None,
        }
    }
}

impl From<PartKey> for ImageKey {
    fn from((job, id, rank): PartKey) -> Self {
        let name = ImageName::Part { id, rank };
        Self { job, name }
    }
}

impl From<ParkKey> for ImageKey {
    fn from(ParkKey { job, attempt, process }: ParkKey) -> Self {
        let name = ImageName::Parked { attempt, process };
        Self { job, name }
    }
}

/// All images on their way, and what is known of the ways.
#[derive(Debug, Default)]
pub(super) struct Images {
    pub(super) arrivals: BTreeMap<ImageKey, Arrival>,
    /// Those that are being written into memory of other nodes.
    puts: Vec<Put>,
    /// Counts what is begun.
    count: u64,
    pub(super) bulk: Option<Bulk>,
    pub(super) allowed: AllowedWays,
    pub(super) failed_ways: FailedWays,
    /// How the last image of a job came from a node.
    pub(super) ways: BTreeMap<(JobId, NodeName), Way>,
    pub(super) is_timer_armed: bool,
}

impl Images {
    pub(super) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Images that nobody here needs any more.
    pub(super) fn forget(&mut self, is_over: impl Fn(&ImageKey) -> bool) {
        self.forget_arrivals(|key, _| is_over(key));
    }

    /// What restored ranks needed of older checkpoints of a job: they have made this one since.
    pub(super) fn forget_restored(&mut self, job: JobId, settled: CheckpointId) {
        self.forget_arrivals(|key, arrival| arrival.copy.is_none() && is_older(key, job, settled));
    }

    fn forget_arrivals(&mut self, is_over: impl Fn(&ImageKey, &Arrival) -> bool) {
        let over = self.arrivals.extract_if(.., |key, arrival| is_over(key, arrival));
        drop_beside(over.filter_map(|(_, arrival)| arrival.memory).collect());
    }

    /// A node is gone, and what it wanted.
    pub(super) fn give_no_more_to(&mut self, node: &NodeName) {
        self.puts.retain(|put| put.node != *node);
    }
}

impl Daemon {
    /// An image that is here, for another process to read.
    fn image_for_others(&mut self, key: ImageKey) -> Option<Arc<Memory>> {
        let ImageKey { job, name } = key;
        match name {
            ImageName::Parked { attempt, process } => {
                self.parked.image(ParkKey { job, attempt, process }).map(Arc::clone)
            }
            ImageName::Part { id, rank } => self.kept.part_for_others((job, id, rank)).map(Arc::clone),
        }
    }

    pub(super) fn say_of_image(&mut self, node: &NodeName, key: ImageKey, message: ImageMessage) {
        let ImageKey { job, name } = key;
        self.send_job(node, job, JobMessage::Image { name, message });
    }

    /// Another node says something about an image that it has, or that it needs.
    pub(super) fn on_image_message(&mut self, key: ImageKey, node: &NodeName, message: ImageMessage) {
        match message {
            ImageMessage::Want { block } => self.give_block(node, key, block),
            ImageMessage::Block {
                block,
                image_bytes,
                checksum,
                bytes,
            } => {
                let came = Came {
                    block,
                    image_bytes,
                    checksum,
                    bytes: &bytes,
                };
                self.on_block(key, node, came);
            }
            ImageMessage::Put { region, at } => self.on_put_wanted(key, node, (region, at)),
            ImageMessage::NotPut { region, reason } => self.on_not_put(key, region, reason),
            ImageMessage::Gone { reason } => self.on_image_gone(key, node, &reason),
        }
    }

    pub(super) fn give_block(&mut self, node: &NodeName, key: ImageKey, block: u64) {
        let Some(memory) = self.image_for_others(key) else {
            if !self.await_image(key, node, block) {
                self.say_gone(node, key);
            }
            return;
        };
        let image_bytes = memory.bytes();
        let begin = block.saturating_mul(BLOCK_BYTES).min(image_bytes);
        let mut bytes = vec![0; (image_bytes - begin).min(BLOCK_BYTES) as usize];
        let message = match memory.file().read_exact_at(&mut bytes, begin) {
            Ok(()) => ImageMessage::Block {
                block,
                image_bytes,
                checksum: block_checksum(&bytes),
                bytes,
            },
            Err(error) => ImageMessage::Gone {
                reason: format!("node {} cannot read it: {error}", self.own),
            },
        };
        self.say_of_image(node, key, message);
    }

    fn say_gone(&mut self, node: &NodeName, key: ImageKey) {
        let reason = match key.name {
            ImageName::Parked { process, .. } => {
                format!("node {} does not hold the data of process {process} any more", self.own)
            }
            ImageName::Part { rank, .. } => format!("node {} does not hold the part of rank {rank}", self.own),
        };
        self.say_of_image(node, key, ImageMessage::Gone { reason });
    }

    /// Another daemon of this host wants to read an image.
    pub(super) fn on_image_wanted(&mut self, key: ImageKey, lend: oneshot::Sender<Option<Arc<Memory>>>) {
        // Who asked may have gone.
        _ = lend.send(self.image_for_others(key));
    }

    /// Another node offers memory for an image.
    fn on_put_wanted(&mut self, key: ImageKey, node: &NodeName, offered: ([u8; 16], BulkAddress)) {
        let Some(memory) = self.image_for_others(key) else {
            return self.say_gone(node, key);
        };
        let (region, _) = offered;
        if let Err(reason) = self.begin_put(key, node, offered, memory) {
            self.say_of_image(node, key, ImageMessage::NotPut { region, reason });
        }
    }

    fn begin_put(
        &mut self,
        key: ImageKey,
        node: &NodeName,
        (region, at): ([u8; 16], BulkAddress),
        memory: Arc<Memory>,
    ) -> Result<(), String> {
        // What it offered before it wants no more.
        self.images.puts.retain(|put| put.key != key || put.node != *node);
        if self.images.puts.len() >= PUTS_MAX {
            return Err(format!("node {} writes {PUTS_MAX} images already", self.own));
        }
        let host = self.peers.address(node).and_then(host_of);
        let host = host.ok_or_else(|| format!("node {node} has no address"))?.to_owned();
        let number = self.images.next_number();
        let bulk = self.images.bulk.as_ref().ok_or("it has no port for bulk transfers")?;
        let wanted = bulk
            .put(number, (host, at), region, memory)
            .map_err(|error| error.to_string())?;
        self.images.puts.push(Put {
            number,
            node: node.clone(),
            key,
            region,
            over: at,
            since: Instant::now(),
            _wanted: wanted,
        });
        Ok(())
    }

    /// An image was written to another node, or could not be; where it could not, that node fetches it.
    pub(super) fn on_image_put(&mut self, number: u64, outcome: Result<u64, String>) {
        let ended = self.images.puts.extract_if(.., |put| put.number == number).last();
        let Some(put) = ended else { return };
        match outcome {
            Ok(bytes) if matches!(put.over, BulkAddress::Tcp(_)) => {
                self.measure_copy(&put.node, CopyGoes::There, put.since, bytes)
            }
            Ok(_) => {}
            Err(reason) => {
                let region = put.region;
                self.say_of_image(&put.node, put.key, ImageMessage::NotPut { region, reason });
            }
        }
    }
}

/// Whether it is of a checkpoint of the job from before this one.
fn is_older(key: &ImageKey, job: JobId, settled: CheckpointId) -> bool {
    key.job == job && matches!(key.name, ImageName::Part { id, .. } if id < settled)
}

/// The host in a daemon's address.
fn host_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, ProcessId, Rank, Term};

    #[test]
    fn only_parts_of_earlier_checkpoints_of_the_same_job_are_older() {
        let part = |id| ImageName::Part {
            id: CheckpointId(id),
            rank: Rank(0),
        };
        let attempt = Attempt {
            epoch: Epoch(1),
            term: Term(1),
            number: 1,
        };
        let process = ProcessId(0);
        let parked = ImageName::Parked { attempt, process };
        let (job, settled) = (JobId(1), CheckpointId(5));
        let older = [part(4), part(5), part(6), parked].map(|name| is_older(&ImageKey { job, name }, job, settled));
        assert_eq!(older, [true, false, false, false]);
        let of_other = ImageKey {
            job: JobId(2),
            name: part(4),
        };
        assert!(!is_older(&of_other, job, settled));
    }

    #[test]
    fn a_daemons_address_names_its_host() {
        assert_eq!(host_of("n1.example:70"), Some("n1.example"));
        assert_eq!(host_of("[::1]:70"), Some("::1"));
        assert_eq!(host_of("n1"), None);
    }
}
