//! A memory file with an image: made here, or handed over by a rank or another daemon. It is mapped once, when it is
//! first used, and stays so as long as it lives: mapping it again costs as much as copying it. With all its pages,
//! unless it may have holes or nothing was written to it: its length is then only what another node says. Its length is
//! sealed, so that no other process can cut it under a reader's feet.
#![allow(unsafe_code, reason = "writes memory files where they are mapped")]

use memmap2::MmapOptions;
use pcm_fabric::bulk::{Alone, Lent, Mapped, RegionMemory};
use pcm_proto::parked::IMAGE_BYTES_MAX;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

/// See the file head.
#[derive(Debug)]
pub(in super::super) struct Memory {
    file: File,
    bytes: u64,
    kind: Kind,
    map: OnceLock<Mapped>,
    is_fresh: bool,
}

/// What may be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A whole image, that can be written.
    Whole,
    /// What is wanted of one.
    Holes,
    /// One that is sealed against writing; it may have holes as well.
    Sealed,
}

impl Memory {
    /// A fresh one; its pages come when it is written.
    pub(super) fn new(bytes: u64) -> io::Result<Self> {
        Self::of_kind(Kind::Whole, "pcm-copy", bytes)
    }

    /// The same, for parts of an image.
    pub(super) fn with_holes(bytes: u64) -> io::Result<Self> {
        Self::of_kind(Kind::Holes, "pcm-fetched", bytes)
    }

    /// Others see its name among the open files of this process.
    fn of_kind(kind: Kind, name: &str, bytes: u64) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(name, flags)?);
        ftruncate(&file, bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self {
            file,
            bytes,
            kind,
            map: OnceLock::new(),
            is_fresh: true,
        })
    }

    /// One that is there; `None` when it is not of this length for good.
    pub(super) fn of(file: File, bytes: u64) -> Option<Self> {
        let seals = fcntl_get_seals(file.as_fd()).unwrap_or(SealFlags::empty());
        let kind = match seals.contains(SealFlags::WRITE) {
            true => Kind::Sealed,
            false => Kind::Whole,
        };
        let length = fstat(&file).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
        let is_sound =
            seals.contains(SealFlags::SHRINK) && bytes > 0 && bytes <= IMAGE_BYTES_MAX && length == Some(bytes);
        is_sound.then(|| Self {
            file,
            bytes,
            kind,
            map: OnceLock::new(),
            is_fresh: false,
        })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it has no pages yet; once, to who fills it now.
    pub(super) fn take_fresh(&mut self) -> bool {
        std::mem::take(&mut self.is_fresh)
    }

    /// Its contents, of which only copies can be had: the process that handed it over may write it meanwhile.
    pub(super) fn map(&self) -> io::Result<&Mapped> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let map = self.make_map()?;
        Ok(self.map.get_or_init(|| map))
    }

    /// Lets its contents be written.
    pub(super) fn write<T>(&mut self, write: impl FnOnce(&mut [u8]) -> T) -> io::Result<T> {
        let mut map = self.take_map()?;
        let written = write(&mut map);
        self.map = OnceLock::from(map.shared());
        Ok(written)
    }

    /// Its parts, to be written by whoever has them.
    pub(super) fn open(mut self) -> io::Result<(File, Alone)> {
        let map = self.take_map()?;
        Ok((self.file, map))
    }

    fn take_map(&mut self) -> io::Result<Alone> {
        if self.kind == Kind::Sealed {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.map()?;
        let map = self.map.take().ok_or(io::ErrorKind::NotFound)?;
        // SAFETY: what is not sealed is mapped for writing. Only this daemon fills memory: by contract a rank or
        // another daemon that has the file has done with it, or reads what is there already.
        Ok(unsafe { map.alone() })
    }

    /// What [`Self::open`] gave.
    pub(super) fn opened(file: File, map: RegionMemory) -> Option<Self> {
        let RegionMemory::Mapped(map) = map else { return None };
        Some(Self {
            file,
            bytes: map.len() as u64,
            kind: Kind::Whole,
            map: OnceLock::from(map.shared()),
            is_fresh: false,
        })
    }

    /// A copy of all of it.
    #[cfg(test)]
    pub(super) fn contents(&self) -> Vec<u8> {
        let mut contents = vec![0; self.bytes as usize];
        assert!(self.copy_out(0, &mut contents));
        contents
    }

    fn make_map(&self) -> io::Result<Mapped> {
        let mut options = MmapOptions::new();
        let map = match self.kind {
            Kind::Whole if !self.is_fresh => options.populate().map_raw(&self.file),
            Kind::Whole | Kind::Holes => options.map_raw(&self.file),
            Kind::Sealed => options.map_raw_read_only(&self.file),
        };
        map.map(Mapped::from)
    }
}

impl Lent for Memory {
    fn length(&self) -> usize {
        self.map().map_or(0, Mapped::length)
    }

    fn copy_out(&self, at: usize, into: &mut [u8]) -> bool {
        self.map().is_ok_and(|map| map.copy_out(at, into))
    }

    fn start(&self) -> *const u8 {
        self.map().map_or(ptr::null(), Mapped::start)
    }
}

/// Whether a file is as long as it is said to be and cannot become shorter or other under a reader.
pub(super) fn is_image(file: &OwnedFd, bytes: u64) -> bool {
    let wanted = SealFlags::SHRINK | SealFlags::WRITE;
    let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(wanted));
    let length = fstat(file).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
    is_sealed && bytes > 0 && bytes <= IMAGE_BYTES_MAX && length == Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn copied(memory: &Memory, at: usize) -> [u8; 4] {
        let mut bytes = [0; 4];
        assert!(memory.copy_out(at, &mut bytes));
        bytes
    }

    #[test]
    fn what_could_be_cut_or_has_another_length_is_not_taken() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("test", flags).unwrap());
        ftruncate(&file, 5000).unwrap();
        assert!(Memory::of(file, 5000).is_none(), "it could be cut");
        let made = Memory::new(5000).unwrap();
        assert!(Memory::of(made.file().try_clone().unwrap(), 5001).is_none());
        assert!(made.file().set_len(4999).is_err());
        let taken = Memory::of(made.file().try_clone().unwrap(), 5000).unwrap();
        made.file().write_all_at(b"seen", 4000).unwrap();
        assert_eq!(copied(&taken, 4000), *b"seen");
    }

    #[test]
    fn what_is_sealed_against_writing_is_read_and_not_written() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("test", flags).unwrap());
        file.write_all_at(b"seen", 4996).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE).unwrap();
        let mut sealed = Memory::of(file, 5000).unwrap();
        assert_eq!(copied(&sealed, 4996), *b"seen");
        assert!(sealed.write(|_| ()).is_err() && sealed.open().is_err());
    }

    #[test]
    fn what_was_not_written_of_memory_has_no_pages() {
        use std::os::unix::fs::MetadataExt;
        for mut memory in [Memory::with_holes(1 << 20).unwrap(), Memory::new(1 << 20).unwrap()] {
            memory.write(|bytes| bytes[5000] = 7).unwrap();
            let pages = memory.file().metadata().unwrap().blocks() * 512 / 4096;
            assert!((1..20).contains(&pages), "{pages} pages for one byte");
        }
    }

    #[test]
    fn only_a_sealed_file_of_the_stated_length_is_an_image() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 100).unwrap();
        assert!(!is_image(&file, 100));
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
        assert!(is_image(&file, 100));
        assert!(!is_image(&file, 99));
        let other = File::open("/dev/null").unwrap().into();
        assert!(!is_image(&other, 0));
    }
}
