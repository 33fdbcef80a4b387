//! Images on their way to this node: copies of parts of checkpoints that it is to hold, and what restored ranks here
//! need of images elsewhere. Never decides where a copy goes, nor what a rank needs.
//!
//! Over the link its node says how long an image is, and that it is there. Its blocks take the best way there is
//! ([`super::copy_ways`]): all at once ([`super::together`]), or, where that cannot be or has failed, block by block
//! over the link.

use super::beside::drop_beside;
use super::copy_ways::Way;
use super::daemon::Daemon;
use super::fetch::{ASK_AGAIN, Came, Fetch, Unfit};
use super::images::ImageKey;
use super::links::CopyGoes;
use super::memory::Memory;
use super::together::Together;
use pcm_core::node::timer::Timer;
use pcm_proto::checkpoint::{PartTally, Stamp};
use pcm_proto::ids::{Epoch, NodeName, ProcessId, Rank};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{Asked, BlockRun};
use std::collections::VecDeque;
use std::time::Instant;

/// Stands for this node among those who wait for an image.
const OURSELVES: ProcessId = ProcessId(u32::MAX);

/// An image on its way from another node.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) fetch: Fetch,
    /// Set when it is to be held here, not only for ranks that wait.
    pub(super) copy: Option<(Stamp, ProcessId, NodeName)>,
    /// Where else it can be had.
    others: VecDeque<NodeName>,
    /// The layout that needs it.
    epoch: Epoch,
    /// Where it is written, unless it is away to be filled.
    pub(super) memory: Option<Memory>,
    /// Whether a rank has that memory.
    is_handed: bool,
    /// Known where it was verified while it was copied.
    pub(super) tally: Option<PartTally>,
    /// Tells what comes of it from what comes of another try before.
    pub(super) attempt: u64,
    /// How it comes now, and why that way.
    pub(super) way: Way,
    pub(super) why: String,
    /// Since when that which is under way comes so.
    pub(super) since: Instant,
    pub(super) together: Option<Together>,
}

impl Daemon {
    /// Gets blocks of an image for a rank, from the first of these nodes that has it.
    pub(super) fn fetch_image(
        &mut self,
        key: ImageKey,
        (epoch, mut sources): (Epoch, VecDeque<NodeName>),
        (asker, asked): (ProcessId, Asked),
        runs: Vec<BlockRun>,
    ) {
        if !self.images.arrivals.contains_key(&key)
            && let Some(from) = sources.pop_front()
        {
            let arrival = self.arrival(from, VecDeque::new(), epoch);
            self.images.arrivals.insert(key, arrival);
        }
        let is_taken = self.images.arrivals.get_mut(&key).is_some_and(|arrival| {
            sources.retain(|node| *node != arrival.fetch.node && !arrival.others.contains(node));
            arrival.others.append(&mut sources);
            arrival.fetch.want(asker, asked, runs)
        });
        if !is_taken {
            let process = ProcessKey {
                job: key.job,
                process: asker,
            };
            let reason = format!(
                "no node holds the data of rank {}, or too many ranks wait for it",
                asked.rank
            );
            return self.tell_lost(process, asked, key.attempt(), reason);
        }
        self.fetch_on(key);
    }

    /// Makes a copy of an image, which ranks may be waiting for already.
    pub(super) fn copy_image(&mut self, key: ImageKey, from: NodeName, copy: (Stamp, ProcessId, NodeName)) {
        let mut arrival = self.arrival(from, VecDeque::new(), copy.0.epoch);
        arrival.copy = Some(copy);
        let all = BlockRun {
            first: 0,
            count: u64::MAX,
        };
        let asked = Asked {
            rank: Rank(0),
            number: 0,
        };
        arrival.fetch.want(OURSELVES, asked, vec![all]);
        if let Some(before) = self.images.arrivals.remove(&key) {
            arrival.fetch.wait_as(before.fetch);
            arrival.others = before.others;
            drop_beside(before.memory.into_iter().collect());
        }
        self.images.arrivals.insert(key, arrival);
        self.fetch_on(key);
    }

    fn arrival(&mut self, from: NodeName, others: VecDeque<NodeName>, epoch: Epoch) -> Arrival {
        let (way, why) = self.copy_way(&from);
        Arrival {
            fetch: Fetch::new(from),
            copy: None,
            others,
            epoch,
            memory: None,
            is_handed: false,
            tally: None,
            attempt: self.images.next_number(),
            way,
            why: why.to_owned(),
            since: Instant::now(),
            together: None,
        }
    }

