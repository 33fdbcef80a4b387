//! Collective operations that do not block, so that a process that never comes costs a deadline and not a hang.
#![allow(unsafe_code, reason = "calls MPI with memory that must outlive the call")]

use super::{
    Communicator, MpiError, Request,
    error::check,
    request::{byte, count_of, none},
};
use mpi_abi::MPI_Comm;

impl Communicator {
    /// Gives every process the bytes that `root` has.
    ///
    /// # Safety
    /// `bytes` must stay where it is, untouched, until the request is complete.
    pub unsafe fn ibcast(&self, bytes: &mut [u8], root: u32) -> Result<Request, MpiError> {
        let mut request = none();
        let count = count_of("Ibcast", bytes.len())?;
        // SAFETY: the communicator exists, the memory stays by contract.
        let code = unsafe {
            let data = bytes.as_mut_ptr().cast();
            mpi_abi::PMPI_Ibcast(data, count, byte(), root.cast_signed(), self.handle(), &mut request)
        };
        check("Ibcast", code).map(|()| Request(request))
    }

    /// Writes the least of all processes' numbers to `least`.
    ///
    /// # Safety
    /// As for [`Communicator::ibcast`], for both numbers.
    pub unsafe fn iallreduce_min(&self, own: &u64, least: &mut u64) -> Result<Request, MpiError> {
        // SAFETY: by contract.
        unsafe { iallreduce_min(self.handle(), own, least) }
    }
}

/// See [`Communicator::iallreduce_min`]; of an inter-communicator the numbers are those of the other side.
///
/// # Safety
/// As there.
pub(super) unsafe fn iallreduce_min(communicator: MPI_Comm, own: &u64, least: &mut u64) -> Result<Request, MpiError> {
    let mut request = none();
    // SAFETY: the communicator exists, the memory stays by contract.
    let code = unsafe {
        let (own, least) = (std::ptr::from_ref(own).cast(), std::ptr::from_mut(least).cast());
        let (number, smallest) = (mpi_abi::MPI_UINT64_T(), mpi_abi::MPI_MIN());
        mpi_abi::PMPI_Iallreduce(own, least, 1, number, smallest, communicator, &mut request)
    };
    check("Iallreduce", code).map(|()| Request(request))
}
