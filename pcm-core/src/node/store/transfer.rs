//! Images whose blocks come all at once: what a daemon of this host has is borrowed, and copied in the background where
//! a copy is wanted; memory for what another host has is offered to its daemon, which writes into it what is lacking,
//! over InfiniBand or RoCE where both have it, else and where that fails over TCP. What fails there comes block by
//! block over the link. Never decides what is wanted: `inbound` does.

use super::arrival::{Arrival, State};
use super::effect::StoreEffect;
use super::image_key::ImageKey;
use super::inbound::Inbound;
use super::not_come::NotCome;
use super::route::Route;
use super::step::Step;
use crate::node::links::CopyGoes;
use crate::node::memory::MemoryFile;
use crate::node::outbox::Inward;
use pcm_proto::checkpoint::PartTally;
use pcm_proto::ids::NodeName;
use pcm_proto::image::ImageMessage;
use pcm_proto::parked::BLOCK_BYTES;

/// Images that one node is to write at once, which it does in one thread: a block of each comes within patience where
/// the link carries 0.2 MB/s, and it has room for what sixteen nodes want so. The others wait here.
const OFFERED_MAX: usize = 4;

impl Inbound {
    /// Gets all that is wanted at once, if nothing is on its way yet.
    pub(super) fn fetch_together(&mut self, key: ImageKey, step: &mut Step<'_>) {
        let (now, known) = (step.out.now(), self.arrivals.get(&key));
        let Some(arrival) = known.filter(|arrival| arrival.awaits_offer()) else {
            return;
        };
        let (node, route) = (arrival.fetch.node().clone(), arrival.route.0);
        if self.routes.has_failed(now, &node, route) {
            // Since it was chosen, for another image.
            let (best, why) = self.routes.choose(now, step.around, &node);
            if let Some(arrival) = self.arrivals.get_mut(&key) {
                (arrival.route, arrival.since) = ((best, why.to_owned()), now);
            }
            return self.advance(key, step);
        }
        if route.end().is_some() && self.offered_to(&node) >= OFFERED_MAX {
            return self.look_again(step);
        }
        let Some(arrival) = self.arrivals.get_mut(&key) else {
            return;
        };
        let (Some(lacks), Some(memory)) = (arrival.fetch.take_together(), arrival.memory()) else {
            return;
        };
        let Some(end) = route.end() else {
            return self.borrow_image(key, step);
        };
        let awaited = lacks.runs().map(|run| run.count * BLOCK_BYTES).sum();
        arrival.since = now;
        arrival.state = State::Opening { memory, awaited };
        step.push(StoreEffect::Receive {
            key,
            attempt: arrival.attempt,
            end,
            memory: memory.id,
            lacks,
        });
    }

    /// Images that a node is to write now.
    fn offered_to(&self, node: &NodeName) -> usize {
        let arrivals = self.arrivals.values();
        let offered = arrivals.filter(|arrival| arrival.is_from(node) && arrival.is_offered());
        offered.count()
    }

    /// What was on offer to a node is not any more: the next.
    fn offer_next(&mut self, node: &NodeName, step: &mut Step<'_>) {
        let awaits =
            |arrival: &Arrival| arrival.is_from(node) && arrival.route.0.end().is_some() && arrival.awaits_offer();
        let next = self.arrivals.iter().find(|(_, arrival)| awaits(arrival));
        if let Some(key) = next.map(|(key, _)| *key) {
            self.fetch_together(key, step);
        }
    }

    /// Asks the daemon of this host that has an image to lend it, if nothing is on its way yet.
    pub(super) fn borrow_image(&mut self, key: ImageKey, step: &mut Step<'_>) {
        let Some(arrival) = self.arrivals.get_mut(&key) else {
            return;
        };
        let blocks = match arrival.state {
            State::Unknown => None,
            State::Blocks { memory } => Some(memory),
            _ => return,
        };
        arrival.state = State::Borrowing { blocks };
        step.push(StoreEffect::Borrow {
            key,
            attempt: arrival.attempt,
            node: arrival.fetch.node().clone(),
        });
    }

    /// Memory for an image is on offer: the node that has it is told.
    pub(super) fn on_offered(&mut self, key: ImageKey, attempt: u64, region: [u8; 16], step: &mut Step<'_>) {
        if let Some(arrival) = self.arrival_of(key, attempt)
            && let State::Opening { memory, awaited } = arrival.state
        {
            arrival.state = State::Offered {
                memory,
                awaited,
                region,
            };
            self.say_offered(key, step);
        }
    }

