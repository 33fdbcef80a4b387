//! Writing one part file. Its data comes from memory, which may be filled meanwhile; it lasts when this returns.
//!
//! Large files that are not compressed are written past the page cache, in blocks that threads take one after the
//! other: polite ones, and the calling one when somebody hurries.

use crate::{
    block::{BLOCK_BYTES, Compression, checksum, encode},
    direct::{ALIGNMENT, Aligned, WORTH_BYTES, set_direct, write_all_at},
    draft::new_file,
    error::{WriteError, writing},
    manifest::PartRecord,
    npy::npy_header,
    pace::{Pace, Progress},
};
use pcm_core::partition::Partition;
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
};

/// Polite threads of a large file: one copies and sums its block while the disk takes the other's.
const THREADS: usize = 2;

/// What a part is.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Local storage of an array.
    Array {
        dtype: &'a str,
        /// How the array is divided.
        partition: &'a Partition,
    },
    /// Bytes that mean something to the application only.
    Raw,
}

/// The bytes of a part, wherever they are.
pub trait Data: Sync {
    fn length(&self) -> u64;

    /// Copies those from `from` on, which may have to be waited for. Fails if they do not come.
    ///
    /// # Panics
    /// If there are no such bytes.
    fn copy(&self, from: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Data for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn copy(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self[from as usize..from as usize + into.len()]);
        Ok(())
    }
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
    let pace = Pace::new(None, Progress::default());
    write_part_paced(directory, file, rank, content, &data, compression, &pace)
}

/// As [`write_part`], no faster than `pace` lets it.
pub fn write_part_paced(
    directory: &Path,
    file: String,
    rank: u32,
    content: Content<'_>,
    data: &dyn Data,
    compression: Compression,
    pace: &Pace,
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
    let plain = Plain { header: &header, data };
    let path = directory.join(&file);
    let on_disk = new_file(&path).map_err(writing("create", &path))?;
    let written = match compression {
        Compression::None => Blocks::new(&on_disk, &plain, pace).write(),
        compression => Packed::new(&on_disk, &plain, pace, compression).write(),
    };
    let Sums { crc32, stored } = written.map_err(writing("write", &path))?;
    on_disk.sync_all().map_err(writing("make last", &path))?;
    Ok(PartRecord {
        rank,
        file,
        data_offset: header.len() as u64,
        data_bytes: data.length(),
        shape,
        owned,
        crc32,
        stored,
    })
}

/// A file before compression.
struct Plain<'a> {
    header: &'a [u8],
    data: &'a dyn Data,
}

impl Plain<'_> {
    fn length(&self) -> u64 {
        self.header.len() as u64 + self.data.length()
    }

    /// Copies the bytes from `from` on.
    fn copy(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        let header = self.header.get(from as usize..).unwrap_or_default();
        let (first, rest) = into.split_at_mut(header.len().min(into.len()));
        first.copy_from_slice(&header[..first.len()]);
        if rest.is_empty() {
            return Ok(());
        }
        self.data
            .copy(from + first.len() as u64 - self.header.len() as u64, rest)
    }
}

/// Of each block; lengths of compressed ones only.
#[derive(Default)]
struct Sums {
    crc32: Vec<u32>,
    stored: Vec<u64>,
}

/// Polite threads do `work`, and the calling thread as soon as somebody hurries. `work` is told whether it is to be
/// polite, returns when nothing is left to do, and may be done by several at a time.
fn together(pace: &Pace, threads: usize, work: &(dyn Fn(bool) + Sync)) {
    /// One thread less, however it ends.
    struct Ended<'a>(&'a AtomicUsize, &'a Pace);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
            self.1.progress().changed();
        }
    }
    let left = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            left.fetch_add(1, SeqCst);
            let ended = Ended(&left, pace);
            let polite = move || {
                let _ended = ended;
                pace.be_polite();
                work(true);
            };
            // Without it the others do more, at last the calling one.
            _ = thread::Builder::new()
                .name("pcm-files".to_owned())
                .spawn_scoped(scope, polite);
        }
        pace.progress().wait_for_hurry(|| left.load(SeqCst) == 0);
        work(false);
    });
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is written as it is.
struct Blocks<'a> {
    file: &'a File,
    plain: &'a Plain<'a>,
    pace: &'a Pace,
    /// The block that nobody has taken yet.
    next: AtomicU64,
    crc32: Mutex<Vec<u32>>,
    failed: Mutex<Option<io::Error>>,
}

