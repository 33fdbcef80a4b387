//! Images on their way to this node: copies of parts of checkpoints that it is to hold, a few at a time, and what
//! restored ranks here need of images elsewhere. Never decides where a copy goes, nor what a rank needs.
//!
//! Over the link the other node says how long an image is, and that it is there. Its blocks take the best route
//! ([`super::route`]): all at once ([`super::transfer`]), or, where that cannot be or has failed, block by block over
//! the link.

use super::arrival::{Arrival, CopyOrder, Purpose, State};
use super::buffer_pool::BufferPool;
use super::effect::StoreEffect;
use super::fetch::{ASK_AGAIN, Fetch, Unfit};
use super::image_key::ImageKey;
use super::input::BlockCame;
use super::route::{Route, Routes};
use super::step::Step;
use crate::node::links::CopyGoes;
use crate::node::memory::{MemoryFile, MemoryId};
use crate::node::outbox::Inward;
use crate::node::record::PartKey;
use crate::node::timer::Timer;
use pcm_proto::checkpoint::PartTally;
use pcm_proto::ids::{CheckpointId, Epoch, JobId, NodeName, ProcessId, Rank};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{Asked, BLOCK_BYTES, BlockRun};
use std::collections::{BTreeMap, VecDeque};

/// Stands for this node among those that wait for an image.
const OURSELVES: ProcessId = ProcessId(u32::MAX);

/// Copies made at once; the others wait. With the window of each they bound what copying takes of a link.
const COPIES_AT_ONCE: usize = 2;

/// A copy that is ordered and not begun.
#[derive(Debug)]
struct Ordered {
    part: PartKey,
    from: NodeName,
    copy: CopyOrder,
}

/// A copy of which all is here.
#[derive(Debug)]
pub(super) struct FinishedCopy {
    pub(super) part: PartKey,
    pub(super) copy: CopyOrder,
    pub(super) memory: MemoryFile,
    /// Whether a rank has the memory.
    pub(super) is_handed: bool,
    /// The checksum where it was verified already.
    pub(super) tally: Option<PartTally>,
}

/// All images on their way to this node.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    pub(super) arrivals: BTreeMap<ImageKey, Arrival>,
    queue: VecDeque<Ordered>,
    finished: VecDeque<FinishedCopy>,
    pub(super) routes: Routes,
    pool: BufferPool,
    tries: u64,
    /// Counts memory that was ordered.
    memories: u64,
    is_timer_armed: bool,
}

impl Inbound {
    pub(super) fn routes(&mut self) -> &mut Routes {
        &mut self.routes
    }

