//! Whether MPI takes a type, or an operator with it. A rank that found out in the middle of an operation would leave
//! the others waiting; and MPI's refusal is one of the caller's communicator, so what it would refuse is left to it.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::{MPI_Comm, MPI_Datatype, MPI_Op};
use std::os::raw::c_void;
use std::ptr;
use std::sync::OnceLock;

/// This rank alone, where errors are only returned.
fn alone() -> Option<MPI_Comm> {
    static ALONE: OnceLock<Option<MPI_Comm>> = OnceLock::new();
    *ALONE.get_or_init(|| {
        let mut alone = mpi_abi::MPI_COMM_NULL();
        // SAFETY: MPI is initialised: the program is in an operation of it.
        let is_made = unsafe {
            mpi_abi::PMPI_Comm_dup(mpi_abi::MPI_COMM_SELF(), &mut alone) == 0
                && mpi_abi::PMPI_Comm_set_errhandler(alone, mpi_abi::MPI_ERRORS_RETURN()) == 0
        };
        is_made.then_some(alone)
    })
}

pub(super) fn takes(datatype: MPI_Datatype) -> bool {
    let mut nothing = 0_u64;
    // SAFETY: no element is read or written.
    alone().is_some_and(|alone| unsafe {
        mpi_abi::PMPI_Bcast(ptr::from_mut(&mut nothing).cast(), 0, datatype, 0, alone) == 0
    })
}

/// The memory of operands and of the result must not be the same.
pub(super) fn combines((datatype, op): (MPI_Datatype, MPI_Op), given: *mut c_void, result: *mut c_void) -> bool {
    let (mut nothing, mut sum) = (0_u64, 0_u64);
    let (nothing, sum) = (ptr::from_mut(&mut nothing).cast(), ptr::from_mut(&mut sum).cast());
    let is_apart = given.is_null() || given != result;
    // SAFETY: no element is read or written.
    let combines = |alone| unsafe { mpi_abi::PMPI_Allreduce(nothing, sum, 0, datatype, op, alone) == 0 };
    is_apart && alone().is_some_and(combines)
}