    /// A node is linked, perhaps with a daemon that knows nothing of what is on offer to it.
    pub(super) fn on_linked(&mut self, node: &NodeName, step: &mut Step<'_>) {
        let from_there = self.arrivals.iter().filter(|(_, arrival)| arrival.is_from(node));
        for key in from_there.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.say_offered(key, step);
        }
    }

    fn say_offered(&self, key: ImageKey, step: &mut Step<'_>) {
        let Some(arrival) = self.arrivals.get(&key) else {
            return;
        };
        let at = arrival.route.0.end().and_then(|end| self.routes.address(end));
        if let (State::Offered { region, .. }, Some(at)) = (&arrival.state, at) {
            let region = *region;
            step.say_of_image(arrival.fetch.node(), key, ImageMessage::Put { region, at });
        }
    }

    /// What was to be written into memory here does not come.
    pub(super) fn on_not_put(&mut self, key: ImageKey, refused: [u8; 16], reason: String, step: &mut Step<'_>) {
        let Some(arrival) = self.arrivals.get(&key) else {
            return;
        };
        if matches!(arrival.state, State::Offered { region, .. } if region == refused) {
            let waited = step.out.now().since(arrival.since);
            // Until its transfer is withdrawn another thread may write into the memory: it is not used any more.
            let attempt = arrival.attempt;
            step.push(StoreEffect::Withdraw { attempt });
            self.fetch_otherwise(key, false, NotCome::told(waited, reason), step);
        }
    }

    /// The node that has an image lends it, or does not.
    pub(super) fn on_lent(
        &mut self,
        key: ImageKey,
        attempt: u64,
        lent: Result<MemoryFile, String>,
        step: &mut Step<'_>,
    ) {
        let Some(arrival) = self.arrival_of(key, attempt) else {
            return step.release(lent.ok());
        };
        let State::Borrowing { blocks } = arrival.state else {
            return step.release(lent.ok());
        };
        let memory = match lent {
            Ok(memory) => memory,
            Err(why) => return self.fetch_otherwise(key, true, NotCome::Refused(why), step),
        };
        if !arrival.is_copy() {
            // Ranks only read it, as those of the node that lends it do.
            arrival.fetch.came_whole(memory.bytes);
            arrival.state = State::Whole { memory, tally: None };
            step.release(blocks);
            self.note_arrival(key, step);
            return self.advance(key, step);
        }
        let own = self.memory_for_copy(key.job, memory.bytes, step);
        if let Some(arrival) = self.arrivals.get_mut(&key) {
            let lent = memory;
            arrival.state = State::Copying { blocks, lent, own };
        }
        let (from, into) = (memory.id, own.id);
        step.push(StoreEffect::Copy {
            key,
            attempt,
            from,
            into,
        });
    }

    /// What was to come all at once came, or did not.
    pub(super) fn on_came(
        &mut self,
        key: ImageKey,
        attempt: u64,
        is_memory_left: bool,
        outcome: Result<Option<PartTally>, NotCome>,
        step: &mut Step<'_>,
    ) {
        let Some(arrival) = self.arrival_of(key, attempt) else {
            return;
        };
        let tally = match outcome {
            Ok(tally) if is_memory_left => tally,
            Ok(_) => {
                let why = NotCome::Refused("its memory is gone".to_owned());
                return self.fetch_otherwise(key, false, why, step);
            }
            Err(why) => return self.fetch_otherwise(key, is_memory_left, why, step),
        };
        match arrival.state {
            State::Copying { blocks, lent, own } => {
                arrival.fetch.came_whole(own.bytes);
                arrival.state = State::Whole { memory: own, tally };
                step.release([lent].into_iter().chain(blocks));
            }
            State::Opening { memory, awaited } | State::Offered { memory, awaited, .. } => {
                arrival.fetch.came_together();
                arrival.state = State::Blocks { memory };
                if arrival.route.0 == Route::Bulk {
                    step.out.inward(Inward::CopyMeasured {
                        node: arrival.fetch.node().clone(),
                        goes: CopyGoes::Here,
                        since: arrival.since,
                        bytes: awaited,
                    });
                }
            }
            _ => return,
        }
        let node = arrival.fetch.node().clone();
        self.note_arrival(key, step);
        self.advance(key, step);
        self.offer_next(&node, step);
    }

    fn arrival_of(&mut self, key: ImageKey, attempt: u64) -> Option<&mut Arrival> {
        let known = self.arrivals.get_mut(&key);
        known.filter(|arrival| arrival.attempt == attempt)
    }

    /// An image does not come the way it was to take: over TCP if that may be, else over the link.
    fn fetch_otherwise(&mut self, key: ImageKey, is_memory_left: bool, why: NotCome, step: &mut Step<'_>) {
        // Nothing that is still to come of this try counts; what may still be written by it is not used any more.
        let (now, attempt) = (step.out.now(), self.next_try());
        let Some(arrival) = self.arrivals.get_mut(&key) else {
            return;
        };
        arrival.attempt = attempt;
        let copied = match arrival.state {
            State::Copying { lent, own, .. } => [Some(lent), Some(own)],
            _ => [None; 2],
        };
        step.release(copied.into_iter().flatten());
        match arrival.memory() {
            Some(memory) if is_memory_left || copied[0].is_some() => {
                arrival.state = State::Blocks { memory };
                arrival.fetch.came_not();
            }
            memory => {
                step.release(memory);
                arrival.state = State::Unknown;
                arrival.fetch.start_over(arrival.fetch.node().clone());
            }
        }
        let (route, node) = (arrival.route.0, arrival.fetch.node().clone());
        let why = match why {
            NotCome::Refused(why) => why,
            NotCome::Silence(why) => {
                self.routes.note_failed(now, node.clone(), route);
                why
            }
        };
        let why = format!("{route} did not work: {why}");
        let next = self.routes.next(now, &node, route);
        tracing::warn!(job = %key.job, image = ?key.name, %node, %why, "an image comes another way");
        if let Some(arrival) = self.arrivals.get_mut(&key) {
            (arrival.route, arrival.since) = ((next, why), now);
        }
        self.advance(key, step);
        self.offer_next(&node, step);
    }
}
