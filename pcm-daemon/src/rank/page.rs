//! The shared page of a rank as the daemon sees it: made before the rank starts, mapped as long as the daemon looks at
//! it. Its size is sealed, so that no rank can cut it under the daemon's feet.
#![allow(unsafe_code, reason = "maps shared memory")]

use pcm_proto::page::{Page, PageError, page_size};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io, ptr, ptr::NonNull, slice};

/// Why a page cannot be used.
#[derive(Debug)]
pub enum PageFileError {
    /// The system refused memory or a mapping.
    System(io::Error),
    /// What stands in it is not a page.
    Content(PageError),
}

impl fmt::Display for PageFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(f, "the shared page of a rank: {error}"),
            Self::Content(error) => write!(f, "the shared page of a rank: {error}"),
        }
    }
}

impl std::error::Error for PageFileError {}

impl From<rustix::io::Errno> for PageFileError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// A fresh page for a rank that is about to start.
#[derive(Debug)]
pub struct PageFile {
    file: OwnedFd,
}

impl PageFile {
    /// Makes a page with room for this many peers.
    pub fn new(peers_max: usize) -> Result<Self, PageFileError> {
        let file = memfd_create("pcm-page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, page_size(peers_max) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = Mapping::new(file.as_fd())?;
        // SAFETY: nobody else has the file yet and the mapping outlives the slice.
        let memory = unsafe { slice::from_raw_parts_mut(map.address, map.length) };
        Page::create(memory, peers_max).map_err(PageFileError::Content)?;
        Ok(Self { file })
    }
}

impl AsFd for PageFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A page mapped into the daemon.
#[derive(Debug)]
pub struct PageMap {
    /// Refers into `mapping`; handed out only for as long as `self` lives.
    page: Page<'static>,
    _mapping: Mapping,
}

impl PageMap {
    /// Maps the page that the keeper handed over.
    pub fn new(file: BorrowedFd<'_>) -> Result<Self, PageFileError> {
        let mapping = Mapping::new(file)?;
        let first = NonNull::new(mapping.address).ok_or(io::ErrorKind::InvalidInput);
        let first = first.map_err(|kind| PageFileError::System(kind.into()))?;
        // SAFETY: the mapping lives as long as the page that refers to it: one struct, never taken apart.
        let page = unsafe { Page::at(first, mapping.length) }.map_err(PageFileError::Content)?;
        Ok(Self {
            page,
            _mapping: mapping,
        })
    }

    pub fn page(&self) -> &Page<'_> {
        &self.page
    }
}

#[derive(Debug)]
struct Mapping {
    address: *mut u8,
    length: usize,
}

// SAFETY: the mapping is plain memory, valid from every thread until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives access only to the page's atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>) -> Result<Self, PageFileError> {
        let length = usize::try_from(fstat(file)?.st_size).unwrap_or(0);
        if length == 0 {
            return Err(PageFileError::System(io::ErrorKind::UnexpectedEof.into()));
        }
        // SAFETY: a new mapping at an address of the system's choice touches nothing that exists.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Ok(Self {
            address: address.cast(),
            length,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nothing refers to it after its owner.
        let _ = unsafe { munmap(self.address.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_in_a_page_the_other_side_reads() {
        let file = PageFile::new(4).unwrap();
        let (here, there) = (PageMap::new(file.as_fd()).unwrap(), PageMap::new(file.as_fd()).unwrap());
        assert_eq!(here.page().peers_max(), 4);
        here.page().set_ceiling(17);
        assert_eq!(
            there
                .page()
                .head
                .orders
                .ceiling
                .load(std::sync::atomic::Ordering::SeqCst),
            17
        );
    }

    #[test]
    fn a_rank_cannot_shrink_its_page() {
        let file = PageFile::new(1).unwrap();
        assert_eq!(ftruncate(&file, 0), Err(rustix::io::Errno::PERM));
    }
}
