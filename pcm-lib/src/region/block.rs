//! Memory of the library's own for pieces of data, aligned for every type of C. Large memory lies in a range of
//! addresses in which it can grow at both ends without being copied.
#![allow(unsafe_code, reason = "reads and writes memory that it owns")]

use super::memory::{MemoryError, Place, Storage};
use std::ops::Range;
use std::ptr::NonNull;
use std::{io, slice};
use zerocopy::{FromZeros, IntoBytes};

const WORD_BYTES: usize = size_of::<u128>();

/// From this length on memory can grow in its addresses: a whole number of huge pages.
const LARGE: usize = 2 << 20;

/// Addresses, as a multiple of the length, and at most so many beside it.
const SPREAD: u64 = 16;
const BESIDE_MAX: u64 = 1 << 40;

/// No page is larger.
const PAGE_MAX: usize = 64 << 10;

/// Bytes in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Block {
    memory: Memory,
    /// Bytes in use of those that there are.
    length: usize,
    /// Messages that could not be ended may still read it, or write beside it: it stays as it is.
    is_left: bool,
}

#[derive(Debug)]
enum Memory {
    Small(Vec<u128>),
    Large(Storage),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Memory {
    fn zeroed(length: usize) -> Result<Self, MemoryError> {
        if length < LARGE {
            let words = u128::new_vec_zeroed(length.div_ceil(WORD_BYTES));
            return words.map(Self::Small).map_err(|_| refused(length));
        }
        let bytes = length as u64;
        let beside = match are_addresses_limited() {
            true => 0,
            false => bytes.saturating_mul(SPREAD - 1).min(BESIDE_MAX),
        };
        let place = Place {
            span: bytes.checked_add(beside).ok_or_else(|| refused(length))?,
            offset: beside / 2 / LARGE as u64 * LARGE as u64,
            length: bytes,
        };
        Storage::new(place).map(Self::Large)
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Small(words) => size_of_val(&**words),
            Self::Large(storage) => storage.length(),
        }
    }

    fn first(&self) -> NonNull<u8> {
        match self {
            Self::Small(words) => NonNull::from(&**words).cast(),
            Self::Large(storage) => storage.pointer(),
        }
    }
}

