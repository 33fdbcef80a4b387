//! Which blocks of another node's image are here, which are on their way, one by one or together, and which rank waits
//! for which. Sends nothing; says what to ask for. A rank may read what is here: it is never written again.

use super::input::BlockCame;
use crate::moment::Moment;
use crate::parked::BlockSet;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::parked::{Asked, BLOCK_BYTES, BlockRun, IMAGE_BYTES_MAX, RUNS_MAX};
use std::collections::BTreeMap;
use std::time::Duration;

/// Blocks of one image on their way at once: 512 KiB fill a gigabyte a second at half a millisecond, and nothing else
/// on the link waits long behind them.
const WINDOW: usize = 8;

/// A block that no image has: asked for it, its node answers how long the image is.
const BEYOND: u64 = IMAGE_BYTES_MAX / BLOCK_BYTES;

/// Blocks that come together come in such numbers: a block of a bulk transfer is 256 KiB.
pub const TOGETHER_BLOCKS: u64 = (256 << 10) / BLOCK_BYTES;

/// A block that has not come by then is asked for again: its link may have broken.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Requests of restored ranks that wait for one image: each rank has one at a time.
const WAITING_MAX: usize = 4096;

/// Why a block is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Its checksum is another.
    Damaged,
    /// Its length, or the image's, is not what it must be.
    Length,
    /// It was not asked for (any more).
    Unasked,
}

/// A rank that waits for blocks.
#[derive(Debug)]
struct Waiting {
    asker: ProcessId,
    asked: Asked,
    runs: Vec<BlockRun>,
    /// Runs at the beginning that are there.
    done: usize,
}

/// A copy in the making.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Where the image is.
    node: NodeName,
    /// How long it is, once a block of it said so.
    image_bytes: Option<u64>,
    here: BlockSet,
    queue: BlockSet,
    /// Asked for one by one.
    under_way: BTreeMap<u64, Moment>,
    /// Those that come all at once.
    together: BlockSet,
    waiting: Vec<Waiting>,
}

impl Fetch {
    /// Nothing is fetched yet.
    pub(super) fn new(node: NodeName) -> Self {
        Self {
            node,
            image_bytes: None,
            here: BlockSet::default(),
            queue: BlockSet::default(),
            under_way: BTreeMap::new(),
            together: BlockSet::default(),
            waiting: Vec::new(),
        }
    }

    /// Where the image is.
    pub(super) fn node(&self) -> &NodeName {
        &self.node
    }

