//! The copy that files are written from: memory of this process's own, or a checkpoint in memory, which may still be on
//! its way there, which the next but one is to overwrite, and which is copied only should that come first.
#![allow(unsafe_code, reason = "maps a memory file for reading")]

use crate::keep::Filled;
use memmap2::{Mmap, MmapMut, MmapOptions};
use pcm_checkpoint::Data;
use std::{
    fmt,
    fs::File,
    io,
    sync::{Arc, PoisonError, RwLock},
};

/// See the file head.
pub(crate) struct Source {
    place: RwLock<Place>,
    length: u64,
    filled: Option<Arc<Filled>>,
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
            filled: None,
        }
    }

    /// A memory file that is sealed against becoming shorter, and not written while `pin` lives but to fill it.
    pub(crate) fn kept(file: &File, filled: Arc<Filled>, pin: Arc<()>) -> io::Result<Self> {
        // SAFETY: by contract of this function; nothing is read that is not filled yet.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self {
            length: map.len() as u64,
            place: RwLock::new(Place::Kept { map, _pin: pin }),
            filled: Some(filled),
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

    fn copy(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        let end = from + into.len() as u64;
        self.filled.as_ref().map_or(Ok(()), |filled| filled.wait_for(end))?;
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(&place.bytes()[from as usize..end as usize]);
        Ok(())
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
    use crate::keep::Filling;
    use pcm_checkpoint::{BLOCK_BYTES, Compression, Content, Pace, PartRecord, Progress, WriteError, write_part_paced};
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::{fs, io::Write, num::NonZeroU64, os::unix::fs::FileExt, path::Path, thread};

    /// Some blocks, so that several threads write, and a piece of one.
    const LENGTH: usize = 12 * BLOCK_BYTES as usize + 5_000;

    fn memory_file() -> File {
        memfd_create("kept", MemfdFlags::CLOEXEC).unwrap().into()
    }

    fn kept(bytes: &[u8]) -> (Source, Arc<()>) {
        let (filling, pin) = (Filling::default(), Arc::new(()));
        let (mut file, filled) = (memory_file(), filling.filled());
        file.write_all(bytes).unwrap();
        filling.finish();
        (Source::kept(&file, filled, Arc::clone(&pin)).unwrap(), pin)
    }

    fn read(source: &Source) -> Vec<u8> {
        let mut bytes = vec![0; source.length() as usize - 1];
        source.copy(1, &mut bytes).unwrap();
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

    fn data() -> Vec<u8> {
        (0..LENGTH).map(|at| ((at * 31) >> 7) as u8).collect()
    }

    fn write(folder: &Path, source: &dyn Data, rate: Option<u64>) -> Result<PartRecord, WriteError> {
        let pace = Pace::new(rate.and_then(NonZeroU64::new), Progress::default());
        let file = "part".to_owned();
        write_part_paced(folder, file, 0, Content::Raw, source, Compression::None, &pace)
    }

    /// Writes a file from a copy while `fill` makes it.
    fn followed(
        rate: Option<u64>,
        fill: impl FnOnce(&File, Filling, &dyn Fn() -> bool),
    ) -> Result<(PartRecord, Vec<u8>), WriteError> {
        let (file, filling, folder) = (memory_file(), Filling::default(), tempfile::tempdir().unwrap());
        file.set_len(LENGTH as u64).unwrap();
        let source = Source::kept(&file, filling.filled(), Arc::new(())).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| write(folder.path(), &source, rate));
            fill(&file, filling, &|| writer.is_finished());
            let record = writer.join().unwrap()?;
            Ok((record, fs::read(folder.path().join("part")).unwrap()))
        })
    }

    fn is_as_if_written_from_a_whole_copy((record, written): (PartRecord, Vec<u8>)) {
        let folder = tempfile::tempdir().unwrap();
        let data = data();
        let whole = write(folder.path(), &data.as_slice(), None).unwrap();
        assert!(written == data);
        assert_eq!(record, whole);
    }

    #[test]
    fn a_writer_that_is_faster_than_the_copy_follows_it() {
        let data = data();
        let followed = followed(None, |file, filling, is_written| {
            for (at, piece) in (0..).step_by(300_000).zip(data.chunks(300_000)) {
                assert!(!is_written());
                file.write_all_at(piece, at).unwrap();
                filling.reached(at + piece.len() as u64);
                thread::yield_now();
            }
            filling.finish();
        });
        is_as_if_written_from_a_whole_copy(followed.unwrap());
    }

    #[test]
    fn a_writer_that_is_slower_than_the_copy_is_not_waited_for() {
        let data = data();
        let followed = followed(Some(40_000_000), |file, filling, is_written| {
            file.write_all_at(&data, 0).unwrap();
            filling.finish();
            assert!(!is_written());
        });
        is_as_if_written_from_a_whole_copy(followed.unwrap());
    }

    #[test]
    fn no_part_is_written_from_a_copy_that_is_given_up() {
        let data = data();
        let followed = followed(None, |file, filling, _| {
            file.write_all_at(&data[..LENGTH / 2], 0).unwrap();
            filling.reached(LENGTH as u64 / 2);
        });
        assert!(followed.unwrap_err().to_string().contains("abandoned"));
    }
}
