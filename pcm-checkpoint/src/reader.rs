//! Reads a part, checking every block it touches. Bytes that are not what was written are never handed out. Much at a
//! time is read past the page cache, by two threads: one checks and copies its piece while the disk gives the other's.

use crate::{
    block::{Compression, checksum, decode},
    damage::{Damage, Fault},
    direct::{ALIGNMENT, Aligned, PIECE_BYTES, WORTH_BYTES, read_at, set_direct},
    manifest::{Manifest, PartRecord, RegionRecord},
    opening::open_regular,
};
use std::{
    fs::File,
    io::ErrorKind,
    os::unix::fs::FileExt,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

/// Bytes of a file that are to go somewhere.
type Wanted<'a> = (u64, &'a mut [u8]);

/// See the file head.
#[derive(Debug)]
pub struct PartReader {
    file: File,
    path: PathBuf,
    region: String,
    part: PartRecord,
    compression: Compression,
    block_bytes: u64,
    /// First stored byte of each block; empty if not compressed.
    starts: Vec<u64>,
    /// The block read last.
    block: Option<u64>,
    bytes: Vec<u8>,
    stored: Vec<u8>,
    /// The file again, past the page cache if it can be, once much was read.
    direct: Option<File>,
    /// Where pieces are read to.
    buffers: [Option<Aligned>; 2],
}

