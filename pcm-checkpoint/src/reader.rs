//! Reads a part, checking every block it touches. Bytes that are not what was written are never handed out.

use crate::{
    block::{Compression, checksum, decode},
    damage::{Damage, Fault},
    manifest::{Manifest, PartRecord, RegionRecord},
};
use std::{
    fs::File,
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

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
        let file = File::open(&path).map_err(|error| match error.kind() {
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

    /// All data.
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