    /// Fetches all from this node, for the ranks that wait.
    pub(super) fn start_over(&mut self, node: NodeName) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.iter_mut().for_each(|waiting| waiting.done = 0);
        *self = Self {
            waiting,
            ..Self::new(node)
        };
        self.fill_queue();
    }

    /// How long the image is, once a block of it said so.
    pub(super) fn image_bytes(&self) -> Option<u64> {
        self.image_bytes
    }

    /// A rank wants blocks. False when too many wait.
    pub(super) fn want(&mut self, asker: ProcessId, asked: Asked, mut runs: Vec<BlockRun>) -> bool {
        runs.truncate(RUNS_MAX);
        // A rank that asks again has given up its last request.
        self.waiting.retain(|waiting| waiting.asker != asker);
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        let done = 0;
        self.waiting.push(Waiting {
            asker,
            asked,
            runs,
            done,
        });
        self.fill_queue();
        true
    }

    /// Until its node tells the image's length, nobody knows which blocks there are.
    fn fill_queue(&mut self) {
        let Some(bytes) = self.image_bytes else {
            if !self.under_way.contains_key(&BEYOND) {
                self.queue.insert(BEYOND, BEYOND + 1);
            }
            return;
        };
        let mut coming = BlockSet::default();
        self.under_way.keys().for_each(|block| coming.insert(*block, block + 1));
        let together = self.together.runs();
        together.for_each(|run| coming.insert(run.first, run.first + run.count));
        for run in self.waiting.iter().flat_map(|waiting| &waiting.runs) {
            self.queue
                .insert_missing(*run, bytes.div_ceil(BLOCK_BYTES), &self.here, &coming);
        }
    }

    /// Blocks to ask for now.
    pub(super) fn take_asks(&mut self, now: Moment) -> Vec<u64> {
        let mut ask: Vec<u64> = Vec::new();
        for (block, since) in &mut self.under_way {
            if now.since(*since) >= ASK_AGAIN {
                *since = now;
                ask.push(*block);
            }
        }
        while self.under_way.len() < WINDOW
            && let Some(block) = self.queue.pop_first()
        {
            self.under_way.insert(block, now);
            ask.push(block);
        }
        ask
    }

    /// Whether anything is awaited that was asked for.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// A block came; its bytes are to be written. The first says how long the image is.
    pub(super) fn take(&mut self, came: &BlockCame) -> Result<(), Unfit> {
        let &BlockCame { block, image_bytes, .. } = came;
        if !self.under_way.contains_key(&block) {
            return Err(Unfit::Unasked);
        }
        let begin = block.saturating_mul(BLOCK_BYTES);
        let expected = image_bytes.saturating_sub(begin).min(BLOCK_BYTES);
        let is_other = self.image_bytes.is_some_and(|known| known != image_bytes);
        if is_other || image_bytes > IMAGE_BYTES_MAX || came.bytes.len() as u64 != expected {
            return Err(Unfit::Length);
        }
        if !came.is_sound {
            // Asked for again as if it had been lost.
            return Err(Unfit::Damaged);
        }
        self.under_way.remove(&block);
        self.here.insert(block, block + 1);
        if self.image_bytes.is_none() {
            self.image_bytes = Some(image_bytes);
            self.fill_queue();
        }
        Ok(())
    }

    /// Whether anything of an image of known length is wanted and does not come yet.
    pub(super) fn is_queued(&self) -> bool {
        self.image_bytes.is_some() && self.queue.runs().next().is_some()
    }

    /// What is wanted and does not come yet, to come all at once, in whole units.
    pub(super) fn take_together(&mut self) -> Option<BlockSet> {
        let bytes = self.image_bytes.filter(|_| self.is_queued())?;
        for run in std::mem::take(&mut self.queue).runs() {
            let first = run.first / TOGETHER_BLOCKS * TOGETHER_BLOCKS;
            let end = (run.first + run.count).div_ceil(TOGETHER_BLOCKS) * TOGETHER_BLOCKS;
            self.together.insert(first, end.min(bytes.div_ceil(BLOCK_BYTES)));
        }
        Some(self.together.clone())
    }

    /// What was to come all at once is here.
    pub(super) fn came_together(&mut self) {
        let together = std::mem::take(&mut self.together);
        together
            .runs()
            .for_each(|run| self.here.insert(run.first, run.first + run.count));
    }

    /// What was to come all at once does not.
    pub(super) fn came_not(&mut self) {
        self.together = BlockSet::default();
        self.fill_queue();
    }

    /// The image itself is here.
    pub(super) fn came_whole(&mut self, bytes: u64) {
        self.image_bytes = Some(bytes);
        self.here.insert(0, bytes.div_ceil(BLOCK_BYTES));
        self.together = BlockSet::default();
        self.queue = BlockSet::default();
    }

    /// Ranks whose blocks are all there.
    pub(super) fn take_served(&mut self) -> Vec<(ProcessId, Asked)> {
        let Some(bytes) = self.image_bytes else {
            return Vec::new();
        };
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        let here = &self.here;
        let served = self.waiting.extract_if(.., |waiting| {
            let rest = waiting.runs[waiting.done..].iter();
            let is_here =
                |run: &&BlockRun| here.contains_all(run.first, run.first.saturating_add(run.count).min(blocks));
            waiting.done += rest.take_while(is_here).count();
            waiting.done == waiting.runs.len()
        });
        served.map(|waiting| (waiting.asker, waiting.asked)).collect()
    }

    /// All who wait, in vain.
    pub(super) fn take_waiting(&mut self) -> Vec<(ProcessId, Asked)> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_iter()
            .map(|waiting| (waiting.asker, waiting.asked))
            .collect()
    }

    /// Those who wait for another fetch of the image wait for this one.
    pub(super) fn wait_as(&mut self, other: Self) {
        for waiting in other.waiting {
            self.want(waiting.asker, waiting.asked, waiting.runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::Rank;

    const ASKED: Asked = Asked {
        rank: Rank(0),
        number: 1,
    };

    const NOW: Moment = Moment(1_000_000);

    const BYTES: u64 = 20 * BLOCK_BYTES + 7;

    fn fetch(runs: &[(u64, u64)]) -> Fetch {
        let mut fetch = Fetch::new(NodeName::new("a").unwrap());
        let runs = runs.iter().map(|(first, count)| BlockRun {
            first: *first,
            count: *count,
        });
        assert!(fetch.want(ProcessId(9), ASKED, runs.collect()));
        fetch
    }

    /// The same, when the image's length is known.
    fn begun(runs: &[(u64, u64)]) -> Fetch {
        let mut fetch = fetch(runs);
        fetch.take_asks(NOW);
        deliver(&mut fetch, BEYOND).unwrap();
        fetch
    }

    fn contents(block: u64) -> Vec<u8> {
        vec![block as u8; BYTES.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES) as usize]
    }

    fn deliver(fetch: &mut Fetch, block: u64) -> Result<(), Unfit> {
        deliver_as(fetch, block, true, contents(block))
    }

    fn deliver_as(fetch: &mut Fetch, block: u64, is_sound: bool, bytes: Vec<u8>) -> Result<(), Unfit> {
        fetch.take(&BlockCame {
            block,
            image_bytes: BYTES,
            is_sound,
            bytes,
        })
    }

    #[test]
    fn a_window_of_blocks_is_under_way_until_all_that_is_wanted_is_there() {
        let now = NOW;
        let mut fetch = fetch(&[(3, 10), (20, u64::MAX)]);
        assert_eq!(fetch.take_asks(now), [BEYOND], "the image's length is not known yet");
        deliver(&mut fetch, BEYOND).unwrap();
        let mut asked = fetch.take_asks(now);
        assert_eq!(asked, (3..11).collect::<Vec<_>>());
        while let Some(block) = asked.pop() {
            assert!(fetch.take_served().is_empty());
            deliver(&mut fetch, block).unwrap();
            asked.extend(fetch.take_asks(now));
        }
        assert_eq!(fetch.take_served(), [(ProcessId(9), ASKED)]);
        assert!(!fetch.is_busy());
    }

    #[test]
    fn a_block_that_does_not_come_is_asked_for_again_and_a_damaged_one_is_not_taken() {
        let now = NOW;
        let mut fetch = begun(&[(0, 1)]);
        assert_eq!(fetch.take_asks(now), [0]);
        assert_eq!(deliver_as(&mut fetch, 0, false, contents(0)), Err(Unfit::Damaged));
        assert_eq!(deliver_as(&mut fetch, 0, true, Vec::new()), Err(Unfit::Length));
        assert_eq!(deliver_as(&mut fetch, 1, true, contents(0)), Err(Unfit::Unasked));
        assert!(fetch.take_asks(now).is_empty());
        assert_eq!(fetch.take_asks(now.plus(ASK_AGAIN)), [0]);
        deliver(&mut fetch, 0).unwrap();
        assert_eq!(fetch.take_served().len(), 1);
    }

    #[test]
    fn two_ranks_share_what_was_fetched() {
        let now = NOW;
        let mut fetch = begun(&[(0, 2)]);
        assert_eq!(fetch.take_asks(now), [0, 1]);
        deliver(&mut fetch, 0).unwrap();
        let runs = vec![BlockRun { first: 0, count: 3 }];
        assert!(fetch.want(ProcessId(8), ASKED, runs));
        assert_eq!(fetch.take_asks(now), [2]);
        deliver(&mut fetch, 1).unwrap();
        assert_eq!(fetch.take_served(), [(ProcessId(9), ASKED)]);
        assert_eq!(fetch.take_waiting(), [(ProcessId(8), ASKED)]);
    }

    fn runs(blocks: &BlockSet) -> Vec<(u64, u64)> {
        blocks.runs().map(|run| (run.first, run.count)).collect()
    }

    #[test]
    fn what_comes_together_is_not_asked_for_and_what_does_not_come_is_wanted_again() {
        assert!(!fetch(&[(0, 5)]).is_queued(), "how long it is, is asked over the link");
        let mut fetch = begun(&[(0, 5), (13, 2)]);
        assert!(fetch.is_queued());
        assert_eq!(runs(&fetch.take_together().unwrap()), [(0, 8), (12, 4)]);
        assert!(fetch.want(ProcessId(8), ASKED, vec![BlockRun { first: 7, count: 2 }]));
        fetch.came_not();
        assert_eq!(runs(&fetch.take_together().unwrap()), [(0, 16)]);
        assert!(fetch.take_asks(NOW).is_empty() && fetch.take_served().is_empty());
        fetch.came_together();
        assert_eq!(fetch.take_served().len(), 2);
        assert!(!fetch.is_queued());
        assert!(fetch.take_together().is_none() && !fetch.is_busy());
    }

    #[test]
    fn what_is_there_is_not_among_what_comes_together() {
        let mut fetch = begun(&[(3, 2)]);
        assert_eq!(runs(&fetch.take_together().unwrap()), [(0, 8)]);
        fetch.came_together();
        let (rest, all) = (BlockRun { first: 6, count: 3 }, BlockRun { first: 0, count: 99 });
        assert!(fetch.want(ProcessId(8), ASKED, vec![rest]));
        assert_eq!(runs(&fetch.take_together().unwrap()), [(8, 4)]);
        fetch.came_together();
        assert!(fetch.want(ProcessId(8), ASKED, vec![all]));
        assert_eq!(runs(&fetch.take_together().unwrap()), [(12, 9)]);
    }

    #[test]
    fn who_waits_is_served_also_when_it_all_begins_anew() {
        let now = NOW;
        let mut fetch = begun(&[(0, 1), (2, 1)]);
        assert_eq!(fetch.take_asks(now), [0, 2]);
        deliver(&mut fetch, 0).unwrap();
        assert!(fetch.take_served().is_empty());
        fetch.start_over(NodeName::new("b").unwrap());
        assert_eq!(fetch.image_bytes(), None);
        assert_eq!(fetch.take_asks(now), [BEYOND], "the other node's may be another");
        deliver(&mut fetch, BEYOND).unwrap();
        assert_eq!(fetch.take_asks(now), [0, 2]);
        fetch.came_whole(BYTES);
        assert_eq!(fetch.take_served(), [(ProcessId(9), ASKED)]);
    }
}
