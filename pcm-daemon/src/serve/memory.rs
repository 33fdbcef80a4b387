//! A memory file with an image: made here, or handed over by a rank or another daemon. It is mapped once, with all its pages, when
//! it is first used, and stays so as long as it lives: mapping it anew costs as much as copying it. Its length is sealed,
//! so that nobody can cut it under a reader's feet.
#![allow(unsafe_code, reason = "maps memory files")]

use memmap2::{MmapMut, MmapOptions};
use pcm_fabric::bulk::RegionMemory;
use pcm_proto::parked::IMAGE_BYTES_MAX;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// See the file head.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    bytes: u64,
    map: OnceLock<MmapMut>,
    is_fresh: bool,
}

impl Memory {
    /// A fresh one; its pages come when it is written.
    pub(super) fn new(bytes: u64) -> io::Result<Self> {
        let file = empty_file("pcm-copy")?;
        set_length(&file, bytes)?;
        Ok(Self {
            file,
            bytes,
            map: OnceLock::new(),
            is_fresh: true,
        })
    }

    /// One that is there; `None` when it is not of this length for good.
    pub(super) fn of(file: File, bytes: u64) -> Option<Self> {
        let is_sealed = fcntl_get_seals(file.as_fd()).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let length = fstat(&file).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
        let is_sound = is_sealed && bytes > 0 && bytes <= IMAGE_BYTES_MAX && length == Some(bytes);
        is_sound.then(|| Self {
            file,
            bytes,
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

    /// Its contents. The process that handed it over may write it meanwhile: what is read counts when its checksums are verified in
    /// a copy.
    pub(super) fn read(&self) -> io::Result<&[u8]> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let map = self.make_map()?;
        Ok(self.map.get_or_init(|| map))
    }

    /// Its contents, to be written by whoever has it alone in this process.
    pub(super) fn write(&mut self) -> io::Result<&mut [u8]> {
        self.read()?;
        match self.map.get_mut() {
            Some(map) => Ok(map),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Its parts, to be written by whoever has them.
    pub(super) fn open(self) -> io::Result<(File, MmapMut)> {
        self.read()?;
        let map = self.map.into_inner().ok_or(io::ErrorKind::NotFound)?;
        Ok((self.file, map))
    }

    /// What [`Self::open`] gave.
    pub(super) fn opened(file: File, map: RegionMemory) -> Option<Self> {
        let RegionMemory::Mapped(map) = map else { return None };
        Some(Self {
            file,
            bytes: map.len() as u64,
            map: OnceLock::from(map),
            is_fresh: false,
        })
    }

    fn make_map(&self) -> io::Result<MmapMut> {
        // SAFETY: the file cannot become shorter. By contract its owner only writes what nobody is meant to read yet;
        // the checksums of what was read are verified.
        unsafe { MmapOptions::new().populate().map_mut(&self.file) }
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self.read().unwrap_or_default()
    }
}

/// A memory file of no length yet; others see its name among the open files of this process.
pub(super) fn empty_file(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(memfd_create(name, flags)?))
}

/// Gives an empty file its length, for good.
pub(super) fn set_length(file: &File, bytes: u64) -> io::Result<()> {
    ftruncate(file, bytes)?;
    fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_could_be_cut_or_has_another_length_is_not_taken() {
        let file = empty_file("test").unwrap();
        ftruncate(&file, 5000).unwrap();
        assert!(Memory::of(file, 5000).is_none(), "it could be cut");
        let made = Memory::new(5000).unwrap();
        assert!(Memory::of(made.file().try_clone().unwrap(), 5001).is_none());
        assert!(made.file().set_len(4999).is_err());
        let taken = Memory::of(made.file().try_clone().unwrap(), 5000).unwrap();
        made.file().write_all_at(b"seen", 4000).unwrap();
        assert_eq!(&taken.read().unwrap()[4000..4004], b"seen");
    }
}
