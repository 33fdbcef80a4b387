//! Images whose blocks come all at once: what a daemon of this host has is borrowed ([`super::lending`]), and copied
//! beside the loop where a copy is wanted; memory for what another host has is offered to its daemon, which writes into
//! it what is lacking ([`super::bulk`]), over InfiniBand or RoCE where both have it, else and where that fails over
//! TCP. What fails there comes block by block over the link. Never decides what is wanted: [`super::arrivals`] does.

use super::arrivals::Arrival;
use super::beside::{beside, drop_beside};
use super::bulk::{PATIENCE, Wanted};
use super::copy_ways::Way;
use super::daemon::Daemon;
use super::event::Event;
use super::image_sums;
use super::images::ImageKey;
use super::lending::{self, lending_name};
use super::links::CopyGoes;
use super::memory::Memory;
use pcm_proto::checkpoint::PartTally;
use pcm_proto::ids::NodeName;
use pcm_proto::image::ImageMessage;
use pcm_proto::parked::BLOCK_BYTES;
use std::io;
use std::time::{Duration, Instant};

/// Images that one node is to write at once, which it does in one thread: a block of each comes within patience where
/// the link carries 0.2 MB/s, and it has room for what sixteen nodes want so. The others wait here.
const OFFERED_MAX: usize = 4;

/// Blocks that come all at once.
#[derive(Debug)]
pub(super) enum Together {
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
    /// Gets all that is wanted at once, if nothing is on its way yet.
    pub(super) fn fetch_together(&mut self, key: ImageKey) {
        let known = self.images.arrivals.get(&key);
        let Some(arrival) = known.filter(|arrival| arrival.awaits_offer()) else {
            return;
        };
        let (node, way) = (arrival.fetch.node.clone(), arrival.way);
        if self.has_failed(&node, way) {
            // Since it was chosen, for another image.
            let (best, why) = self.copy_way(&node);
            if let Some(arrival) = self.images.arrivals.get_mut(&key) {
                (arrival.way, arrival.why, arrival.since) = (best, why.to_owned(), Instant::now());
            }
            return self.fetch_on(key);
        }
        let is_full = way.end().is_some() && self.offered_to(&node) >= OFFERED_MAX;
        if is_full {
            return self.look_at_images_again();
        }
        let Some(arrival) = self.images.arrivals.get_mut(&key) else {
            return;
        };
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
    pub(super) fn borrow_image(&mut self, key: ImageKey) {
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
