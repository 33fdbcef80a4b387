//! A range of addresses of which parts can be opened (readable and writable, zero) and closed again (given back to the
//! system). Never touches the bytes.
#![allow(unsafe_code, reason = "maps memory")]

use super::{MemoryError, unmade::Unmade};
use std::{io, ops::Range, ptr::NonNull, sync::OnceLock};

/// Size of a huge page: the base is a multiple of it, so that the kernel can use them inside.
const HUGE_PAGE: usize = 2 << 20;

/// Addresses that belong to nobody else until dropped.
///
/// It calls libc rather than the kernel: memory hooks of network libraries (UCX) watch those symbols to forget
/// registrations of pages that are given back.
#[derive(Debug)]
pub(super) struct Reservation {
    /// What `mmap` gave, and its length.
    map: NonNull<libc::c_void>,
    map_length: usize,
    /// Bytes before the aligned base.
    lead: usize,
    length: usize,
}

// SAFETY: the addresses are owned; nothing about them belongs to a thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Reserves addresses; no memory is used yet.
    pub(super) fn new(length: usize) -> Result<Self, MemoryError> {
        let refused = |error| MemoryError::Refused {
            wanted: length as u64,
            error,
        };
        let length_padded = length.max(1).checked_next_multiple_of(page_size());
        let map_length = length_padded.and_then(|padded| padded.checked_add(HUGE_PAGE));
        let (Some(padded), Some(map_length)) = (length_padded, map_length) else {
            return Err(MemoryError::NotAddressable { wanted: length as u64 });
        };
        // SAFETY: a new mapping at a place the kernel chooses.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), map_length, libc::PROT_NONE, FLAGS, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(refused(io::Error::last_os_error()));
        }
        let map = NonNull::new(map).ok_or_else(|| refused(io::Error::from_raw_os_error(libc::ENOMEM)))?;
        Ok(Self {
            map,
            map_length,
            lead: map.as_ptr().addr().next_multiple_of(HUGE_PAGE) - map.as_ptr().addr(),
            length: padded,
        })
    }

    /// The first address.
    pub(super) fn base(&self) -> NonNull<u8> {
        // SAFETY: the lead is shorter than the mapping by at least the length.
        unsafe { self.map.cast::<u8>().add(self.lead) }
    }

    /// Bytes from the base, whole pages.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Makes pages usable; those not open before are zero. `range` is one of whole pages.
    pub(super) fn open(&mut self, range: &Range<usize>) -> Result<(), MemoryError> {
        let Some((at, length)) = self.pages(range) else {
            return Ok(());
        };
        // SAFETY: the pages are this reservation's.
        let code = unsafe { libc::mprotect(at, length, libc::PROT_READ | libc::PROT_WRITE) };
        if code != 0 {
            return Err(MemoryError::Refused {
                wanted: length as u64,
                error: io::Error::last_os_error(),
            });
        }
        if length >= HUGE_PAGE {
            // SAFETY: as above. A kernel without huge pages refuses, which changes nothing but speed.
            unsafe { libc::madvise(at, length, libc::MADV_HUGEPAGE) };
        }
        Ok(())
    }

    /// Whole, open pages that can be made before their first use.
    pub(super) fn unmade(&self, range: &Range<usize>) -> Option<Unmade> {
        let (at, length) = self.pages(range)?;
        let address = at.expose_provenance();
        Some(Unmade { address, length })
    }

    /// Gives pages back to the system; their addresses stay reserved. `range` is one of whole pages.
    pub(super) fn close(&mut self, range: &Range<usize>) {
        let Some((at, length)) = self.pages(range) else {
            return;
        };
        // SAFETY: the pages are this reservation's; nobody uses them any more, as the caller owns the storage.
        let map = unsafe { libc::mmap(at, length, libc::PROT_NONE, FLAGS | libc::MAP_FIXED, -1, 0) };
        if map == libc::MAP_FAILED {
            // Too many mappings in this process: the addresses stay readable, the memory is given back all the same.
            // SAFETY: as above.
            unsafe { libc::madvise(at, length, libc::MADV_DONTNEED) };
        }
    }

    fn pages(&self, range: &Range<usize>) -> Option<(*mut libc::c_void, usize)> {
        assert!(
            range.end <= self.length
                && range.start.is_multiple_of(page_size())
                && range.end.is_multiple_of(page_size()),
            "{range:?} is no range of pages of {} bytes",
            self.length
        );
        let length = range.end.checked_sub(range.start).filter(|length| *length > 0)?;
        // SAFETY: the range is inside the reservation.
        Some((unsafe { self.base().add(range.start) }.as_ptr().cast(), length))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the mapping is this reservation's and not used again.
        unsafe { libc::munmap(self.map.as_ptr(), self.map_length) };
    }
}

// Not MAP_NORESERVE: pages are charged when they are opened, so that a system that never overcommits can refuse then.
const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Bytes of a page.
pub(super) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: asks for a constant of the system. Where it says nothing, 64 KiB are a multiple of every page in use.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(64 << 10))
}
