//! What a move needs of the processes that take part, whatever connects them: one communicator of all, or two groups.
#![allow(unsafe_code, reason = "passes on memory that must outlive the call")]

use super::{AllToAll, Communicator, MpiError, Request, Stretch};
use std::fmt;

/// Processes by their rank in a move: the old ranks, then the newcomers.
pub trait Transport: fmt::Debug {
    /// Position of this process.
    fn rank(&self) -> Result<u32, MpiError>;

    /// Number of processes.
    fn size(&self) -> Result<u32, MpiError>;

    /// See [`Communicator::isend`].
    ///
    /// # Safety
    /// As there.
    unsafe fn isend(&self, bytes: &[u8], to: u32, tag: u32) -> Result<Request, MpiError>;

    /// See [`Communicator::irecv`].
    ///
    /// # Safety
    /// As there.
    unsafe fn irecv(&self, room: &mut [u8], from: u32, tag: u32) -> Result<Request, MpiError>;

    /// Gives every process the bytes that the first one has.
    ///
    /// # Safety
    /// `bytes` must stay where it is, untouched, until all requests are complete.
    unsafe fn ibcast_of_first(&self, bytes: &mut [u8]) -> Result<Vec<Request>, MpiError>;

    /// Writes the least numbers of all processes to `least`, one for each side that there is; the others stay.
    ///
    /// # Safety
    /// Both must stay where they are, untouched, until all requests are complete.
    unsafe fn iallreduce_min(&self, own: &u64, least: &mut [u64; 2]) -> Result<Vec<Request>, MpiError>;

    /// Gives `out[p]` to process `p` and puts what it gives to `into[p]`.
    ///
    /// # Safety
    /// The bytes must stay where they are until the exchange is complete, those of `out` unchanged, those of `into`
    /// untouched. There are as many of both as there are processes.
    unsafe fn ialltoallv(&self, out: &[Stretch], into: &[Stretch]) -> Result<AllToAll, MpiError>;
}

impl Transport for Communicator {
    fn rank(&self) -> Result<u32, MpiError> {
        Self::rank(self)
    }

    fn size(&self) -> Result<u32, MpiError> {
        Self::size(self)
    }

    unsafe fn isend(&self, bytes: &[u8], to: u32, tag: u32) -> Result<Request, MpiError> {
        // SAFETY: by contract.
        unsafe { Self::isend(self, bytes, to, tag) }
    }

    unsafe fn irecv(&self, room: &mut [u8], from: u32, tag: u32) -> Result<Request, MpiError> {
        // SAFETY: by contract.
        unsafe { Self::irecv(self, room, from, tag) }
    }

    unsafe fn ibcast_of_first(&self, bytes: &mut [u8]) -> Result<Vec<Request>, MpiError> {
        // SAFETY: by contract.
        unsafe { self.ibcast(bytes, 0) }.map(|request| vec![request])
    }

    unsafe fn iallreduce_min(&self, own: &u64, least: &mut [u64; 2]) -> Result<Vec<Request>, MpiError> {
        // SAFETY: by contract.
        unsafe { Self::iallreduce_min(self, own, &mut least[0]) }.map(|request| vec![request])
    }

    unsafe fn ialltoallv(&self, out: &[Stretch], into: &[Stretch]) -> Result<AllToAll, MpiError> {
        // SAFETY: by contract.
        unsafe { AllToAll::begin(self.handle(), out, into) }
    }
}

/// Whether all are complete; those that are, are forgotten.
pub fn are_complete(requests: &mut Vec<Request>) -> Result<bool, MpiError> {
    while let Some(request) = requests.last_mut() {
        if request.test()?.is_none() {
            return Ok(false);
        }
        requests.pop();
    }
    Ok(true)
}
