//! Writing one part file. Its data comes from memory; it lasts when this returns.

use crate::{
    block::{BLOCK_BYTES, Compression, checksum, encode},
    error::{WriteError, writing},
    manifest::PartRecord,
    npy::npy_header,
    pace::{Pace, Progress},
};
use pcm_core::partition::Partition;
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// What a part is.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Local storage of an array.
    Array {
        /// NumPy type.
        dtype: &'a str,
        /// How the array is divided.
        partition: &'a Partition,
    },
    /// Bytes that mean something to the application only.
    Raw,
}

/// Writes one rank's part of a region into a file of this name.
pub fn write_part(
    directory: &Path,
    file: String,
    rank: u32,
    content: Content<'_>,
    data: &[u8],
    compression: Compression,
) -> Result<PartRecord, WriteError> {
    let mut pace = Pace::new(None, Progress::default());
    write_part_paced(directory, file, rank, content, data, compression, &mut pace)
}

/// As [`write_part`], no faster than `pace` lets it.
pub fn write_part_paced(
    directory: &Path,
    file: String,
    rank: u32,
    content: Content<'_>,
    data: &[u8],
    compression: Compression,
    pace: &mut Pace,
) -> Result<PartRecord, WriteError> {
    let (header, shape, owned) = match content {
        Content::Array { dtype, partition } => {
            let shape = partition.local_extents(rank);
            let axes = 0..partition.spec().axes.len();
            let stripes = |axis| {
                partition
                    .owned_stripes(rank, axis)
                    .into_iter()
                    .map(Into::into)
                    .collect()
            };
            (npy_header(dtype, &shape), shape, axes.map(stripes).collect())
        }
        Content::Raw => (Vec::new(), Vec::new(), Vec::new()),
    };
    let path = directory.join(&file);
    let written = Written::new(path, compression)?.all(&header, data, pace)?;
    Ok(PartRecord {
        rank,
        file,
        data_offset: header.len() as u64,
        data_bytes: data.len() as u64,
        shape,
        owned,
        crc32: written.crc32,
        stored: written.stored,
    })
}

/// A part file on the way.
struct Written {
    path: PathBuf,
    file: File,
    compression: Compression,
    crc32: Vec<u32>,
    stored: Vec<u64>,
    buffer: Vec<u8>,
}

impl Written {
    fn new(path: PathBuf, compression: Compression) -> Result<Self, WriteError> {
        let file = File::create_new(&path).map_err(writing("create", &path))?;
        Ok(Self {
            path,
            file,
            compression,
            crc32: Vec::new(),
            stored: Vec::new(),
            buffer: Vec::new(),
        })
    }

    fn all(mut self, header: &[u8], data: &[u8], pace: &mut Pace) -> Result<Self, WriteError> {
        // The first block holds the header too; the others are taken from where the data is.
        let split = (BLOCK_BYTES as usize - header.len()).min(data.len());
        let (first, rest) = data.split_at(split);
        let first = [header, first].concat();
        if !first.is_empty() {
            self.block(&first, pace)?;
        }
        rest.chunks(BLOCK_BYTES as usize)
            .try_for_each(|block| self.block(block, pace))?;
        self.file.sync_all().map_err(writing("make last", &self.path))?;
        Ok(self)
    }

    fn block(&mut self, block: &[u8], pace: &mut Pace) -> Result<(), WriteError> {
        let stored = match self.compression {
            Compression::None => block,
            compression => {
                encode(compression, block, &mut self.buffer).map_err(writing("compress", &self.path))?;
                self.stored.push(self.buffer.len() as u64);
                &self.buffer
            }
        };
        self.crc32.push(checksum(stored));
        let mut write = || -> io::Result<()> {
            if pace.take(stored.len() as u64)? {
                self.file.sync_data()?;
            }
            (&self.file).write_all(stored)
        };
        write().map_err(writing("write", &self.path))
    }
}