    /// Hands over what has come, and asks for more.
    pub(super) fn fetch_on(&mut self, key: ImageKey) {
        let Some(arrival) = self.images.arrivals.get_mut(&key) else {
            return;
        };
        let served = arrival.fetch.take_served();
        let image = arrival.fetch.image();
        let handed = served.iter().filter(|(asker, _)| *asker != OURSELVES);
        let handed: Vec<_> = handed
            .filter_map(|(asker, asked)| image.map(|(file, bytes)| (*asker, *asked, (bytes, file.try_clone()))))
            .collect();
        arrival.is_handed |= !handed.is_empty();
        let is_whole = handed.len() < served.len();
        let is_by_link = arrival.way == Way::Link;
        for (process, asked, image) in handed {
            let asker = ProcessKey { job: key.job, process };
            self.hand_image(asker, asked, key.attempt(), image);
        }
        if is_by_link && !served.is_empty() {
            self.note_arrival(key);
        }
        if is_whole {
            return self.hold_arrival(key);
        }
        let Some(arrival) = self.images.arrivals.get_mut(&key) else {
            return;
        };
        if arrival.way == Way::Shared && arrival.copy.is_some() && arrival.memory.is_none() {
            // What is lent says how long it is, and what is to be copied is there.
            return self.borrow_image(key);
        }
        if !is_by_link && arrival.fetch.image().is_some() {
            return self.fetch_together(key);
        }
        let (asks, node) = (arrival.fetch.take_asks(Instant::now()), arrival.fetch.node.clone());
        let is_busy = arrival.fetch.is_busy();
        for block in asks {
            self.say_of_image(&node, key, ImageMessage::Want { block });
        }
        if is_busy {
            self.look_at_images_again();
        }
    }

    pub(super) fn look_at_images_again(&mut self) {
        if !self.images.is_timer_armed {
            self.images.is_timer_armed = true;
            self.out.arm(ASK_AGAIN, Timer::Images);
        }
    }

    /// Blocks may have been lost, or there may be room for more offers.
    pub(super) fn on_images_timer(&mut self) {
        self.images.is_timer_armed = false;
        for key in self.images.arrivals.keys().copied().collect::<Vec<_>>() {
            self.fetch_on(key);
        }
    }

    /// A block came over the link.
    pub(super) fn on_block(&mut self, key: ImageKey, node: &NodeName, came: Came<'_>) {
        let known = self.images.arrivals.get_mut(&key);
        let Some(arrival) = known.filter(|arrival| arrival.fetch.node == *node) else {
            return;
        };
        let Arrival {
            fetch, copy, memory, ..
        } = arrival;
        let spares = &mut self.kept.spares;
        let taken = fetch.take(came, |bytes| {
            let made = match copy {
                Some(_) => spares.take(key.job, bytes)?,
                None => Memory::with_holes(bytes)?,
            };
            memory.insert(made).file().try_clone()
        });
        match taken {
            Ok(Ok(())) => self.fetch_on(key),
            Ok(Err(Unfit::Unasked)) => {}
            Ok(Err(unfit)) => {
                tracing::warn!(%node, block = came.block, ?unfit, "a block of an image is not taken and asked for again");
            }
            Err(error) => self.on_image_gone(key, node, &format!("no memory for a copy: {error}")),
        }
    }

    pub(super) fn note_arrival(&mut self, key: ImageKey) {
        if let Some(arrival) = self.images.arrivals.get(&key) {
            let (node, way, why) = (arrival.fetch.node.clone(), arrival.way, arrival.why.clone());
            self.note_copy_way((key.job, arrival.epoch), &node, way, &why);
        }
    }

    /// All of a copy is here; it counts when its checksums are verified.
    fn hold_arrival(&mut self, key: ImageKey) {
        let Some(arrival) = self.images.arrivals.remove(&key) else {
            return;
        };
        let ImageName::Part { id, rank } = key.name else {
            return;
        };
        if let (Some(copy), Some(memory)) = (arrival.copy, arrival.memory) {
            if arrival.way == Way::Link {
                self.measure_copy(&arrival.fetch.node, CopyGoes::Here, arrival.since, memory.bytes());
            }
            self.hold_copy((key.job, id, rank), copy, (memory, arrival.is_handed), arrival.tally);
        }
        self.start_copies();
    }

    /// An image cannot be had from where it was fetched: from the next node, or not at all.
    pub(super) fn on_image_gone(&mut self, key: ImageKey, node: &NodeName, reason: &str) {
        let next = match self.images.arrivals.get_mut(&key) {
            Some(arrival) if arrival.fetch.node == *node => arrival.others.pop_front(),
            _ => return,
        };
        let Some(mut before) = self.images.arrivals.remove(&key) else {
            return;
        };
        if let Some(next) = next {
            let mut arrival = self.arrival(next, before.others, before.epoch);
            arrival.copy = before.copy;
            arrival.fetch.wait_as(before.fetch);
            drop_beside(before.memory.into_iter().collect());
            self.images.arrivals.insert(key, arrival);
            return self.fetch_on(key);
        }
        let waiting = before.fetch.take_waiting();
        drop(before.fetch);
        drop_beside(before.memory.into_iter().collect());
        for (process, asked) in waiting {
            if process != OURSELVES {
                let asker = ProcessKey { job: key.job, process };
                self.tell_lost(asker, asked, key.attempt(), reason.to_owned());
            }
        }
        self.start_copies();
    }

    /// A node is gone. What it parked is lost with it, which is for the job's coordinator to say; of a checkpoint there
    /// may be other copies.
    pub(super) fn on_images_node_gone(&mut self, node: &NodeName) {
        self.images.give_no_more_to(node);
        self.images.failed_ways.forget(node);
        let of_node = |key: &ImageKey, arrival: &Arrival| key.attempt().is_none() && arrival.fetch.node == *node;
        let arrivals = self.images.arrivals.iter();
        let lost = arrivals.filter(|(key, arrival)| of_node(key, arrival));
        for key in lost.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.on_image_gone(key, node, &format!("node {node} is gone"));
        }
    }
}
