//! Sets of blocks of an image: what a rank needs, what a daemon has fetched.

use pcm_proto::parked::{BLOCK_BYTES, BlockRun, RUNS_MAX};
use std::collections::BTreeMap;

/// A set of blocks as disjoint runs that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSet {
    /// First block of each run, and one past its last.
    runs: BTreeMap<u64, u64>,
}

impl BlockSet {
    /// Adds the blocks from `first` to before `end`.
    pub fn insert(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let (mut first, mut end) = (first, end);
        while let Some((&known_first, &known_end)) = self.runs.range(..=end).next_back().filter(|(_, e)| **e >= first) {
            first = first.min(known_first);
            end = end.max(known_end);
            self.runs.remove(&known_first);
        }
        self.runs.insert(first, end);
    }

    /// Whether a block is in it.
    pub fn contains(&self, block: u64) -> bool {
        self.runs
            .range(..=block)
            .next_back()
            .is_some_and(|(_, end)| block < *end)
    }

    /// Whether all blocks from `first` to before `end` are in it.
    pub fn contains_all(&self, first: u64, end: u64) -> bool {
        first >= end
            || self
                .runs
                .range(..=first)
                .next_back()
                .is_some_and(|(_, known)| end <= *known)
    }

    /// The first block from `from` on that is not in it.
    pub fn first_missing(&self, from: u64) -> u64 {
        match self.runs.range(..=from).next_back() {
            Some((_, end)) if from < *end => *end,
            _ => from,
        }
    }

    /// Takes its first block out.
    pub fn pop_first(&mut self) -> Option<u64> {
        let (first, end) = self.runs.pop_first()?;
        self.insert(first + 1, end);
        Some(first)
    }

    /// Adds those blocks of a run, up to before `limit`, that neither `known` nor `other` has.
    pub fn insert_missing(&mut self, run: BlockRun, limit: u64, known: &Self, other: &Self) {
        let end = run.first.saturating_add(run.count).min(limit);
        let mut block = run.first;
        while block < end {
            let next = known.first_missing(other.first_missing(block));
            if next == block {
                // As far as neither has any.
                let stop = known.next_from(block).min(other.next_from(block)).min(end);
                self.insert(block, stop);
                block = stop;
            } else {
                block = next;
            }
        }
    }

    /// The first block from `from` on that is in it, or the largest number.
    fn next_from(&self, from: u64) -> u64 {
        if self.contains(from) {
            return from;
        }
        self.runs.range(from..).next().map_or(u64::MAX, |(first, _)| *first)
    }

    /// Its runs in order.
    pub fn runs(&self) -> impl Iterator<Item = BlockRun> + '_ {
        self.runs.iter().map(|(first, end)| BlockRun {
            first: *first,
            count: end - first,
        })
    }

    /// Fills the smallest gaps until there are at most `runs_max` runs.
    fn coarsen(&mut self, runs_max: usize) {
        let excess = self.runs.len().saturating_sub(runs_max);
        if excess == 0 {
            return;
        }
        let ends = self.runs.values();
        let firsts = self.runs.keys().skip(1);
        let mut gaps: Vec<(u64, u64, u64)> = ends
            .zip(firsts)
            .map(|(end, first)| (first - end, *end, *first))
            .collect();
        gaps.sort_unstable();
        for (_, end, first) in gaps.into_iter().take(excess) {
            self.insert(end, first);
        }
    }
}

/// The blocks in which these bytes of an image lie: (first byte, number of bytes). At most [`RUNS_MAX`] runs.
pub fn blocks_of(ranges: impl IntoIterator<Item = (u64, u64)>) -> BlockSet {
    let mut set = BlockSet::default();
    // Neighbours come one after the other as a rule; joining them here keeps the set out of the way.
    let mut open: Option<(u64, u64)> = None;
    for (offset, length) in ranges.into_iter().filter(|(_, length)| *length > 0) {
        let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        open = match open {
            Some((known, until)) if first >= known && first <= until => Some((known, until.max(end))),
            Some((known, until)) => {
                set.insert(known, until);
                Some((first, end))
            }
            None => Some((first, end)),
        };
    }
    if let Some((first, end)) = open {
        set.insert(first, end);
    }
    set.coarsen(RUNS_MAX);
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(set: &BlockSet) -> Vec<(u64, u64)> {
        set.runs().map(|run| (run.first, run.count)).collect()
    }

    #[test]
    fn runs_that_touch_are_one() {
        let mut set = BlockSet::default();
        set.insert(4, 6);
        set.insert(0, 2);
        set.insert(2, 4);
        assert_eq!(runs(&set), [(0, 6)]);
        set.insert(9, 9);
        assert_eq!(runs(&set), [(0, 6)]);
    }

    #[test]
    fn blocks_come_out_one_by_one_and_only_missing_ones_go_in() {
        let (mut known, mut other, mut queue) = (BlockSet::default(), BlockSet::default(), BlockSet::default());
        known.insert(2, 4);
        other.insert(5, 6);
        queue.insert_missing(BlockRun { first: 1, count: 9 }, 8, &known, &other);
        assert_eq!(runs(&queue), [(1, 1), (4, 1), (6, 2)]);
        assert_eq!(
            std::iter::from_fn(|| queue.pop_first()).collect::<Vec<_>>(),
            [1, 4, 6, 7]
        );
    }

    #[test]
    fn bytes_are_asked_for_in_whole_blocks() {
        let set = blocks_of([
            (0, 1),
            (BLOCK_BYTES - 1, 2),
            (5 * BLOCK_BYTES, BLOCK_BYTES),
            (9 * BLOCK_BYTES, 0),
        ]);
        assert_eq!(runs(&set), [(0, 2), (5, 1)]);
    }

    #[test]
    fn too_many_runs_swallow_the_smallest_gaps() {
        let step = |n: u64| if n % 10 == 9 { 9 * BLOCK_BYTES } else { 0 };
        let mut at = 0;
        let ranges: Vec<(u64, u64)> = (0..10_000)
            .map(|n| {
                at += 2 * BLOCK_BYTES + step(n);
                (at, 1)
            })
            .collect();
        let set = blocks_of(ranges.clone());
        assert!(set.runs().count() <= RUNS_MAX);
        assert!(ranges.iter().all(|(offset, _)| set.contains(offset / BLOCK_BYTES)));
        assert_eq!(
            set.runs().map(|run| run.count).filter(|count| *count > 30).count(),
            0,
            "a large gap was filled"
        );
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_put_in_and_nothing_else(
            pairs in proptest::collection::vec((0_u64..200, 0_u64..20), 0..40),
        ) {
            let mut set = BlockSet::default();
            let mut model = std::collections::BTreeSet::new();
            for (first, count) in pairs {
                set.insert(first, first + count);
                model.extend(first..first + count);
            }
            for block in 0..230 {
                prop_assert_eq!(set.contains(block), model.contains(&block));
                prop_assert_eq!(set.first_missing(block), (block..).find(|b| !model.contains(b)).unwrap());
            }
            prop_assert!(set.runs().zip(set.runs().skip(1)).all(|(a, b)| a.first + a.count < b.first));
        }
    }
}
