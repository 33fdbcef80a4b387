//! Images on their way to this node: copies of parts of checkpoints that it is to hold, and what restored ranks here need of
//! images elsewhere. Never decides where a copy goes, nor what a rank needs.
//!
//! Over the link its node says how long an image is, and that it is there. Its blocks take the best way there is
//! ([`super::copy_ways`]): what a daemon of this host has is borrowed ([`super::lending`]), and copied beside the loop where a copy is
//! wanted; memory for what another host has is offered to its daemon, which writes into it what is lacking ([`super::bulk`]), over
//! InfiniBand or RoCE where both have it, else and where that fails over TCP; anything else, and whatever fails, comes block by block over the link.

use super::beside::{beside, drop_beside};
use super::bulk::{PATIENCE, Wanted};
use super::copy_ways::Way;
use super::daemon::Daemon;
use super::event::Event;
use super::fetch::{ASK_AGAIN, Came, Fetch, Unfit};
use super::image_sums;
use super::images::ImageKey;
use super::lending::{self, lending_name};
use super::links::CopyGoes;
use super::memory::Memory;
use super::timers::Timer;
use pcm_proto::checkpoint::{PartTally, Stamp};
use pcm_proto::ids::{Epoch, NodeName, ProcessId, Rank};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{Asked, BLOCK_BYTES, BlockRun};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Stands for this node among those who wait for an image.
const OURSELVES: ProcessId = ProcessId(u32::MAX);

/// Images that one node is to write at once, which it does in one thread: a block of each comes within patience where the link carries
/// 0.2 MB/s, and it has room for what sixteen nodes want so. The others wait here.
const OFFERED_MAX: usize = 4;

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
    tally: Option<PartTally>,
    /// Tells what comes of it from what comes of another try before.
    attempt: u64,
    /// How it comes now, and why that way.
    way: Way,
    why: String,
    /// Since when that which is under way comes so.
    since: Instant,
    together: Option<Together>,
}

/// Blocks that come all at once.
#[derive(Debug)]
enum Together {
    /// From memory that is lent.
    Borrowed,
    /// Into memory on offer, as long as this lives.
    Offered {
        /// Once it is known.
        region: Option<[u8; 16]>,
        /// How much is to come.
        bytes: u64,
        _wanted: Wanted,
    },
}

/// What came of blocks that were to come all at once.
#[derive(Debug)]
pub(super) struct CameTogether {
    /// The memory they were to be written into, if nobody else may write into it any more.
    pub(super) memory: Option<Memory>,
    /// The checksum where all of it was verified.
    pub(super) outcome: Result<Option<PartTally>, NotCome>,
}

/// Why blocks do not come all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotCome {
    /// They were refused, here or there, as too many others were under way: this says nothing of the way.
    Refused(String),
    /// They were waited for in vain, as others on that way would be.
    Silence(String),
}

impl NotCome {
    /// The node that was to send them says why it does not; it tries for a while where it cannot be connected to.
    fn told(waited: Duration, reason: String) -> Self {
        if waited < PATIENCE {
            Self::Refused(reason)
        } else {
            Self::Silence(reason)
        }
    }
}

impl From<io::Error> for NotCome {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl Arrival {
    fn is_offered(&self) -> bool {
        matches!(self.together, Some(Together::Offered { .. }))
    }

