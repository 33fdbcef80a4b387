//! A copy of another node's image, fetched block by block into a memory file with holes: which blocks are there, which
//! are on their way, who waits for which. Never talks to anybody; says what to ask for.

use super::memory::{empty_file, set_length};
use pcm_core::parked::BlockSet;
use pcm_proto::ids::{NodeName, ProcessId, Rank};
use pcm_proto::parked::{BLOCK_BYTES, BlockRun, IMAGE_BYTES_MAX, RUNS_MAX};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Blocks of one image on their way at once: 512 KiB fill a gigabyte a second at half a millisecond, and nothing else on
/// the link waits long behind them.
const WINDOW: usize = 8;

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
    rank: Rank,
    runs: Vec<BlockRun>,
    /// Runs at the beginning that are there.
    done: usize,
}

/// A copy in the making.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Where the image is.
    pub(super) node: NodeName,
    pub(super) file: File,
    image_bytes: Option<u64>,
    here: BlockSet,
    queue: BlockSet,
    under_way: BTreeMap<u64, Instant>,
    waiting: Vec<Waiting>,
}

impl Fetch {
    /// Nothing is fetched yet.
    pub(super) fn new(node: NodeName) -> io::Result<Self> {
        Ok(Self {
            node,
            file: empty_file("pcm-fetched")?,
            image_bytes: None,
            here: BlockSet::default(),
            queue: BlockSet::default(),
            under_way: BTreeMap::new(),
            waiting: Vec::new(),
        })
    }

    /// How long the image is, once a block of it said so.
    pub(super) fn image_bytes(&self) -> Option<u64> {
        self.image_bytes
    }

    /// A rank wants blocks. False when too many wait.
    pub(super) fn want(&mut self, asker: ProcessId, rank: Rank, mut runs: Vec<BlockRun>) -> bool {
        runs.truncate(RUNS_MAX);
        // A rank that asks again has given up its last request.
        self.waiting.retain(|waiting| waiting.asker != asker);
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        let done = 0;
        self.waiting.push(Waiting {
            asker,
            rank,
            runs,
            done,
        });
        self.fill_queue();
        true
    }

    /// Until the first block tells the image's length, nobody knows which blocks there are.
    fn fill_queue(&mut self) {
        let Some(bytes) = self.image_bytes else {
            if !self.under_way.contains_key(&0) {
                self.queue.insert(0, 1);
            }
            return;
        };
        let mut coming = BlockSet::default();
        self.under_way.keys().for_each(|block| coming.insert(*block, block + 1));
        for run in self.waiting.iter().flat_map(|waiting| &waiting.runs) {
            self.queue
                .insert_missing(*run, bytes.div_ceil(BLOCK_BYTES), &self.here, &coming);
        }
    }