    pub(super) fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }

    pub(super) fn take_finished(&mut self) -> Option<FinishedCopy> {
        self.finished.pop_front()
    }

    /// Gets blocks of an image for a rank, from the first of these nodes that has it.
    pub(super) fn fetch_image(
        &mut self,
        key: ImageKey,
        (epoch, mut sources): (Epoch, VecDeque<NodeName>),
        (asker, asked): (ProcessId, Asked),
        runs: Vec<BlockRun>,
        step: &mut Step<'_>,
    ) {
        if !self.arrivals.contains_key(&key)
            && let Some(from) = sources.pop_front()
        {
            let arrival = self.arrival(Fetch::new(from), Purpose::Ranks, epoch, step);
            self.arrivals.insert(key, arrival);
        }
        let is_taken = self.arrivals.get_mut(&key).is_some_and(|arrival| {
            sources.retain(|node| !arrival.is_from(node) && !arrival.others.contains(node));
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
            return step.tell_lost(process, asked, key.attempt(), reason);
        }
        self.advance(key, step);
    }

    /// A part is to be copied from a node, and is not here.
    pub(super) fn order_copy(&mut self, part: PartKey, from: NodeName, copy: CopyOrder, step: &mut Step<'_>) {
        let is_under_way = self.arrivals.get(&part.into()).is_some_and(Arrival::is_copy);
        if !is_under_way && !self.queue.iter().any(|known| known.part == part) {
            self.queue.push_back(Ordered { part, from, copy });
            self.start_copies(step);
        }
    }

    pub(super) fn start_copies(&mut self, step: &mut Step<'_>) {
        let mut count = self.arrivals.values().filter(|arrival| arrival.is_copy()).count();
        while count < COPIES_AT_ONCE
            && let Some(Ordered { part, from, copy }) = self.queue.pop_front()
        {
            count += 1;
            self.copy_image(part.into(), from, copy, step);
        }
    }

    /// Makes a copy of an image, for which ranks may wait already.
    fn copy_image(&mut self, key: ImageKey, from: NodeName, copy: CopyOrder, step: &mut Step<'_>) {
        let epoch = copy.stamp.epoch;
        let mut arrival = self.arrival(Fetch::new(from), Purpose::Copy(copy), epoch, step);
        let all = BlockRun {
            first: 0,
            count: u64::MAX,
        };
        let asked = Asked {
            rank: Rank(0),
            number: 0,
        };
        arrival.fetch.want(OURSELVES, asked, vec![all]);
        if let Some(mut before) = self.arrivals.remove(&key) {
            before.let_go(step);
            arrival.fetch.wait_as(before.fetch);
            arrival.others = before.others;
        }
        self.arrivals.insert(key, arrival);
        self.advance(key, step);
    }

    fn arrival(&mut self, fetch: Fetch, purpose: Purpose, epoch: Epoch, step: &Step<'_>) -> Arrival {
        let (route, why) = self.routes.choose(step.out.now(), step.around, fetch.node());
        Arrival {
            fetch,
            purpose,
            others: VecDeque::new(),
            epoch,
            is_handed: false,
            attempt: self.next_try(),
            route: (route, why.to_owned()),
            since: step.out.now(),
            state: State::Unknown,
        }
    }

    pub(super) fn next_try(&mut self) -> u64 {
        self.tries += 1;
        self.tries
    }

    /// Hands over what has come, and asks for more.
    pub(super) fn advance(&mut self, key: ImageKey, step: &mut Step<'_>) {
        let Some(arrival) = self.arrivals.get_mut(&key) else {
            return;
        };
        let served = arrival.fetch.take_served();
        let is_whole = served.iter().any(|(asker, _)| *asker == OURSELVES);
        if let Some(memory) = arrival.memory() {
            for (process, asked) in served.iter().filter(|(asker, _)| *asker != OURSELVES) {
                arrival.is_handed = true;
                let (job, process) = (key.job, *process);
                step.hand(ProcessKey { job, process }, *asked, key.attempt(), memory);
            }
        }
        let is_by_link = arrival.route.0 == Route::Link;
        if is_by_link && !served.is_empty() {
            self.note_arrival(key, step);
        }
        if is_whole {
            return self.finish(key, step);
        }
        let Some(arrival) = self.arrivals.get_mut(&key) else {
            return;
        };
        if arrival.route.0 == Route::Shared && arrival.is_copy() && arrival.memory().is_none() {
            // What is lent says how long it is, and what is to be copied is there.
            return self.borrow_image(key, step);
        }
        if !is_by_link && arrival.fetch.image_bytes().is_some() {
            return self.fetch_together(key, step);
        }
        let (asks, node) = (arrival.fetch.take_asks(step.out.now()), arrival.fetch.node().clone());
        let is_busy = arrival.fetch.is_busy();
        for block in asks {
            step.say_of_image(&node, key, ImageMessage::Want { block });
        }
        if is_busy {
            self.look_again(step);
        }
    }

    pub(super) fn look_again(&mut self, step: &mut Step<'_>) {
        if !self.is_timer_armed {
            self.is_timer_armed = true;
            step.out.arm(ASK_AGAIN, Timer::Images);
        }
    }

    /// Blocks may have been lost, or there may be room for more offers.
    pub(super) fn on_timer(&mut self, step: &mut Step<'_>) {
        self.is_timer_armed = false;
        for key in self.arrivals.keys().copied().collect::<Vec<_>>() {
            self.advance(key, step);
        }
    }

    /// A block came over the link.
    pub(super) fn on_block(&mut self, key: ImageKey, node: &NodeName, came: BlockCame, step: &mut Step<'_>) {
        let known = self.arrivals.get_mut(&key);
        let Some(arrival) = known.filter(|arrival| arrival.is_from(node)) else {
            return;
        };
        match arrival.fetch.take(&came) {
            Ok(()) => {}
            Err(Unfit::Unasked) => return,
            Err(unfit) => {
                let block = came.block;
                tracing::warn!(%node, block, ?unfit, "a block of an image is not taken and asked for again");
                return;
            }
        }
        let (attempt, is_copy, known) = (arrival.attempt, arrival.is_copy(), arrival.memory());
        let memory = match known {
            Some(memory) => memory,
            None if is_copy => self.memory_for_copy(key.job, came.image_bytes, step),
            None => self.make(came.image_bytes, true, step),
        };
        if known.is_none()
            && let Some(arrival) = self.arrivals.get_mut(&key)
        {
            arrival.begin_blocks(memory);
        }
        let at = came.block.saturating_mul(BLOCK_BYTES);
        if !came.bytes.is_empty() {
            step.push(StoreEffect::Write {
                key,
                attempt,
                memory: memory.id,
                at,
                bytes: came.bytes,
            });
        }
        self.advance(key, step);
    }

    /// Memory for a copy of this length.
    pub(super) fn memory_for_copy(&mut self, job: JobId, bytes: u64, step: &mut Step<'_>) -> MemoryFile {
        match self.pool.take(job, bytes) {
            Ok(spare) => spare,
            Err(outgrown) => {
                step.release(outgrown);
                self.make(bytes, false, step)
            }
        }
    }

    fn make(&mut self, bytes: u64, has_holes: bool, step: &mut Step<'_>) -> MemoryFile {
        self.memories += 1;
        let id = MemoryId::ordered(self.memories);
        let memory = MemoryFile { id, bytes };
        step.push(StoreEffect::Make { memory, has_holes });
        memory
    }

    /// A block could not be written.
    pub(super) fn on_unwritable(&mut self, key: ImageKey, attempt: u64, reason: &str, step: &mut Step<'_>) {
        if let Some(arrival) = self.arrivals.get(&key).filter(|arrival| arrival.attempt == attempt) {
            let node = arrival.fetch.node().clone();
            self.on_gone(key, &node, &format!("no memory for a copy: {reason}"), step);
        }
    }

    pub(super) fn note_arrival(&mut self, key: ImageKey, step: &mut Step<'_>) {
        if let Some(arrival) = self.arrivals.get(&key) {
            let (route, why) = &arrival.route;
            let of = (key.job, arrival.epoch);
            self.routes.note_taken(of, arrival.fetch.node(), (*route, why), step);
        }
    }

    /// All of a copy is here; it counts when its checksums are verified.
    fn finish(&mut self, key: ImageKey, step: &mut Step<'_>) {
        let Some(mut arrival) = self.arrivals.remove(&key) else {
            return;
        };
        let tally = match arrival.state {
            State::Whole { tally, .. } => tally,
            _ => None,
        };
        match (key.name, arrival.memory(), &arrival.purpose) {
            (ImageName::Part { id, rank }, Some(memory), Purpose::Copy(copy)) => {
                if arrival.route.0 == Route::Link {
                    step.out.inward(Inward::CopyMeasured {
                        node: arrival.fetch.node().clone(),
                        goes: CopyGoes::Here,
                        since: arrival.since,
                        bytes: memory.bytes,
                    });
                }
                self.finished.push_back(FinishedCopy {
                    part: (key.job, id, rank),
                    copy: copy.clone(),
                    memory,
                    is_handed: arrival.is_handed,
                    tally,
                });
            }
            _ => arrival.let_go(step),
        }
        self.start_copies(step);
    }

    /// An image cannot be had from where it was fetched: from the next node, or not at all.
    pub(super) fn on_gone(&mut self, key: ImageKey, node: &NodeName, reason: &str, step: &mut Step<'_>) {
        let known = self.arrivals.get(&key);
        if known.is_none_or(|arrival| !arrival.is_from(node)) {
            return;
        }
        let Some(mut before) = self.arrivals.remove(&key) else {
            return;
        };
        before.let_go(step);
        if let Some(next) = before.others.pop_front() {
            let mut arrival = self.arrival(Fetch::new(next), before.purpose, before.epoch, step);
            arrival.others = before.others;
            arrival.fetch.wait_as(before.fetch);
            self.arrivals.insert(key, arrival);
            return self.advance(key, step);
        }
        for (process, asked) in before.fetch.take_waiting() {
            if process != OURSELVES {
                let asker = ProcessKey { job: key.job, process };
                step.tell_lost(asker, asked, key.attempt(), reason.to_owned());
            }
        }
        self.start_copies(step);
    }

    /// A node is gone. What it parked is lost with it, which is for the job's coordinator to say; of a checkpoint there
    /// may be other copies.
    pub(super) fn on_node_gone(&mut self, node: &NodeName, step: &mut Step<'_>) {
        self.queue.retain(|ordered| ordered.from != *node);
        self.routes.forget_node(node);
        let arrivals = self.arrivals.iter();
        let lost = arrivals.filter(|(key, arrival)| key.attempt().is_none() && arrival.is_from(node));
        for key in lost.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.on_gone(key, node, &format!("node {node} is gone"), step);
        }
    }

    /// Images that nothing here needs any more.
    pub(super) fn forget(&mut self, is_over: impl Fn(&ImageKey) -> bool, step: &mut Step<'_>) {
        self.forget_arrivals(|key, _| is_over(key), step);
    }

    /// What processes of a job needed.
    pub(super) fn forget_of_ranks(&mut self, job: JobId, step: &mut Step<'_>) {
        self.forget_arrivals(|key, arrival| key.job == job && !arrival.is_copy(), step);
    }

    /// What restored ranks needed of older checkpoints of a job: they have made this one since.
    pub(super) fn forget_restored(&mut self, job: JobId, settled: CheckpointId, step: &mut Step<'_>) {
        self.forget_arrivals(|key, arrival| !arrival.is_copy() && key.is_older(job, settled), step);
    }

    fn forget_arrivals(&mut self, is_over: impl Fn(&ImageKey, &Arrival) -> bool, step: &mut Step<'_>) {
        for (_, mut arrival) in self.arrivals.extract_if(.., |key, arrival| is_over(key, arrival)) {
            arrival.let_go(step);
        }
    }

    /// Another daemon leads a job: it hears of the copies that are on their way, and orders others.
    pub(super) fn on_led(&mut self, job: JobId, by: &NodeName) {
        self.forget_ordered(|(of, ..)| *of == job);
        let of_job = self.arrivals.iter_mut().filter(|(key, _)| key.job == job);
        for (_, arrival) in of_job {
            if let Purpose::Copy(copy) = &mut arrival.purpose {
                copy.coordinator = by.clone();
            }
        }
    }

    /// Copies that are ordered and not begun, of which these are not needed.
    pub(super) fn forget_ordered(&mut self, is_over: impl Fn(&PartKey) -> bool) {
        self.queue.retain(|ordered| !is_over(&ordered.part));
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::{JobFacts, Surroundings};
    use super::*;
    use crate::moment::Moment;
    use crate::node::outbox::Outbox;
    use crate::node::reach::RdmaReach;
    use pcm_proto::checkpoint::Stamp;
    use pcm_proto::ids::Iteration;

    struct OneOther;

    impl Surroundings for OneOther {
        fn job(&self, _: JobId) -> Option<JobFacts<'_>> {
            None
        }
        fn is_live(&self, _: &NodeName) -> bool {
            true
        }
        fn is_same_host(&self, _: &NodeName) -> bool {
            false
        }
        fn rdma_reach(&self, _: &NodeName) -> RdmaReach {
            RdmaReach::NoDevice
        }
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    /// The daemon that had ordered it answers for itself that the job is over: then everything of the job was dropped.
    #[test]
    fn a_copy_that_is_on_its_way_when_another_leads_the_job_is_told_to_that_one() {
        let mut out = Outbox::new(node("old"), Moment(1));
        let mut step = Step {
            around: &OneOther,
            out: &mut out,
        };
        let mut inbound = Inbound::default();
        let stamp = Stamp {
            id: CheckpointId(1),
            epoch: Epoch(0),
            iteration: Iteration(10),
            ranks: 4,
        };
        for (job, rank) in [(1, 0), (1, 1), (1, 2), (2, 0)] {
            let copy = CopyOrder {
                stamp,
                process: ProcessId(rank),
                coordinator: node("old"),
            };
            let part = (JobId(job), stamp.id, Rank(rank));
            inbound.order_copy(part, node("other"), copy, &mut step);
        }
        inbound.on_led(JobId(1), &node("heir"));
        let told = inbound.arrivals.values().map(|arrival| match &arrival.purpose {
            Purpose::Copy(copy) => copy.coordinator.clone(),
            Purpose::Ranks => panic!("no rank waits"),
        });
        assert_eq!(told.collect::<Vec<_>>(), [node("heir"), node("heir")]);
        let waiting: Vec<JobId> = inbound.queue.iter().map(|ordered| ordered.part.0).collect();
        assert_eq!(waiting, [JobId(2)], "the heir orders what was not begun");
    }
}