    /// Whether something could come all at once and is not on its way.
    fn awaits_offer(&self) -> bool {
        self.together.is_none() && self.fetch.is_queued()
    }
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
    fn fetch_on(&mut self, key: ImageKey) {
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

    fn look_at_images_again(&mut self) {
        if !self.images.is_timer_armed {
            self.images.is_timer_armed = true;
            self.timers.arm(ASK_AGAIN, Timer::Images);
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

    /// Gets all that is wanted at once, if nothing is on its way yet.
    fn fetch_together(&mut self, key: ImageKey) {
        let known = self.images.arrivals.get(&key);
        let Some(arrival) = known.filter(|arrival| arrival.awaits_offer()) else {
            return;
        };
        let (node, way) = (arrival.fetch.node.clone(), arrival.way);
        let (best, why) = self.copy_way(&node);
        let is_full = way.end().is_some() && self.offered_to(&node) >= OFFERED_MAX;
        let has_failed = self.has_failed(&node, way);
        let Some(arrival) = self.images.arrivals.get_mut(&key) else {
            return;
        };
        if has_failed {
            // Since it was chosen, for another image.
            (arrival.way, arrival.why, arrival.since) = (best, why.to_owned(), Instant::now());
            return self.fetch_on(key);
        }
        if is_full {
            return self.look_at_images_again();
        }
        let Some(blocks) = arrival.fetch.take_together() else {
            return;
        };
        let attempt = arrival.attempt;
        let bytes = blocks.runs().map(|run| run.count * BLOCK_BYTES).sum();
        let Some(end) = arrival.way.end() else {
            return self.borrow_image(key);
        };
        let offered = match (&self.images.bulk, arrival.memory.take()) {
            (Some(bulk), Some(memory)) => bulk.receive((key, attempt), end, memory, blocks),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        match offered {
            Ok(wanted) => {
                arrival.since = Instant::now();
                arrival.together = Some(Together::Offered {
                    region: None,
                    bytes,
                    _wanted: wanted,
                });
            }
            Err(error) => self.fetch_otherwise(key, None, error.into()),
        }
    }

    /// Images that a node is to write now.
    fn offered_to(&self, node: &NodeName) -> usize {
        let arrivals = self.images.arrivals.values();
        let offered = arrivals.filter(|arrival| arrival.fetch.node == *node && arrival.is_offered());
        offered.count()
    }

    /// What was on offer to a node is not any more: the next.
    fn offer_next(&mut self, node: &NodeName) {
        let mut arrivals = self.images.arrivals.iter();
        let next = arrivals
            .find(|(_, arrival)| arrival.fetch.node == *node && arrival.way.end().is_some() && arrival.awaits_offer());
        if let Some(key) = next.map(|(key, _)| *key) {
            self.fetch_together(key);
        }
    }

    /// Asks the daemon of this host that has an image to lend it, if nothing is on its way yet.
    fn borrow_image(&mut self, key: ImageKey) {
        let known = self.images.arrivals.get_mut(&key);
        let Some(arrival) = known.filter(|arrival| arrival.together.is_none()) else {
            return;
        };
        arrival.together = Some(Together::Borrowed);
        let attempt = arrival.attempt;
        let (events, name) = (
            self.events.clone(),
            lending_name(&self.spec.cluster_id, &arrival.fetch.node),
        );
        tokio::spawn(async move {
            let lent = lending::borrow(&name, key).await;
            let _ = events.send(Event::ImageLent { key, attempt, lent }).await;
        });
    }

    /// Memory for an image is on offer: the node that has it is told.
    pub(super) fn on_image_offered(&mut self, key: ImageKey, attempt: u64, region: [u8; 16]) {
        let known = self.arrival_of(key, attempt);
        if let Some(Together::Offered { region: known, .. }) = known.and_then(|arrival| arrival.together.as_mut()) {
            *known = Some(region);
            self.say_offered(key);
        }
    }

    /// A node is linked, perhaps with a daemon that knows nothing of what is on offer to it.
    pub(super) fn on_images_linked(&mut self, node: &NodeName) {
        let arrivals = self.images.arrivals.iter();
        let from_there = arrivals.filter(|(_, arrival)| arrival.fetch.node == *node);
        for key in from_there.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.say_offered(key);
        }
    }

    fn say_offered(&mut self, key: ImageKey) {
        let Some(arrival) = self.images.arrivals.get(&key) else {
            return;
        };
        let at = self.images.bulk.as_ref().zip(arrival.way.end());
        let at = at.and_then(|(bulk, end)| bulk.address(end).ok());
        if let (
            Some(Together::Offered {
                region: Some(region), ..
            }),
            Some(at),
        ) = (&arrival.together, at)
        {
            let (node, region) = (arrival.fetch.node.clone(), *region);
            self.say_of_image(&node, key, ImageMessage::Put { region, at });
        }
    }

    /// What was to be written into memory here does not come.
    pub(super) fn on_not_put(&mut self, key: ImageKey, region: [u8; 16], reason: String) {
        let Some(arrival) = self.images.arrivals.get(&key) else {
            return;
        };
        let waited = arrival.since.elapsed();
        if matches!(&arrival.together, Some(Together::Offered { region: Some(known), .. }) if *known == region) {
            self.fetch_otherwise(key, None, NotCome::told(waited, reason));
        }
    }

    /// The node that has an image lends it, or does not.
    pub(super) fn on_image_lent(&mut self, key: ImageKey, attempt: u64, lent: io::Result<Memory>) {
        let Some(arrival) = self.arrival_of(key, attempt) else {
            return;
        };
        let lent = lent.and_then(|lent| Ok((lent.file().try_clone()?, lent)));
        let (file, lent) = match lent {
            Ok(lent) => lent,
            Err(error) => return self.fetch_otherwise(key, None, error.into()),
        };
        if arrival.copy.is_none() {
            // Ranks only read it, as those of the node that lends it do.
            arrival.fetch.came_whole(file, lent.bytes());
            (arrival.memory, arrival.together) = (None, None);
            self.note_arrival(key);
            return self.fetch_on(key);
        }
        let mut own = match self.kept.spares.take(key.job, lent.bytes()) {
            Ok(own) => own,
            Err(error) => return self.fetch_otherwise(key, None, error.into()),
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let copied = beside(move || {
                let tally = image_sums::copy(&lent, &mut own);
                Ok((own, tally))
            });
            let came = match copied.await {
                Ok((own, tally)) => CameTogether {
                    memory: Some(own),
                    outcome: tally.map(Some).map_err(NotCome::from),
                },
                Err(error) => CameTogether {
                    memory: None,
                    outcome: Err(error.into()),
                },
            };
            let _ = events.send(Event::ImageCame { key, attempt, came }).await;
        });
    }

    /// What was to come all at once came, or did not.
    pub(super) fn on_image_came(&mut self, key: ImageKey, attempt: u64, came: CameTogether) {
        let CameTogether { memory, outcome } = came;
        let Some(arrival) = self.arrival_of(key, attempt) else {
            return drop_beside(memory.into_iter().collect());
        };
        match outcome {
            Ok(tally) => {
                let copied = memory.as_ref().filter(|_| tally.is_some());
                match copied.map(|copied| (copied.file().try_clone(), copied.bytes())) {
                    Some((Ok(file), bytes)) => arrival.fetch.came_whole(file, bytes),
                    Some((Err(error), _)) => return self.fetch_otherwise(key, memory, error.into()),
                    None => arrival.fetch.came_together(),
                }
                (arrival.memory, arrival.tally) = (memory, tally);
                let over_tcp = match arrival.together.take() {
                    Some(Together::Offered { bytes, .. }) if arrival.way == Way::Bulk => Some(bytes),
                    _ => None,
                };
                let (node, since) = (arrival.fetch.node.clone(), arrival.since);
                if let Some(bytes) = over_tcp {
                    self.measure_copy(&node, CopyGoes::Here, since, bytes);
                }
                self.note_arrival(key);
                self.fetch_on(key);
                self.offer_next(&node);
            }
            Err(why) => self.fetch_otherwise(key, memory, why),
        }
    }

    fn arrival_of(&mut self, key: ImageKey, attempt: u64) -> Option<&mut Arrival> {
        let known = self.images.arrivals.get_mut(&key);
        known.filter(|arrival| arrival.attempt == attempt)
    }

    /// An image does not come the way it was to take: over TCP if that may be, else over the link.
    fn fetch_otherwise(&mut self, key: ImageKey, memory: Option<Memory>, why: NotCome) {
        let attempt = self.images.next_number();
        let Some(arrival) = self.images.arrivals.get_mut(&key) else {
            return;
        };
        // Nothing that is still to come of this try counts; what may still be written by it is not used any more.
        (arrival.attempt, arrival.together) = (attempt, None);
        if memory.is_some() {
            arrival.memory = memory;
        }
        match arrival.memory {
            Some(_) => arrival.fetch.came_not(),
            None => drop_beside(
                arrival
                    .fetch
                    .start_over(arrival.fetch.node.clone())
                    .into_iter()
                    .collect(),
            ),
        }
        let (way, node) = (arrival.way, arrival.fetch.node.clone());
        let why = match why {
            NotCome::Refused(why) => why,
            NotCome::Silence(why) => {
                self.note_failed_way(node.clone(), way);
                why
            }
        };
        let why = format!("{way} did not work: {why}");
        let next = self.next_way(&node, way);
        tracing::warn!(job = %key.job, image = ?key.name, %node, %why, "an image comes another way");
        if let Some(arrival) = self.images.arrivals.get_mut(&key) {
            (arrival.way, arrival.why) = (next, why);
            arrival.since = Instant::now();
        }
        self.fetch_on(key);
        self.offer_next(&node);
    }

    fn note_arrival(&mut self, key: ImageKey) {
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

    /// A node is gone. What it parked is lost with it, which is for the job's coordinator to say; of a checkpoint there may be
    /// other copies.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_took_as_long_as_silence_counts_against_a_way() {
        let told = |waited| NotCome::told(waited, "no".to_owned());
        assert_eq!(told(Duration::from_millis(50)), NotCome::Refused("no".to_owned()));
        assert_eq!(told(PATIENCE), NotCome::Silence("no".to_owned()));
    }
}