    /// Blocks to ask for now.
    pub(super) fn take_asks(&mut self, now: Instant) -> Vec<u64> {
        let mut ask: Vec<u64> = Vec::new();
        for (block, since) in &mut self.under_way {
            if now.saturating_duration_since(*since) >= ASK_AGAIN {
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

    /// Whether anything is awaited.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// A block came.
    pub(super) fn take(
        &mut self,
        block: u64,
        image_bytes: u64,
        checksum: u64,
        bytes: &[u8],
    ) -> io::Result<Result<(), Unfit>> {
        if !self.under_way.contains_key(&block) {
            return Ok(Err(Unfit::Unasked));
        }
        let begin = block.saturating_mul(BLOCK_BYTES);
        let expected = image_bytes.saturating_sub(begin).min(BLOCK_BYTES);
        let is_other = self.image_bytes.is_some_and(|known| known != image_bytes);
        if is_other || image_bytes > IMAGE_BYTES_MAX || bytes.len() as u64 != expected {
            return Ok(Err(Unfit::Length));
        }
        if block_checksum(bytes) != checksum {
            // Asked for again as if it had been lost.
            return Ok(Err(Unfit::Damaged));
        }
        if self.image_bytes.is_none() {
            set_length(&self.file, image_bytes)?;
            self.image_bytes = Some(image_bytes);
            self.here.insert(block, block + 1);
            self.fill_queue();
        }
        self.file.write_all_at(bytes, begin)?;
        self.under_way.remove(&block);
        self.here.insert(block, block + 1);
        Ok(Ok(()))
    }

    /// Ranks whose blocks are all there, with the image's length.
    pub(super) fn take_served(&mut self) -> Vec<(ProcessId, Rank, u64)> {
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
        served.map(|waiting| (waiting.asker, waiting.rank, bytes)).collect()
    }

    /// All who wait, in vain.
    pub(super) fn take_waiting(&mut self) -> Vec<(ProcessId, Rank)> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_iter()
            .map(|waiting| (waiting.asker, waiting.rank))
            .collect()
    }
}

/// The checksum that goes with a block.
pub(super) fn block_checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 20 * BLOCK_BYTES + 7;

    fn fetch(runs: &[(u64, u64)]) -> Fetch {
        let mut fetch = Fetch::new(NodeName::new("a").unwrap()).unwrap();
        let runs = runs.iter().map(|(first, count)| BlockRun {
            first: *first,
            count: *count,
        });
        assert!(fetch.want(ProcessId(9), Rank(0), runs.collect()));
        fetch
    }

    fn contents(block: u64) -> Vec<u8> {
        vec![block as u8; (BYTES - block * BLOCK_BYTES).min(BLOCK_BYTES) as usize]
    }

    fn deliver(fetch: &mut Fetch, block: u64) -> Result<(), Unfit> {
        let bytes = contents(block);
        fetch.take(block, BYTES, block_checksum(&bytes), &bytes).unwrap()
    }

    #[test]
    fn a_window_of_blocks_is_under_way_until_all_that_is_wanted_is_there() {
        let now = Instant::now();
        let mut fetch = fetch(&[(3, 10), (20, u64::MAX)]);
        assert_eq!(fetch.take_asks(now), [0], "the image's length is not known yet");
        deliver(&mut fetch, 0).unwrap();
        let mut asked = fetch.take_asks(now);
        assert_eq!(asked, (3..11).collect::<Vec<_>>());
        while let Some(block) = asked.pop() {
            assert!(fetch.take_served().is_empty());
            deliver(&mut fetch, block).unwrap();
            asked.extend(fetch.take_asks(now));
        }
        assert_eq!(fetch.take_served(), [(ProcessId(9), Rank(0), BYTES)]);
        assert!(!fetch.is_busy());
        let mut last = [0; 7];
        fetch.file.read_exact_at(&mut last, 20 * BLOCK_BYTES).unwrap();
        assert_eq!(last, [20; 7]);
    }

    #[test]
    fn a_block_that_does_not_come_is_asked_for_again_and_a_damaged_one_is_not_taken() {
        let now = Instant::now();
        let mut fetch = fetch(&[(0, 1)]);
        assert_eq!(fetch.take_asks(now), [0]);
        let bytes = contents(0);
        assert_eq!(fetch.take(0, BYTES, 1, &bytes).unwrap(), Err(Unfit::Damaged));
        assert_eq!(
            fetch.take(0, BYTES, block_checksum(b""), b"").unwrap(),
            Err(Unfit::Length)
        );
        assert_eq!(
            fetch.take(1, BYTES, block_checksum(&bytes), &bytes).unwrap(),
            Err(Unfit::Unasked)
        );
        assert!(fetch.take_asks(now).is_empty());
        assert_eq!(fetch.take_asks(now + ASK_AGAIN), [0]);
        deliver(&mut fetch, 0).unwrap();
        assert_eq!(fetch.take_served().len(), 1);
    }

    #[test]
    fn two_ranks_share_what_was_fetched() {
        let now = Instant::now();
        let mut fetch = fetch(&[(0, 2)]);
        fetch.take_asks(now);
        deliver(&mut fetch, 0).unwrap();
        assert_eq!(fetch.take_asks(now), [1]);
        let runs = vec![BlockRun { first: 0, count: 3 }];
        assert!(fetch.want(ProcessId(8), Rank(0), runs));
        assert_eq!(fetch.take_asks(now), [2]);
        deliver(&mut fetch, 1).unwrap();
        assert_eq!(fetch.take_served(), [(ProcessId(9), Rank(0), BYTES)]);
        assert_eq!(fetch.take_waiting(), [(ProcessId(8), Rank(0))]);
    }
}