impl Block {
    pub(super) fn zeroed(length: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            memory: Memory::zeroed(length)?,
            length,
            is_left: false,
        })
    }

    /// Zeroed memory for so many pieces of one size.
    pub(super) fn zeroed_for(pieces: usize, size: usize) -> Result<Self, MemoryError> {
        Self::zeroed(bytes_of(pieces, size)?)
    }

    /// Room for so many pieces of one size. Keeps what fits; what is new is zero.
    pub(super) fn resize_for(&mut self, pieces: usize, size: usize) -> Result<(), MemoryError> {
        let length = bytes_of(pieces, size)?;
        let (kept, capacity) = (self.length.min(length), self.memory.capacity());
        if length > capacity && !self.grow(length)? {
            let mut made = Self::zeroed(length)?;
            made.bytes_mut()[..kept].copy_from_slice(&self.bytes()[..kept]);
            *self = made;
            return Ok(());
        }
        self.length = length;
        // Beyond the page in which the old memory ended, what was added is zero.
        let used = capacity.saturating_add(PAGE_MAX).min(length);
        self.bytes_mut()[kept..used].fill(0);
        Ok(())
    }

    /// Adds memory at the end, if that can be; says so.
    fn grow(&mut self, length: usize) -> Result<bool, MemoryError> {
        match &mut self.memory {
            _ if self.is_left => Ok(false),
            Memory::Large(storage) if storage.can_slide(0, length as u64) => {
                storage.prepare_slide(0, length as u64)?;
                storage.slide(0, length as u64);
                Ok(true)
            }
            Memory::Small(words) if length < LARGE => {
                let wanted = length.div_ceil(WORD_BYTES);
                // With room for more: a program may add one piece after the other.
                let more = words.try_reserve(wanted.saturating_sub(words.len()));
                more.map_err(|_| refused(length))?;
                words.resize(wanted, 0);
                Ok(true)
            }
            Memory::Large(_) | Memory::Small(_) => Ok(false),
        }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn first(&self) -> NonNull<u8> {
        self.memory.first()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Small(words) => &words.as_bytes()[..self.length],
            // SAFETY: the memory is open for that length, and borrowed.
            Memory::Large(storage) => unsafe { slice::from_raw_parts(storage.pointer().as_ptr(), self.length) },
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Small(words) => &mut words.as_mut_bytes()[..self.length],
            // SAFETY: as above; it is borrowed mutably.
            Memory::Large(storage) => unsafe { slice::from_raw_parts_mut(storage.pointer().as_ptr(), self.length) },
        }
    }

    /// Opens what it needs to begin `shift` bytes later and to have this length, and says where that will be; none if
    /// there are no addresses. [`Block::slide`] completes it, [`Block::settle`] takes it back.
    pub(super) fn prepare_slide(&mut self, shift: i64, length: usize) -> Result<Option<NonNull<u8>>, MemoryError> {
        match &mut self.memory {
            Memory::Large(storage) if !self.is_left && storage.can_slide(shift, length as u64) => {
                storage.prepare_slide(shift, length as u64).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// It begins later, as was prepared.
    pub(super) fn slide(&mut self, shift: i64, length: usize) {
        if let Memory::Large(storage) = &mut self.memory {
            storage.slide(shift, length as u64);
            self.length = length;
        }
    }

    /// Gives back what was opened beside it.
    pub(super) fn settle(&mut self) {
        if let (Memory::Large(storage), false) = (&mut self.memory, self.is_left) {
            storage.settle();
        }
    }

    /// Leaves its memory, and what was opened beside it, to messages that could not be ended. The bytes stay in use.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    pub(super) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Keeps these ranges of its bytes alone, which rise, side by side, and gives back what they do not need. Not for
    /// memory that was left.
    pub(super) fn keep(&mut self, ranges: impl Iterator<Item = Range<usize>>) {
        let mut ranges = ranges.peekable();
        // Where memory slides, the first range stays where it is.
        let base = match (&self.memory, ranges.peek()) {
            (Memory::Large(_), Some(first)) => first.start,
            _ => 0,
        };
        let bytes = self.bytes_mut();
        let mut end = base;
        for range in ranges {
            let length = range.len();
            if range.start != end {
                bytes.copy_within(range, end);
            }
            end += length;
        }
        self.length = end - base;
        match &mut self.memory {
            Memory::Large(storage) => storage.slide(base as i64, self.length as u64),
            Memory::Small(words) => {
                words.truncate(self.length.div_ceil(WORD_BYTES));
                words.shrink_to_fit();
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_left {
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}

fn bytes_of(pieces: usize, size: usize) -> Result<usize, MemoryError> {
    let bytes = pieces.checked_mul(size);
    bytes.ok_or(MemoryError::NotAddressable { wanted: u64::MAX })
}

fn refused(length: usize) -> MemoryError {
    MemoryError::Refused {
        wanted: length as u64,
        error: io::ErrorKind::OutOfMemory.into(),
    }
}

/// Whether this process may have only so many addresses: then none are kept for later.
fn are_addresses_limited() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As);
    limit.current.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::random::Random;

    #[test]
    fn memory_of_any_length_keeps_what_fits_and_is_zero_beyond() {
        let mut random = Random::new(1);
        let (mut block, mut wanted) = (Block::default(), Vec::new());
        for round in 0..200 {
            let most = if random.below(2) == 0 { 3 * LARGE } else { 40 };
            let length = match random.below(4) {
                0 => random.below(most as u64) as usize,
                1 => wanted.len() + random.below(40) as usize,
                2 => wanted.len().saturating_sub(random.below(most as u64) as usize),
                _ => wanted.len(),
            };
            if random.below(3) == 0 {
                let first = random.below(wanted.len() as u64 + 1) as usize;
                let second = first + random.below((wanted.len() - first) as u64 + 1) as usize;
                let ranges = [0..first / 2, first..second];
                block.keep(ranges.iter().cloned());
                wanted = ranges.into_iter().flat_map(|range| wanted[range].to_vec()).collect();
                assert!(block.bytes() == wanted, "round {round}: {} bytes kept", wanted.len());
            }
            block.resize_for(length, 1).unwrap();
            wanted.resize(length, 0);
            assert!(block.bytes() == wanted, "round {round}: {length} bytes");
            block.bytes_mut().fill(round as u8 + 1);
            wanted.fill(round as u8 + 1);
        }
        assert!(block.resize_for(usize::MAX / 2, 1).is_err() && block.resize_for(usize::MAX, 2).is_err());
        assert!(block.bytes() == wanted);
    }
}
