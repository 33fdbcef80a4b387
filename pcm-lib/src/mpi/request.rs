//! Messages that travel while the program goes on.
#![allow(unsafe_code, reason = "calls MPI with memory that must outlive the call")]

use super::{Communicator, MpiError, error::check};
use std::{
    mem::MaybeUninit,
    os::raw::c_int,
    time::{Duration, Instant},
};

/// Tests before the CPU is offered to others: what arrives within some 20 µs is met at full speed.
const EAGER_TESTS: u32 = 200;
/// So long it is offered between tests.
const YIELDS: Duration = Duration::from_millis(20);
/// Between later tests; a waiting rank then leaves its CPU to those that compute. Not shorter: see decision 11.
const PAUSE: Duration = Duration::from_millis(4);
/// After each pause: an MPI may look at the network in one of so many tests only (decision 46).
const TESTS_PER_PAUSE: u32 = 4;

/// A message on its way. Dropping it neither waits nor cancels.
#[derive(Debug)]
pub struct Request(pub(super) mpi_abi::MPI_Request);

/// What a completed receive says. After a send it has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Rank of the sender.
    pub source: u32,
    pub tag: u32,
    pub bytes: u64,
}

/// Outcome of [`Request::wait_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// This one is complete.
    Complete {
        /// Its place in the list.
        index: usize,
        received: Received,
    },
    /// The limit passed first; all requests are as before.
    Expired,
    /// No request in the list was active.
    Nothing,
}

impl Communicator {
    /// Sends `bytes`, at most 2 GiB, to a rank.
    ///
    /// # Safety
    /// `bytes` must stay where it is, unchanged, until the request is complete.
    pub unsafe fn isend(&self, bytes: &[u8], to: u32, tag: u32) -> Result<Request, MpiError> {
        let mut request = none();
        let count = count_of("Isend", bytes.len())?;
        // SAFETY: the communicator exists, the memory stays by contract.
        let code = unsafe {
            let data = bytes.as_ptr().cast();
            let (to, tag) = (to.cast_signed(), tag.cast_signed());
            mpi_abi::PMPI_Isend(data, count, byte(), to, tag, self.handle(), &mut request)
        };
        check("Isend", code).map(|()| Request(request))
    }

    /// Receives at most `room.len()` bytes from a rank.
    ///
    /// # Safety
    /// `room` must stay where it is, untouched, until the request is complete.
    pub unsafe fn irecv(&self, room: &mut [u8], from: u32, tag: u32) -> Result<Request, MpiError> {
        let mut request = none();
        let count = count_of("Irecv", room.len())?;
        // SAFETY: as in `isend`.
        let code = unsafe {
            let data = room.as_mut_ptr().cast();
            let (from, tag) = (from.cast_signed(), tag.cast_signed());
            mpi_abi::PMPI_Irecv(data, count, byte(), from, tag, self.handle(), &mut request)
        };
        check("Irecv", code).map(|()| Request(request))
    }
}

impl Request {
    /// Whether it is complete, and then what arrived.
    pub fn test(&mut self) -> Result<Option<Received>, MpiError> {
        let mut is_complete: c_int = 0;
        let mut status = MaybeUninit::uninit();
        // SAFETY: the request is MPI's; the status is written when it is complete.
        unsafe {
            check(
                "Test",
                mpi_abi::PMPI_Test(&mut self.0, &mut is_complete, status.as_mut_ptr()),
            )?;
            if is_complete == 0 {
                Ok(None)
            } else {
                received(&status.assume_init()).map(Some)
            }
        }
    }

    /// Waits at most `limit` until one of the requests is complete.
    pub fn wait_any(requests: &mut [Self], limit: Duration) -> Result<Waited, MpiError> {
        let mut handles: Vec<mpi_abi::MPI_Request> = requests.iter().map(|request| request.0).collect();
        let count = count_of("Testany", handles.len())?;
        let began = Instant::now();
        let end = began + limit;
        let mut tests = 0_u32;
        loop {
            let (mut index, mut is_complete): (c_int, c_int) = (0, 0);
            let mut status = MaybeUninit::uninit();
            // SAFETY: the list has `count` requests of MPI's; the status is written when one is complete.
            unsafe {
                let first = handles.as_mut_ptr();
                let code = mpi_abi::PMPI_Testany(count, first, &mut index, &mut is_complete, status.as_mut_ptr());
                check("Testany", code)?;
                if is_complete != 0 {
                    let Ok(index) = usize::try_from(index) else {
                        return Ok(Waited::Nothing);
                    };
                    requests[index].0 = handles[index];
                    return received(&status.assume_init()).map(|received| Waited::Complete { index, received });
                }
            }
            let now = Instant::now();
            if now >= end {
                return Ok(Waited::Expired);
            }
            tests += 1;
            if now - began > YIELDS {
                if tests.is_multiple_of(TESTS_PER_PAUSE) {
                    std::thread::sleep(PAUSE);
                }
            } else if tests > EAGER_TESTS {
                std::thread::yield_now();
            }
        }
    }
}

pub(super) fn count_of(call: &'static str, length: usize) -> Result<c_int, MpiError> {
    c_int::try_from(length).map_err(|_| MpiError {
        call,
        code: mpi_abi::MPI_ERR_COUNT,
        text: format!("{length} elements in one call; cut them in parts below 2 GiB"),
    })
}

pub(super) fn none() -> mpi_abi::MPI_Request {
    mpi_abi::MPI_REQUEST_NULL()
}

pub(super) fn byte() -> mpi_abi::MPI_Datatype {
    mpi_abi::MPI_UINT8_T()
}

pub(super) fn received(status: &mpi_abi::MPI_Status) -> Result<Received, MpiError> {
    let mut bytes: c_int = 0;
    // SAFETY: the status is one MPI wrote.
    check("Get_count", unsafe {
        mpi_abi::PMPI_Get_count(status, byte(), &mut bytes)
    })?;
    let (source, tag) = (status.MPI_SOURCE.unsigned_abs(), status.MPI_TAG.unsigned_abs());
    Ok(Received {
        source,
        tag,
        bytes: u64::try_from(bytes).unwrap_or(0),
    })
}
