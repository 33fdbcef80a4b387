//! Where rows or records that come from several ranks belong in memory that is not live before the commit: beside what
//! the rank keeps, or in new memory. The places are known when all have said how much they give.
#![allow(unsafe_code, reason = "copies what a rank keeps into new memory")]

use super::HookFailed;
use super::block::Block;
use super::lent::Pieces;
use super::memory::MemoryError;
use std::ops::Range;
use std::ptr::NonNull;

/// Bytes of a number in what is packed.
pub(super) const NUMBER_BYTES: usize = size_of::<u64>();

/// See the file head.
#[derive(Debug)]
pub(crate) struct Landing {
    /// In the order of their entries.
    parts: Vec<Part>,
    /// Bytes of an entry in each column.
    sizes: Vec<usize>,
    targets: Vec<Target>,
    state: State,
}

/// What one rank gives.
#[derive(Debug)]
struct Part {
    /// The rows of which it tells the lengths first; none of records.
    rows: Option<Range<u64>>,
    /// It is what this rank keeps.
    is_own: bool,
    /// Bytes that come.
    length: Option<u64>,
    head: Block,
    entries: usize,
    pieces: Pieces,
}

/// What becomes of a column.
#[derive(Debug)]
enum Target {
    /// Nothing comes: what is kept moves together at the commit.
    Kept,
    /// What comes is beside what is kept, which stays where it is.
    Slides { shift: i64, length: usize },
    /// Beside what is live, all of it new.
    Fresh(Block),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not all have said how much they give.
    Waiting,
    Ready,
    /// Nothing of it is of interest any more.
    GivenUp,
}

/// Why there are no places.
#[derive(Debug)]
pub(crate) enum NotLanded {
    /// What is said to come is not what can come.
    Damaged(HookFailed),
    Memory(MemoryError),
}

impl From<MemoryError> for NotLanded {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl Landing {
    /// Of each rank that gives something: its rows, if there are heads, and whether it is this one.
    pub(super) fn new(parts: impl Iterator<Item = (Option<Range<u64>>, bool)>, sizes: Vec<usize>) -> Self {
        let part = |(rows, is_own)| Part {
            rows,
            is_own,
            length: None,
            head: Block::default(),
            entries: 0,
            pieces: Pieces::default(),
        };
        Self {
            parts: parts.map(part).collect(),
            sizes,
            targets: Vec::new(),
            state: State::Waiting,
        }
    }

    pub(crate) fn has_own(&self) -> bool {
        self.parts.iter().any(|part| part.is_own)
    }

    pub(crate) fn length(&self, part: usize) -> Option<u64> {
        self.parts[part].length
    }

    pub(crate) fn on_length(&mut self, part: usize, length: u64) {
        self.parts[part].length = Some(length);
    }

    /// Whether all lengths are known and places are not.
    pub(crate) fn is_due(&self) -> bool {
        let is_known = |part: &Part| part.is_own || part.length.is_some();
        self.state == State::Waiting && self.parts.iter().all(is_known)
    }

    /// Whether what comes may be received: into its place, or to be forgotten.
    pub(crate) fn is_open(&self) -> bool {
        self.state != State::Waiting
    }

    pub(crate) fn give_up(&mut self) {
        if self.state == State::Waiting {
            self.state = State::GivenUp;
        }
    }

    /// Where the bytes of a part belong.
    pub(crate) fn pieces(&self, part: usize) -> &Pieces {
        &self.parts[part].pieces
    }

    /// All lengths are known: finds the places, and takes the memory. `kept` are the entries that this rank keeps.
    pub(super) fn land(
        &mut self,
        blocks: &mut [Block],
        kept: impl Iterator<Item = Range<usize>>,
    ) -> Result<(), NotLanded> {
        let kept = Kept::of(kept);
        let is_damaged = || NotLanded::Damaged(damaged());
        let (mut place, mut total) = (0, 0_usize);
        for part in &mut self.parts {
            if part.is_own {
                (place, part.entries) = (total, kept.entries);
            } else {
                let (head, entries) = part.measured(&self.sizes).ok_or_else(is_damaged)?;
                (part.head, part.entries) = (Block::zeroed(head)?, entries);
            }
            total = total.checked_add(part.entries).ok_or_else(is_damaged)?;
        }
        let has_more = total > kept.entries;
        let mut firsts = Vec::new();
        for (block, size) in blocks.iter_mut().zip(&self.sizes) {
            let (target, first) = Target::of(block, *size, &kept, (place, total), has_more)?;
            self.targets.push(target);
            firsts.push(first);
        }
        let mut place = 0;
        for part in &mut self.parts {
            if !part.is_own {
                part.pieces.add(part.head.first(), part.head.length());
                for (first, size) in firsts.iter().zip(&self.sizes).filter(|_| part.entries > 0) {
                    // SAFETY: the memory is as long as all parts together.
                    let first = unsafe { first.add(place * size) };
                    part.pieces.add(first, part.entries * size);
                }
            }
            place += part.entries;
        }
        self.state = State::Ready;
        Ok(())
    }

