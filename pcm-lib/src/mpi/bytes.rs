//! Bytes of any length between one process and all: small records, at points where every process comes by itself.
#![allow(unsafe_code, reason = "calls MPI with memory that lives through the call")]

use super::{
    Communicator, MpiError,
    error::check,
    request::{byte, count_of},
};
use std::{os::raw::c_int, ptr};

impl Communicator {
    /// Gives every process what `root` has. Collective.
    pub fn broadcast(&self, bytes: &mut Vec<u8>, root: u32) -> Result<(), MpiError> {
        let mut length = (bytes.len() as u64).to_ne_bytes();
        self.broadcast_in_place(&mut length, root)?;
        bytes.resize(u64::from_ne_bytes(length) as usize, 0);
        self.broadcast_in_place(bytes, root)
    }

    /// As [`Communicator::broadcast`], where all know the length.
    pub fn broadcast_in_place(&self, bytes: &mut [u8], root: u32) -> Result<(), MpiError> {
        let count = count_of("Bcast", bytes.len())?;
        // SAFETY: the communicator exists, the memory has `count` bytes and lives through the call.
        let code = unsafe {
            let data = bytes.as_mut_ptr().cast();
            mpi_abi::PMPI_Bcast(data, count, byte(), root.cast_signed(), self.handle())
        };
        check("Bcast", code)
    }

    /// Longest record that every process may give to [`Communicator::gather`]: all of them have room together.
    pub fn gather_bytes_max(&self) -> Result<usize, MpiError> {
        Ok(c_int::MAX as usize / self.size()?.max(1) as usize)
    }

    /// Gives rank 0 what every process has, in rank order. Collective.
    ///
    /// # Panics
    /// If a record is longer than [`Communicator::gather_bytes_max`].
    pub fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, MpiError> {
        let size = self.size()? as usize;
        assert!(own.len() <= self.gather_bytes_max()?, "a record of {} bytes", own.len());
        let count = count_of("Gather", own.len())?;
        let is_root = self.rank()? == 0;
        let mut counts: Vec<c_int> = vec![0; if is_root { size } else { 0 }];
        let word = size_of::<c_int>() as c_int;
        // SAFETY: the communicator exists; rank 0 has room for one number of each process.
        let code = unsafe {
            let own = ptr::from_ref(&count).cast();
            let room = counts.as_mut_ptr().cast();
            mpi_abi::PMPI_Gather(own, word, byte(), room, word, byte(), 0, self.handle())
        };
        check("Gather", code)?;
        let lengths: Vec<usize> = counts.iter().map(|count| count.unsigned_abs() as usize).collect();
        let starts: Vec<c_int> = counts
            .iter()
            .scan(0, |at, count| Some(std::mem::replace(at, *at + count)))
            .collect();
        let mut all = vec![0_u8; lengths.iter().sum()];
        // SAFETY: as above; rank 0 has room for the sum of all lengths, and where each begins.
        let code = unsafe {
            let (data, room) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
            let (counts, starts) = (counts.as_ptr(), starts.as_ptr());
            mpi_abi::PMPI_Gatherv(data, count, byte(), room, counts, starts, byte(), 0, self.handle())
        };
        check("Gatherv", code)?;
        let mut rest = all.as_slice();
        let mut cut = |length: usize| {
            let (record, later) = rest.split_at(length);
            rest = later;
            record.to_vec()
        };
        Ok(is_root.then(|| lengths.into_iter().map(&mut cut).collect()))
    }
}