impl<'a> Blocks<'a> {
    fn new(file: &'a File, plain: &'a Plain<'a>, pace: &'a Pace) -> Self {
        let blocks = plain.length().div_ceil(BLOCK_BYTES) as usize;
        Self {
            file,
            plain,
            pace,
            next: AtomicU64::new(0),
            crc32: Mutex::new(vec![0; blocks]),
            failed: Mutex::default(),
        }
    }

    fn write(self) -> io::Result<Sums> {
        let length = self.plain.length();
        if length >= WORTH_BYTES {
            // Room that cannot be set aside for another reason is taken block by block.
            if fallocate(self.file, FallocateFlags::empty(), 0, length) == Err(Errno::NOSPC) {
                return Err(Errno::NOSPC.into());
            }
            set_direct(self.file, true);
            let threads = if self.pace.is_bounded() { 1 } else { THREADS };
            together(self.pace, threads, &|_| self.work());
        } else {
            self.work();
        }
        if let Some(error) = held(&self.failed).take() {
            return Err(error);
        }
        // The end is no whole number of sectors.
        set_direct(self.file, false);
        let end = length - length % ALIGNMENT as u64;
        let mut tail = [0; ALIGNMENT];
        let tail = &mut tail[..(length - end) as usize];
        self.plain.copy(end, tail)?;
        write_all_at(self.file, tail, end)?;
        Ok(Sums {
            crc32: self.crc32.into_inner().unwrap_or_else(PoisonError::into_inner),
            stored: Vec::new(),
        })
    }

    fn work(&self) {
        let length = self.plain.length();
        let outcome = || -> io::Result<()> {
            // No block is longer than the first.
            let mut buffer = Aligned::new(length.min(BLOCK_BYTES) as usize)?;
            while held(&self.failed).is_none() {
                let at = self.next.fetch_add(1, Relaxed) * BLOCK_BYTES;
                if at >= length {
                    break;
                }
                let bytes = (length - at).min(BLOCK_BYTES) as usize;
                self.block(at, &mut buffer.bytes()[..bytes])?;
            }
            Ok(())
        };
        if let Err(error) = outcome() {
            held(&self.failed).get_or_insert(error);
        }
    }

    fn block(&self, at: u64, block: &mut [u8]) -> io::Result<()> {
        self.plain.copy(at, block)?;
        held(&self.crc32)[(at / BLOCK_BYTES) as usize] = checksum(block);
        if self.pace.take(block.len() as u64)? {
            self.file.sync_data()?;
        }
        let whole = block.len() - block.len() % ALIGNMENT;
        write_all_at(self.file, &block[..whole], at)
    }
}

/// A file whose blocks are compressed, one after the other.
struct Packed<'a> {
    file: &'a File,
    plain: &'a Plain<'a>,
    pace: &'a Pace,
    compression: Compression,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    at: u64,
    sums: Sums,
    block: Vec<u8>,
    packed: Vec<u8>,
    failed: Option<io::Error>,
}

impl<'a> Packed<'a> {
    fn new(file: &'a File, plain: &'a Plain<'a>, pace: &'a Pace, compression: Compression) -> Self {
        Self {
            file,
            plain,
            pace,
            compression,
            so_far: Mutex::default(),
        }
    }

    fn write(self) -> io::Result<Sums> {
        together(self.pace, 1, &|is_polite| self.work(is_polite));
        let so_far = self.so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
        so_far.failed.map_or(Ok(so_far.sums), Err)
    }

    fn work(&self, is_polite: bool) {
        loop {
            let mut so_far = held(&self.so_far);
            let is_over = so_far.at >= self.plain.length() || so_far.failed.is_some();
            if is_over || is_polite && self.pace.progress().is_urgent() {
                return;
            }
            if let Err(error) = self.block(&mut so_far) {
                so_far.failed = Some(error);
            }
        }
    }

    fn block(&self, so_far: &mut SoFar) -> io::Result<()> {
        let SoFar {
            at,
            sums,
            block,
            packed,
            ..
        } = so_far;
        block.resize((self.plain.length() - *at).min(BLOCK_BYTES) as usize, 0);
        self.plain.copy(*at, block)?;
        encode(self.compression, block, packed)?;
        sums.stored.push(packed.len() as u64);
        sums.crc32.push(checksum(packed));
        if self.pace.take(packed.len() as u64)? {
            self.file.sync_data()?;
        }
        let mut file = self.file;
        file.write_all(packed)?;
        *at += block.len() as u64;
        Ok(())
    }
}
