//! Which blocks of a region are there. Pure; the same on both sides of a transfer.

use super::wire::{BLOCK_LENGTH, REGION_LENGTH_MAX};
use std::ops::Range;

/// The blocks of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    length: u64,
    blocks: u32,
    missing: u32,
    present: Vec<u8>,
}

impl Ledger {
    /// A region of which nothing is there; `None` when it is longer than a region may be.
    pub fn new(length: u64) -> Option<Self> {
        if length > REGION_LENGTH_MAX {
            return None;
        }
        let blocks = u32::try_from(length.div_ceil(BLOCK_LENGTH as u64)).ok()?;
        Some(Self {
            length,
            blocks,
            missing: blocks,
            present: vec![0; usize::try_from(blocks.div_ceil(8)).ok()?],
        })
    }

    /// A region of which everything is there but the blocks that these ranges of its bytes touch.
    pub fn lacking(length: u64, ranges: impl IntoIterator<Item = Range<u64>>) -> Option<Self> {
        let mut wanted = Self::new(length)?;
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            let end = range.end.min(length).div_ceil(BLOCK_LENGTH as u64);
            for block in range.start / BLOCK_LENGTH as u64..end {
                wanted.note(u32::try_from(block).ok()?);
            }
        }
        let mut ledger = Self::new(length)?;
        wanted.missing().for_each(|block| ledger.note(block));
        Some(ledger)
    }

    /// The ledger of a region of `length` bytes as its receiver sent it.
    pub fn from_bytes(length: u64, bytes: &[u8]) -> Option<Self> {
        let mut ledger = Self::new(length)?;
        if bytes.len() != ledger.present.len() {
            return None;
        }
        ledger.present.copy_from_slice(bytes);
        let present: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        let beyond = (ledger.blocks..u32::try_from(bytes.len() * 8).ok()?).any(|block| ledger.has(block));
        ledger.missing = ledger.blocks.checked_sub(present)?;
        (!beyond).then_some(ledger)
    }

    /// As it is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.present
    }

    /// Bytes of the region.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where a block lies.
    pub fn range(&self, block: u32) -> Option<Range<usize>> {
        if block >= self.blocks {
            return None;
        }
        let start = u64::from(block) * BLOCK_LENGTH as u64;
        let end = self.length.min(start + BLOCK_LENGTH as u64);
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Whether a block is there.
    pub fn has(&self, block: u32) -> bool {
        usize::try_from(block / 8)
            .ok()
            .and_then(|at| self.present.get(at))
            .is_some_and(|byte| byte & (1 << (block % 8)) != 0)
    }

    /// Notes that a block is there.
    pub fn note(&mut self, block: u32) {
        if block < self.blocks
            && !self.has(block)
            && let Ok(at) = usize::try_from(block / 8)
        {
            self.present[at] |= 1 << (block % 8);
            self.missing -= 1;
        }
    }

    /// Whether every block is there.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// How many are not there.
    pub fn missing_count(&self) -> u32 {
        self.missing
    }

    /// The blocks that are not there, in order.
    pub fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.blocks).filter(|block| !self.has(*block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_region_cover_it_once() {
        for length in [
            0,
            1,
            BLOCK_LENGTH as u64,
            BLOCK_LENGTH as u64 + 1,
            20 * BLOCK_LENGTH as u64 - 7,
        ] {
            let mut ledger = Ledger::new(length).unwrap();
            let mut at = 0;
            for block in ledger.clone().missing() {
                let range = ledger.range(block).unwrap();
                assert_eq!(range.start, at);
                at = range.end;
                assert!(!ledger.is_complete());
                ledger.note(block);
                ledger.note(block);
            }
            assert_eq!(at as u64, length);
            assert!(ledger.is_complete() && ledger.missing().next().is_none());
        }
    }

    #[test]
    fn only_blocks_that_are_wanted_are_lacking() {
        let block = BLOCK_LENGTH as u64;
        let lacking = |ranges: &[Range<u64>]| {
            let ledger = Ledger::lacking(5 * block + 7, ranges.iter().cloned()).unwrap();
            ledger.missing().collect::<Vec<u32>>()
        };
        assert_eq!(lacking(&[1..2, 2 * block - 1..2 * block + 1]), [0, 1, 2]);
        assert_eq!(lacking(&[5 * block..u64::MAX, 3..3]), [5]);
        assert_eq!(lacking(&[9 * block..u64::MAX, 3..3]), [0_u32; 0]);
    }

    #[test]
    fn a_ledger_from_the_wire_must_fit_its_region() {
        let mut ledger = Ledger::new(10 * BLOCK_LENGTH as u64).unwrap();
        ledger.note(9);
        let bytes = ledger.bytes().to_vec();
        assert_eq!(Ledger::from_bytes(ledger.length(), &bytes), Some(ledger.clone()));
        assert_eq!(Ledger::from_bytes(ledger.length(), &bytes[..1]), None);
        assert_eq!(Ledger::from_bytes(ledger.length(), &[0, 1 << 2]), None);
        assert_eq!(Ledger::new(REGION_LENGTH_MAX + 1), None);
    }
}