    /// All is here: what is kept is copied where it does not stay in its place.
    pub(super) fn copy_kept(&mut self, blocks: &[Block], kept: impl Iterator<Item = Range<usize>> + Clone) {
        let before = self.parts.iter().take_while(|part| !part.is_own);
        let place: usize = before.map(|part| part.entries).sum();
        for ((target, block), size) in self.targets.iter_mut().zip(blocks).zip(&self.sizes) {
            let Target::Fresh(fresh) = target else {
                continue;
            };
            let mut at = place * size;
            for range in kept.clone() {
                let bytes = &block.bytes()[range.start * size..range.end * size];
                // SAFETY: the range lies in the new memory, and what comes lies beside it.
                unsafe {
                    fresh
                        .first()
                        .add(at)
                        .as_ptr()
                        .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
                };
                at += bytes.len();
            }
        }
    }

    /// The lengths of all rows that come, in their order; `own` are those of the kept ones.
    pub(super) fn lengths(&self, own: impl Iterator<Item = usize>) -> Result<Vec<usize>, HookFailed> {
        let mut own = Some(own);
        let mut lengths = Vec::new();
        for part in &self.parts {
            let first = lengths.len();
            match own.take_if(|_| part.is_own) {
                Some(own) => lengths.extend(own),
                None => lengths.extend(part.told().ok_or_else(damaged)?),
            }
            let sum = lengths[first..]
                .iter()
                .try_fold(0_usize, |sum, length| sum.checked_add(*length));
            if sum != Some(part.entries) {
                return Err(damaged());
            }
        }
        Ok(lengths)
    }

    /// What is here becomes the data.
    pub(super) fn commit(self, blocks: &mut [Block], kept: impl Iterator<Item = Range<usize>> + Clone) {
        for ((target, block), size) in self.targets.into_iter().zip(blocks).zip(self.sizes) {
            match target {
                Target::Kept => block.keep(kept.clone().map(|range| range.start * size..range.end * size)),
                Target::Slides { shift, length } => block.slide(shift, length),
                Target::Fresh(fresh) => *block = fresh,
            }
        }
    }
}

impl Part {
    /// Bytes of the head, and how many entries come behind it; none if that is not a whole number.
    fn measured(&self, sizes: &[usize]) -> Option<(usize, usize)> {
        let rows = self.rows.as_ref().map(|rows| rows.end - rows.start);
        let numbers = rows.map_or(0, |rows| match rows {
            0 => 1,
            rows => 3 + rows,
        });
        let head = usize::try_from(numbers).ok()?.checked_mul(NUMBER_BYTES)?;
        let bytes = usize::try_from(self.length?).ok()?.checked_sub(head)?;
        let of_all = sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size))?;
        let entries = bytes.checked_div(of_all)?;
        (entries * of_all == bytes).then_some((head, entries))
    }

    /// The lengths of its rows; none if it tells of other rows.
    fn told(&self) -> Option<impl Iterator<Item = usize>> {
        let (words, rest) = self.head.bytes().as_chunks::<NUMBER_BYTES>();
        let rows = self.rows.clone()?;
        let wanted: &[u64] = match rows.is_empty() {
            true => &[0],
            false => &[1, rows.start, rows.end - rows.start],
        };
        let number = |word: &[u8; NUMBER_BYTES]| u64::from_le_bytes(*word);
        let (told, lengths) = words.split_at_checked(wanted.len())?;
        let is_so = rest.is_empty() && told.iter().map(number).eq(wanted.iter().copied());
        is_so.then(|| {
            lengths
                .iter()
                .map(move |word| usize::try_from(number(word)).unwrap_or(usize::MAX))
        })
    }
}

/// What a rank keeps, in entries.
struct Kept {
    entries: usize,
    /// Where it is, if it lies side by side.
    whole: Option<Range<usize>>,
}

impl Kept {
    fn of(ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let (mut entries, mut whole, mut is_whole) = (0, None::<Range<usize>>, true);
        for range in ranges.filter(|range| !range.is_empty()) {
            entries += range.len();
            whole = Some(match whole {
                None => range,
                Some(known) => {
                    is_whole &= known.end == range.start;
                    known.start..range.end
                }
            });
        }
        let whole = whole.filter(|_| is_whole);
        Self { entries, whole }
    }
}

impl Target {
    /// Takes the memory for `total` entries, of which those that are kept come at a place; says where the first one is.
    fn of(
        block: &mut Block,
        size: usize,
        kept: &Kept,
        (place, total): (usize, usize),
        has_more: bool,
    ) -> Result<(Self, NonNull<u8>), MemoryError> {
        if !has_more && !block.is_left() {
            return Ok((Self::Kept, block.first()));
        }
        let length = total
            .checked_mul(size)
            .ok_or(MemoryError::NotAddressable { wanted: u64::MAX })?;
        if let Some(kept) = &kept.whole {
            // What comes must not land on what is there until the commit.
            let is_free =
                (place == 0 || kept.start == 0) && (place + kept.len() == total || kept.end * size == block.length());
            let shift = (kept.start as i64 - place as i64) * size as i64;
            if let Some(first) = is_free
                .then(|| block.prepare_slide(shift, length))
                .transpose()?
                .flatten()
            {
                return Ok((Self::Slides { shift, length }, first));
            }
        }
        let fresh = Block::zeroed(length)?;
        let first = fresh.first();
        Ok((Self::Fresh(fresh), first))
    }
}

pub(super) fn damaged() -> HookFailed {
    HookFailed::because("what was packed of the rows is damaged")
}

#[cfg(test)]
mod tests;
