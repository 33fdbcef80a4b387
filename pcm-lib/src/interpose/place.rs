//! Rank and size: a process that joins has those of the layout that is planned before it has the communicator.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::recorder;
use mpi_abi::MPI_Comm;
use std::os::raw::c_int;

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
#[inline]
pub(super) unsafe fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments; MPI checks those it is given.
    unsafe { answer(comm, rank, |(rank, _)| rank, mpi_abi::PMPI_Comm_rank) }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
#[inline]
pub(super) unsafe fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    // SAFETY: as in `MPI_Comm_rank`.
    unsafe { answer(comm, size, |(_, size)| size, mpi_abi::PMPI_Comm_size) }
}

#[inline]
unsafe fn answer(
    comm: MPI_Comm,
    number: *mut c_int,
    planned: impl FnOnce((u32, u32)) -> u32,
    ask: unsafe extern "C" fn(MPI_Comm, *mut c_int) -> c_int,
) -> c_int {
    let Some(recorder) = recorder::active() else {
        // SAFETY: the caller's contract.
        return unsafe { ask(comm, number) };
    };
    // SAFETY: a constant of the MPI library; `number` is NULL, for MPI to refuse, or good.
    unsafe {
        match (recorder.planned(comm), number.as_mut()) {
            (Some(both), Some(number)) => {
                *number = planned(both).cast_signed();
                0
            }
            _ => ask(recorder.current(comm), number),
        }
    }
}
