//! A mapped file that other processes have, too: whoever reads it gets a copy, made word by word, for any of them may
//! write it meanwhile. There is no reference to what another process could change.

#![allow(unsafe_code, reason = "copies of mapped memory that others write")]

use memmap2::MmapRaw;
use std::{
    ops::{Deref, DerefMut},
    slice,
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
};

const WORD: usize = size_of::<u64>();

/// See the file head.
#[derive(Debug)]
pub struct Mapped(MmapRaw);

impl From<MmapRaw> for Mapped {
    fn from(map: MmapRaw) -> Self {
        Self(map)
    }
}

impl Mapped {
    /// So many bytes are mapped.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// Where it begins, for a device.
    #[must_use]
    pub fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// Copies out what is there now; false when that is not all within the map.
    #[must_use]
    pub fn copy_out(&self, at: usize, into: &mut [u8]) -> bool {
        let is_within = at.checked_add(into.len()).is_some_and(|end| end <= self.0.len());
        if is_within {
            // SAFETY: the range is within the map, which is there as long as `self`.
            unsafe { copy_words(self.0.as_mut_ptr().add(at), into) };
        }
        is_within
    }

    /// For a process that alone writes it.
    ///
    /// # Safety
    /// It is mapped for writing, and no other process writes the file before it is [`Alone::shared`] again.
    #[must_use]
    pub unsafe fn alone(self) -> Alone {
        Alone(self)
    }
}

/// One that no other process writes: its contents, to be read and written where they are.
#[derive(Debug)]
pub struct Alone(Mapped);

impl Alone {
    /// Others may write it from now on.
    #[must_use]
    pub fn shared(self) -> Mapped {
        self.0
    }
}

impl Deref for Alone {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the map is there as long as `self`, has this length, and only `self` is used to write it.
        unsafe { slice::from_raw_parts(self.0.start(), self.0.length()) }
    }
}

impl DerefMut for Alone {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and it is mapped for writing.
        unsafe { slice::from_raw_parts_mut(self.0.0.as_mut_ptr(), self.0.length()) }
    }
}

/// Copies from memory that others may be writing.
///
/// # Safety
/// So many bytes can be read there.
unsafe fn copy_words(mut from: *mut u8, into: &mut [u8]) {
    let odd = from.align_offset(WORD).min(into.len());
    let (first, rest) = into.split_at_mut(odd);
    let (words, last) = rest.as_chunks_mut::<WORD>();
    // SAFETY: the pointer stays within what can be read, and is aligned for words once the first bytes are passed.
    // Loads without order are allowed from memory that is mapped for reading only.
    unsafe {
        for place in first {
            *place = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
            from = from.add(1);
        }
        for place in words {
            *place = AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed).to_ne_bytes();
            from = from.add(WORD);
        }
        for place in last {
            *place = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
            from = from.add(1);
        }
    }
}

/// Fresh memory of this process.
#[cfg(test)]
pub(super) fn zeros(length: usize) -> Alone {
    Alone(Mapped(memmap2::MmapMut::map_anon(length).unwrap().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_within_is_copied_and_none_beyond() {
        const LENGTH: usize = if cfg!(miri) { 20 } else { 100 };
        let mut map = zeros(LENGTH);
        for (at, byte) in map.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let mapped = map.shared();
        for at in 0..=LENGTH {
            for length in 0..=LENGTH {
                let mut into = vec![0xee; length];
                let is_within = at + length <= LENGTH;
                assert_eq!(mapped.copy_out(at, &mut into), is_within);
                let expected: Vec<u8> = (at..at + length)
                    .map(|at| if is_within { at as u8 } else { 0xee })
                    .collect();
                assert_eq!(into, expected, "{length} bytes at {at}");
            }
        }
        assert!(!mapped.copy_out(usize::MAX, &mut [0; 2]));
    }
}
