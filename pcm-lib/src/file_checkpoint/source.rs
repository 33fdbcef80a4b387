//! The copy that files are written from: memory of this process's own, or a checkpoint in memory, which the next but one is
//! to overwrite and which is copied only should that come first.
#![allow(unsafe_code, reason = "maps a memory file for reading")]

use memmap2::{Mmap, MmapMut, MmapOptions};
use pcm_checkpoint::Data;
use std::{
    fmt, io,
    os::fd::OwnedFd,
    sync::{Arc, PoisonError, RwLock},
};

/// See the file head.
pub(crate) struct Source {
    place: RwLock<Place>,
    length: u64,
}

enum Place {
    /// In memory of this process that nobody else uses.
    Own(MmapMut),
    /// In a memory file that is not overwritten while the pin lives.
    Kept { map: Mmap, _pin: Arc<()> },
    /// Nowhere any more: it is written.
    Released,
}

impl Place {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(memory) => memory,
            Self::Kept { map, .. } => map,
            Self::Released => &[],
        }
    }
}

impl Source {
    /// Memory that nobody else uses.
    pub(crate) fn own(memory: MmapMut) -> Self {
        Self {
            length: memory.len() as u64,
            place: RwLock::new(Place::Own(memory)),
        }
    }

    /// A memory file that is sealed against becoming shorter, and not written while `pin` lives.
    pub(crate) fn kept(file: &OwnedFd, pin: Arc<()>) -> io::Result<Self> {
        // SAFETY: by contract of this function.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self {
            length: map.len() as u64,
            place: RwLock::new(Place::Kept { map, _pin: pin }),
        })
    }

    /// Makes a copy, unless it is one, and does without the memory file from then on.
    pub(crate) fn give_way(&self, spare: Option<MmapMut>) {
        let copy = {
            let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
            let Place::Kept { map, .. } = &*place else {
                return;
            };
            let memory = spare.filter(|spare| spare.len() == map.len());
            let Ok(mut memory) = memory.map_or_else(|| touched(self.length), Ok) else {
                // Who wants the memory file waits until it is written.
                return;
            };
            memory.copy_from_slice(map);
            memory
        };
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        if let Place::Kept { .. } = *place {
            *place = Place::Own(copy);
        }
    }

    /// It is written. Returns memory for the next copy.
    pub(crate) fn release(&self) -> Option<MmapMut> {
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::Released) {
            Place::Own(memory) => Some(memory),
            Place::Kept { .. } | Place::Released => None,
        }
    }
}

impl Data for Source {
    fn length(&self) -> u64 {
        self.length
    }

    fn copy(&self, from: u64, into: &mut [u8]) {
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(&place.bytes()[from as usize..from as usize + into.len()]);
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.length)
    }
}

/// Memory whose pages are there.
pub(crate) fn touched(bytes: u64) -> io::Result<MmapMut> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    MmapOptions::new().len(bytes).populate().map_anon()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::{fs::File, io::Write};

    fn kept(bytes: &[u8]) -> (Source, Arc<()>) {
        let file = File::from(memfd_create("kept", MemfdFlags::CLOEXEC).unwrap());
        (&file).write_all(bytes).unwrap();
        let pin = Arc::new(());
        (Source::kept(&OwnedFd::from(file), Arc::clone(&pin)).unwrap(), pin)
    }

    fn read(source: &Source) -> Vec<u8> {
        let mut bytes = vec![0; source.length() as usize - 1];
        source.copy(1, &mut bytes);
        bytes
    }

    #[test]
    fn who_wants_the_memory_file_gets_it_and_what_is_left_is_written_from_a_copy() {
        let (source, pin) = kept(&[7; 10_000]);
        assert_eq!((Arc::strong_count(&pin), read(&source)), (2, vec![7; 9_999]));
        source.give_way(None);
        assert_eq!((Arc::strong_count(&pin), read(&source)), (1, vec![7; 9_999]));
        assert_eq!(source.release().map(|memory| memory.len()), Some(10_000));
    }

    #[test]
    fn what_is_written_gives_nothing_way_any_more() {
        let (source, pin) = kept(&[7; 100]);
        assert!(source.release().is_none());
        assert_eq!(Arc::strong_count(&pin), 1);
        source.give_way(None);
        assert!(source.release().is_none());
    }
}
