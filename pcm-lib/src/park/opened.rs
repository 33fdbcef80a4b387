//! An image of an old rank as a restored rank sees it: mapped, its head read, the blocks it uses verified. Never trusts
//! a number in it.
#![allow(unsafe_code, reason = "maps a memory file")]

use super::{RestoreError, sums::of_block};
use memmap2::Mmap;
use pcm_core::parked::{BlockSet, Head, Place, Preamble, blocks_of};
use pcm_proto::{ids::Rank, parked::BLOCK_BYTES};
use std::{fs::File, ops::Range};

/// Blocks asked for first: head and checksums of an image up to 250 MiB are in them.
const FIRST_BLOCKS: u64 = 1;

/// Where images come from.
pub(crate) trait Source {
    /// The memory file with these blocks of an old rank's image.
    fn blocks(&mut self, rank: Rank, blocks: &BlockSet) -> Result<File, RestoreError>;
}

/// See the file head.
#[derive(Debug)]
pub(crate) struct Opened {
    rank: Rank,
    map: Mmap,
    preamble: Preamble,
    pub(super) head: Head,
}

impl Opened {
    /// Gets the beginning of an image.
    pub(crate) fn new(source: &mut dyn Source, rank: Rank) -> Result<Self, RestoreError> {
        let map = fetch(source, rank, FIRST_BLOCKS)?;
        let preamble = Preamble::decode(&map).map_err(RestoreError::Preamble)?;
        let beginning = preamble.data_at().div_ceil(BLOCK_BYTES);
        let map = if beginning > FIRST_BLOCKS {
            fetch(source, rank, beginning)?
        } else {
            map
        };
        let damaged = |what: &str| RestoreError::Damaged {
            rank: rank.0,
            what: what.to_owned(),
        };
        if map.len() as u64 != preamble.image_bytes() {
            return Err(damaged("its length is not what it says"));
        }
        let head = range(preamble.head_at(), preamble.head_bytes).and_then(|range| map.get(range));
        let head = Head::decode(head.ok_or_else(|| damaged("its head is cut"))?).map_err(RestoreError::Head)?;
        if head.rank != rank {
            return Err(damaged("it is another rank's"));
        }
        Ok(Self {
            rank,
            map,
            preamble,
            head,
        })
    }

    /// Gets these bytes of the data too, and verifies the blocks they lie in.
    pub(crate) fn get(&mut self, source: &mut dyn Source, places: &[Place]) -> Result<(), RestoreError> {
        let begin = self.preamble.data_at();
        if places.iter().all(|place| place.length == 0) {
            return Ok(());
        }
        let ranges = places
            .iter()
            .map(|place| (begin.saturating_add(place.offset), place.length));
        // The checksums too: a daemon that began anew has none of what was asked for before.
        let blocks = blocks_of(std::iter::once((0, begin)).chain(ranges));
        let file = source.blocks(self.rank, &blocks)?;
        self.map = map(&file)?;
        if self.map.len() as u64 != self.preamble.image_bytes() {
            return Err(self.damaged("its length changed"));
        }
        if self.preamble.is_summed {
            let first_of_data = begin / BLOCK_BYTES;
            for run in blocks.runs() {
                let end = run.first.saturating_add(run.count);
                (run.first.max(first_of_data)..end).try_for_each(|block| self.verify(block - first_of_data))?;
            }
        }
        Ok(())
    }

    fn verify(&self, block: u64) -> Result<(), RestoreError> {
        let data = &self.map[self.preamble.data_at() as usize..];
        let begin = (block.saturating_mul(BLOCK_BYTES) as usize).min(data.len());
        let bytes = &data[begin..data.len().min(begin + BLOCK_BYTES as usize)];
        let stated = range(self.preamble.sums_at().saturating_add(8 * block), 8).and_then(|range| self.map.get(range));
        let stated = stated.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        if bytes.is_empty() || stated != Some(of_block(bytes)) {
            return Err(self.damaged(&format!("block {block} of its data has another checksum")));
        }
        Ok(())
    }

    /// Bytes of the data, which were got before.
    pub(crate) fn bytes(&self, place: Place) -> Result<&[u8], RestoreError> {
        let begin = self.preamble.data_at().saturating_add(place.offset);
        let bytes = range(begin, place.length).and_then(|range| self.map.get(range));
        bytes.ok_or_else(|| self.damaged("a region lies beyond its end"))
    }

    /// Parked contents of a region.
    pub(crate) fn contents(&self, region: usize) -> Result<&pcm_core::parked::Contents, RestoreError> {
        let region = self.head.regions.get(region);
        region
            .map(|region| &region.contents)
            .ok_or_else(|| self.damaged("a region is missing"))
    }

    pub(crate) fn damaged(&self, what: &str) -> RestoreError {
        RestoreError::Damaged {
            rank: self.rank.0,
            what: what.to_owned(),
        }
    }
}

fn range(begin: u64, length: u64) -> Option<Range<usize>> {
    let begin = usize::try_from(begin).ok()?;
    Some(begin..begin.checked_add(usize::try_from(length).ok()?)?)
}

fn fetch(source: &mut dyn Source, rank: Rank, count: u64) -> Result<Mmap, RestoreError> {
    let mut blocks = BlockSet::default();
    blocks.insert(0, count);
    map(&source.blocks(rank, &blocks)?)
}

fn map(file: &File) -> Result<Mmap, RestoreError> {
    // SAFETY: images are sealed against shrinking and writing; the copy that a daemon makes of one only grows into its
    // holes, and what was asked for is there before the file is handed over.
    unsafe { Mmap::map(file) }.map_err(RestoreError::Map)
}