impl PartReader {
    pub(crate) fn open(
        directory: &Path,
        manifest: &Manifest,
        region: &RegionRecord,
        part: &PartRecord,
    ) -> Result<Self, Damage> {
        let path = directory.join(&part.file);
        let damage = |fault| Damage {
            region: region.name.clone(),
            rank: part.rank,
            path: path.clone(),
            fault,
        };
        let file = open_regular(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => damage(Fault::Missing),
            _ => damage(Fault::Unreadable(error)),
        })?;
        let found = file.metadata().map_err(|error| damage(Fault::Unreadable(error)))?.len();
        let expected = part.file_bytes();
        if found != expected {
            return Err(damage(Fault::Length { expected, found }));
        }
        let starts = part.stored.iter().scan(0, |at, bytes| {
            let start = *at;
            *at += bytes;
            Some(start)
        });
        Ok(Self {
            starts: starts.collect(),
            file,
            region: region.name.clone(),
            part: part.clone(),
            compression: manifest.compression,
            block_bytes: manifest.block_bytes,
            block: None,
            bytes: Vec::new(),
            stored: Vec::new(),
            direct: None,
            buffers: [None, None],
            path,
        })
    }

    /// Bytes of data.
    pub fn data_bytes(&self) -> u64 {
        self.part.data_bytes
    }

    /// Reads data, which begins at 0 after the header.
    ///
    /// # Panics
    /// If the part has no such bytes.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Damage> {
        let end = offset.saturating_add(into.len() as u64);
        assert!(
            end <= self.part.data_bytes,
            "bytes to {end} of {}",
            self.part.data_bytes
        );
        let mut at = self.part.data_offset + offset;
        if into.len() as u64 >= WORTH_BYTES && self.compression == Compression::None {
            return self.read_pieces(at, into);
        }
        let mut left = into;
        while !left.is_empty() {
            let block = at / self.block_bytes;
            let within = (at % self.block_bytes) as usize;
            let length = self.length(block) as usize;
            let (now, later) = left.split_at_mut((length - within).min(left.len()));
            if now.len() == length && self.compression == Compression::None {
                // A whole block goes where it belongs at once.
                self.load(at, now)?;
                self.check(block, at, now)?;
            } else {
                self.fetch(block)?;
                now.copy_from_slice(&self.bytes[within..within + now.len()]);
            }
            at += now.len() as u64;
            left = later;
        }
        Ok(())
    }

    fn read_pieces(&mut self, at: u64, into: &mut [u8]) -> Result<(), Damage> {
        let direct = match self.direct.take() {
            Some(direct) => direct,
            None => {
                let direct = open_regular(&self.path).map_err(|error| self.damage(Fault::Unreadable(error)))?;
                set_direct(&direct, true);
                direct
            }
        };
        let piece_bytes = (PIECE_BYTES as u64).next_multiple_of(self.block_bytes);
        let wanted = Mutex::new((at, into));
        let next = || -> Option<Wanted<'_>> {
            let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let (at, left) = std::mem::take(&mut *wanted);
            let length = (piece_bytes - at % piece_bytes).min(left.len() as u64);
            let (piece, later) = left.split_at_mut(length as usize);
            *wanted = (at + length, later);
            (length > 0).then_some((at, piece))
        };
        let mut buffers = std::mem::take(&mut self.buffers);
        let [first, second] = &mut buffers;
        let this = &*self;
        let work = |buffer: &mut Option<Aligned>| {
            // A block beyond the piece's beginning and end, and the sector after that.
            let buffer = match buffer {
                Some(buffer) => buffer,
                None => {
                    let made = Aligned::new(piece_bytes as usize + ALIGNMENT);
                    buffer.insert(made.map_err(|error| self.damage(Fault::Unreadable(error)))?)
                }
            };
            std::iter::from_fn(&next).try_for_each(|piece| this.read_piece(&direct, piece, buffer.bytes()))
        };
        let outcome = thread::scope(|scope| {
            let other = thread::Builder::new()
                .name("pcm-read".to_owned())
                .spawn_scoped(scope, || work(second));
            let own = work(first);
            // Without a thread the calling one has read all; one that panicked has not read its piece.
            let other = other.map_or(Ok(()), |other| {
                other.join().unwrap_or_else(|cause| resume_unwind(cause))
            });
            own.and(other)
        });
        (self.buffers, self.direct) = (buffers, Some(direct));
        outcome
    }

    /// Reads all blocks that the piece touches.
    fn read_piece(&self, file: &File, (at, piece): Wanted<'_>, buffer: &mut [u8]) -> Result<(), Damage> {
        let end = at + piece.len() as u64;
        let (first, last) = (at / self.block_bytes, (end - 1) / self.block_bytes);
        let from = first * self.block_bytes;
        let length = (last * self.block_bytes + self.length(last) - from) as usize;
        read_at(file, &mut buffer[..length.next_multiple_of(ALIGNMENT)], from, length)
            .map_err(|error| self.damage(Fault::Unreadable(error)))?;
        for (block, stored) in (first..).zip(buffer[..length].chunks(self.block_bytes as usize)) {
            let begin = block * self.block_bytes;
            self.check(block, begin, stored)?;
            let (from, to) = (at.max(begin), end.min(begin + stored.len() as u64));
            let source = &stored[(from - begin) as usize..(to - begin) as usize];
            piece[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
        }
        Ok(())
    }

    pub fn read_all(&mut self) -> Result<Vec<u8>, Damage> {
        let mut bytes = vec![0; self.part.data_bytes as usize];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads and checks all of it.
    pub fn verify(&mut self) -> Result<(), Damage> {
        (0..self.part.crc32.len() as u64).try_for_each(|block| self.fetch(block))
    }

    /// Bytes of a block before compression.
    fn length(&self, block: u64) -> u64 {
        (self.part.plain_bytes() - block * self.block_bytes).min(self.block_bytes)
    }

    fn fetch(&mut self, block: u64) -> Result<(), Damage> {
        if self.block == Some(block) {
            return Ok(());
        }
        self.block = None;
        let length = self.length(block) as usize;
        let (start, stored_length) = match self.starts.get(block as usize) {
            Some(start) => (*start, self.part.stored[block as usize] as usize),
            None => (block * self.block_bytes, length),
        };
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(stored_length, 0);
        let outcome = self.load(start, &mut stored).and_then(|()| {
            self.check(block, start, &stored)?;
            self.bytes.resize(length, 0);
            let mut bytes = std::mem::take(&mut self.bytes);
            let decoded = decode(self.compression, &stored, &mut bytes);
            self.bytes = bytes;
            decoded.map_err(|_| self.damage(Fault::Block { offset: start }))
        });
        self.stored = stored;
        outcome?;
        self.block = Some(block);
        Ok(())
    }

    fn load(&self, offset: u64, into: &mut [u8]) -> Result<(), Damage> {
        let read = self.file.read_exact_at(into, offset);
        read.map_err(|error| self.damage(Fault::Unreadable(error)))
    }

    fn check(&self, block: u64, offset: u64, stored: &[u8]) -> Result<(), Damage> {
        if checksum(stored) == self.part.crc32[block as usize] {
            Ok(())
        } else {
            Err(self.damage(Fault::Block { offset }))
        }
    }

    fn damage(&self, fault: Fault) -> Damage {
        Damage {
            region: self.region.clone(),
            rank: self.part.rank,
            path: self.path.clone(),
            fault,
        }
    }
}
