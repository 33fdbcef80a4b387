//! Reading and writing past the page cache, where the file system can: data that is written or read once would only be
//! copied there, into fresh pages, which costs the CPUs more than the disk needs for it.

use memmap2::{Advice, MmapMut, MmapOptions};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::{fs::File, io, os::unix::fs::FileExt};

/// What places in a file and in memory must be multiples of: no disk has larger sectors.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes read at once: enough that a disk is at its full rate with two of them, few enough to be in a CPU's cache when
/// they are summed and copied.
pub(crate) const PIECE_BYTES: usize = 4 << 20;

/// Less than this is not worth it, nor threads.
pub(crate) const WORTH_BYTES: u64 = 8 << 20;

/// The size of large pages where they are smallest; a multiple of [`ALIGNMENT`].
const LARGE_PAGE: usize = 2 << 20;

/// Memory that begins where direct transfers may, in large pages where the system has them: a disk takes so many pieces
/// of memory in a request and no more, and requests of small pages are too short for its full rate.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: MmapMut,
    first: usize,
}

impl Aligned {
    /// At least so many bytes.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let length = bytes.next_multiple_of(LARGE_PAGE) + LARGE_PAGE;
        let memory = MmapOptions::new().len(length).map_anon()?;
        if bytes >= LARGE_PAGE / 2 {
            // Without them it is only slower.
            _ = memory.advise(Advice::HugePage);
        }
        let first = memory.as_ptr().align_offset(LARGE_PAGE);
        Ok(Self { memory, first })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let end = self.memory.len() - LARGE_PAGE + self.first;
        &mut self.memory[self.first..end]
    }
}

/// Whether what is read or written from now on goes past the page cache.
pub(crate) fn set_direct(file: &File, is_direct: bool) -> bool {
    let flags = fcntl_getfl(file).map(|mut flags| {
        flags.set(OFlags::DIRECT, is_direct);
        flags
    });
    let set = flags.and_then(|flags| fcntl_setfl(file, flags));
    set.is_ok() && is_direct
}

/// Writes all of it, past the page cache if the file is so and its system takes it.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    match file.write_all_at(bytes, at) {
        // Another alignment is asked for, or a piece was taken in part: the page cache takes all.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            set_direct(file, false);
            file.write_all_at(bytes, at)
        }
        outcome => outcome,
    }
}

/// Reads so many bytes, past the page cache if the file is so and its system can. `into` may be longer, so that its end
/// is one that direct transfers may have.
pub(crate) fn read_at(file: &File, into: &mut [u8], at: u64, wanted: usize) -> io::Result<()> {
    let (mut done, mut is_refused) = (0, false);
    while done < wanted {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && !is_refused => {
                is_refused = true;
                set_direct(file, false);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
