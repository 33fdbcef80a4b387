//! Memory of the library's own for pieces of data, aligned for every type of C.

use super::memory::MemoryError;
use std::io;
use zerocopy::{FromZeros, IntoBytes};

const WORD_BYTES: usize = size_of::<u128>();

/// Bytes in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Block {
    words: Vec<u128>,
    length: usize,
}

impl Block {
    /// Keeps what fits; what is new is zero.
    fn resize(&mut self, length: usize) -> Result<(), MemoryError> {
        let words = length.div_ceil(WORD_BYTES);
        let more = self.words.try_reserve_exact(words.saturating_sub(self.words.len()));
        more.map_err(|_| MemoryError::Refused {
            wanted: length as u64,
            error: io::ErrorKind::OutOfMemory.into(),
        })?;
        self.words.resize(words, 0);
        let before = self.length.min(length);
        self.length = length;
        self.bytes_mut()[before..].fill(0);
        Ok(())
    }

    /// Zeroed memory for so many pieces of one size.
    pub(super) fn zeroed_for(pieces: usize, size: usize) -> Result<Self, MemoryError> {
        let bytes = pieces.checked_mul(size);
        let length = bytes.ok_or(MemoryError::NotAddressable { wanted: u64::MAX })?;
        let words = u128::new_vec_zeroed(length.div_ceil(WORD_BYTES));
        let words = words.map_err(|_| MemoryError::Refused {
            wanted: length as u64,
            error: io::ErrorKind::OutOfMemory.into(),
        })?;
        Ok(Self { words, length })
    }

    /// Room for so many pieces of one size.
    pub(super) fn resize_for(&mut self, pieces: usize, size: usize) -> Result<(), MemoryError> {
        let bytes = pieces.checked_mul(size);
        self.resize(bytes.ok_or(MemoryError::NotAddressable { wanted: u64::MAX })?)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.length]
    }
}
