//! A memory file with an image: made here, or handed over by a rank or another daemon. It is mapped once, when it is
//! first used, and stays so as long as it lives: mapping it again costs as much as copying it. With all its pages,
//! unless it may have holes or nothing was written to it: its length is then only what another node says. Its length is
//! sealed, so that no other process can cut it under a reader's feet.
#![allow(unsafe_code, reason = "maps memory files")]

use memmap2::{Mmap, MmapMut, MmapOptions};
use pcm_fabric::bulk::RegionMemory;
use pcm_proto::parked::IMAGE_BYTES_MAX;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// See the file head.
#[derive(Debug)]
pub(in super::super) struct Memory {
    file: File,
    bytes: u64,
    kind: Kind,
    map: OnceLock<Map>,
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

#[derive(Debug)]
enum Map {
    Writable(MmapMut),
    ReadOnly(Mmap),
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

    /// Its contents. The process that handed it over may write it meanwhile: what is read counts when its checksums are
    /// verified in a copy.
    pub(super) fn read(&self) -> io::Result<&[u8]> {
        let map = match self.map.get() {
            Some(map) => map,
            None => {
                let map = self.make_map()?;
                self.map.get_or_init(|| map)
            }
        };
        Ok(match map {
            Map::Writable(map) => map,
            Map::ReadOnly(map) => map,
        })
    }

    /// Its contents, to be written by whoever has it alone in this process.
    pub(super) fn write(&mut self) -> io::Result<&mut [u8]> {
        self.read()?;
        match self.map.get_mut() {
            Some(Map::Writable(map)) => Ok(map),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Its parts, to be written by whoever has them.
    pub(super) fn open(self) -> io::Result<(File, MmapMut)> {
        self.read()?;
        match self.map.into_inner() {
            Some(Map::Writable(map)) => Ok((self.file, map)),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// What [`Self::open`] gave.
    pub(super) fn opened(file: File, map: RegionMemory) -> Option<Self> {
        let RegionMemory::Mapped(map) = map else { return None };
        Some(Self {
            file,
            bytes: map.len() as u64,
            kind: Kind::Whole,
            map: OnceLock::from(Map::Writable(map)),
            is_fresh: false,
        })
    }

    fn make_map(&self) -> io::Result<Map> {
        let mut options = MmapOptions::new();
        // SAFETY: the file cannot become shorter. By contract its owner only writes what nobody is meant to read yet;
        // the checksums of what was read are verified.
        Ok(unsafe {
            match self.kind {
                Kind::Whole if !self.is_fresh => Map::Writable(options.populate().map_mut(&self.file)?),
                Kind::Whole | Kind::Holes => Map::Writable(options.map_mut(&self.file)?),
                Kind::Sealed => Map::ReadOnly(options.map(&self.file)?),
            }
        })
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self.read().unwrap_or_default()
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
        assert_eq!(&taken.read().unwrap()[4000..4004], b"seen");
    }

    #[test]
    fn what_is_sealed_against_writing_is_read_and_not_written() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("test", flags).unwrap());
        file.write_all_at(b"seen", 4996).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE).unwrap();
        let mut sealed = Memory::of(file, 5000).unwrap();
        assert_eq!(&sealed.read().unwrap()[4996..], b"seen");
        assert!(sealed.write().is_err() && sealed.open().is_err());
    }

    #[test]
    fn what_was_not_written_of_memory_has_no_pages() {
        use std::os::unix::fs::MetadataExt;
        for mut memory in [Memory::with_holes(1 << 20).unwrap(), Memory::new(1 << 20).unwrap()] {
            memory.write().unwrap()[5000] = 7;
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
