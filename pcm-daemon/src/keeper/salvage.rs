//! Copies the registered data out of a process that hangs, into an image. The process's own table says what to copy; it
//! is not trusted: what it names is read as the kernel allows, and an image is bounded. Done in short steps, so that
//! the keeper goes on hearing its children.
#![allow(unsafe_code, reason = "reads another process's memory")]

use super::images::Image;
use pcm_proto::parked::{ParkKey, STRETCHES_MAX, Stretch};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::Pid;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Copied at once: fits the second-level cache, so that the bytes are written from there.
const BUFFER_BYTES: usize = 256 * 1024;

/// Copied in one step: some ten milliseconds.
const STEP_BYTES: u64 = 64 << 20;

/// Why no image can be made.
#[derive(Debug)]
pub(super) enum SalvageError {
    /// The process keeps no table.
    NoTable,
    /// The table has more entries than an image has stretches.
    TooMany { stretches: u32 },
    /// A stretch lies where none can.
    Stretch { stretch: Stretch },
    /// Memory of the process cannot be read.
    Read { address: u64, error: io::Error },
    /// The memory file cannot be made or written.
    File { error: io::Error },
}

impl fmt::Display for SalvageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable => write!(
                f,
                "the process keeps no table of its data: it is not held at an iteration, or has a custom region"
            ),
            Self::TooMany { stretches } => {
                write!(
                    f,
                    "the process names {stretches} stretches of data, {STRETCHES_MAX} are allowed"
                )
            }
            Self::Stretch { stretch } => write!(
                f,
                "the process names {} bytes at {:#x}, which cannot be",
                stretch.length, stretch.address
            ),
            Self::Read { address, error } => write!(f, "memory of the process at {address:#x} cannot be read: {error}"),
            Self::File { error } => write!(f, "no memory for a copy of the data: {error}"),
        }
    }
}

/// An image in the making.
#[derive(Debug)]
pub(super) struct Salvage {
    pub(super) key: ParkKey,
    pid: Pid,
    stretches: Vec<Stretch>,
    file: OwnedFd,
    bytes: u64,
    /// The stretch that is being copied, and what was copied of it.
    at: (usize, u64),
}

impl Salvage {
    /// Reads the table of a process.
    pub(super) fn begin(key: ParkKey, pid: Pid, table: u64, count: u32) -> Result<Self, SalvageError> {
        if table == 0 || count == 0 {
            return Err(SalvageError::NoTable);
        }
        if count > STRETCHES_MAX {
            return Err(SalvageError::TooMany { stretches: count });
        }
        let mut bytes = vec![0; count as usize * Stretch::BYTES];
        read_exact(pid, table, &mut bytes)?;
        let (entries, _) = bytes.as_chunks::<{ Stretch::BYTES }>();
        let stretches: Vec<Stretch> = entries.iter().map(Stretch::decode).collect();
        let mut length = 0;
        for stretch in &stretches {
            length = length.max(stretch.end().ok_or(SalvageError::Stretch { stretch: *stretch })?);
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("pcm-salvaged", flags).map_err(file_error)?;
        ftruncate(&file, length).map_err(file_error)?;
        Ok(Self {
            key,
            pid,
            stretches,
            file,
            bytes: length,
            at: (0, 0),
        })
    }

    /// Copies on; the image once it is complete.
    pub(super) fn step(&mut self) -> Result<Option<Image>, SalvageError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut left = STEP_BYTES;
        while let Some(stretch) = self.stretches.get(self.at.0) {
            let done = self.at.1;
            let length = (stretch.length - done).min(BUFFER_BYTES as u64);
            if length == 0 {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            if left < length {
                return Ok(None);
            }
            let part = &mut buffer[..length as usize];
            read_exact(self.pid, stretch.address.wrapping_add(done), part)?;
            write_at(&self.file, part, stretch.offset + done).map_err(|error| SalvageError::File { error })?;
            self.at.1 += length;
            left -= length;
        }
        let file = self.file.try_clone().map_err(|error| SalvageError::File { error })?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(file_error)?;
        Ok(Some(Image {
            file,
            bytes: self.bytes,
        }))
    }
}

fn file_error(errno: rustix::io::Errno) -> SalvageError {
    SalvageError::File { error: errno.into() }
}

fn write_at(file: &OwnedFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::fs::File::from(file.try_clone()?).write_all_at(bytes, offset)
}

/// Reads memory of a process; all of it or an error.
fn read_exact(pid: Pid, address: u64, into: &mut [u8]) -> Result<(), SalvageError> {
    let mut done = 0;
    while done < into.len() {
        let here = address.wrapping_add(done as u64);
        let rest = &mut into[done..];
        let local = libc::iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        };
        let remote = libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(here as usize),
            iov_len: rest.len(),
        };
        // SAFETY: the local vector names memory that is ours alone; the remote one is only looked up by the kernel.
        let read = unsafe { libc::process_vm_readv(pid.as_raw_nonzero().get(), &local, 1, &remote, 1, 0) };
        match usize::try_from(read) {
            Ok(0) | Err(_) => {
                let error = io::Error::last_os_error();
                return Err(SalvageError::Read { address: here, error });
            }
            Ok(read) => done += read,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, JobId, ProcessId, Term};
    use pcm_proto::reconfiguration::Attempt;
    use rustix::process::getpid;

    fn key() -> ParkKey {
        let attempt = Attempt {
            epoch: Epoch(0),
            term: Term(0),
            number: 1,
        };
        ParkKey {
            job: JobId(1),
            attempt,
            process: ProcessId(0),
        }
    }

    fn stretch(bytes: &[u8], offset: u64) -> Stretch {
        Stretch {
            address: bytes.as_ptr().expose_provenance() as u64,
            length: bytes.len() as u64,
            offset,
        }
    }

    fn begin(stretches: &[Stretch]) -> Result<Salvage, SalvageError> {
        let table: Vec<u8> = stretches.iter().flat_map(|stretch| stretch.encode()).collect();
        Salvage::begin(
            key(),
            getpid(),
            table.as_ptr().expose_provenance() as u64,
            stretches.len() as u32,
        )
    }

    #[test]
    fn stretches_land_at_their_places_and_nobody_can_change_the_image() {
        let large: Vec<u8> = (0..3 * BUFFER_BYTES + 17).map(|n| (n % 251) as u8).collect();
        let mut salvage = begin(&[stretch(b"head", 0), stretch(&large, 4096), stretch(&[], 9)]).unwrap();
        let image = salvage.step().unwrap().unwrap();
        assert_eq!(image.bytes, 4096 + large.len() as u64);
        let file = std::fs::File::from(image.file);
        let mut read = vec![0; large.len()];
        file.read_exact_at(&mut read, 4096).unwrap();
        assert_eq!(read, large);
        assert!(file.write_all_at(b"x", 0).is_err() && file.set_len(0).is_err());
    }

    #[test]
    fn a_table_that_names_what_is_not_there_is_an_error() {
        let nowhere = Stretch {
            address: 8,
            length: 100,
            offset: 0,
        };
        let mut salvage = begin(&[nowhere]).unwrap();
        assert!(matches!(salvage.step(), Err(SalvageError::Read { address: 8, .. })));
        let beyond = Stretch {
            offset: u64::MAX,
            ..nowhere
        };
        assert!(matches!(begin(&[beyond]), Err(SalvageError::Stretch { .. })));
        assert!(matches!(begin(&[]), Err(SalvageError::NoTable)));
    }
}
