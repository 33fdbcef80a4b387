//! Sizes of MPI datatypes, asked once: of the predefined ones at the start, of others when they are committed.
#![allow(unsafe_code, reason = "asks MPI for sizes")]

use mpi_abi::MPI_Datatype;
use std::os::raw::c_int;

/// Bytes of one element of a type that exists.
pub(super) fn size(datatype: MPI_Datatype) -> Option<u64> {
    let mut size: c_int = 0;
    // SAFETY: the caller has the type from MPI itself; the output is a local.
    let code = unsafe { mpi_abi::PMPI_Type_size(datatype, &mut size) };
    // A size beyond `int` comes as MPI_UNDEFINED, which is negative.
    u64::try_from(size).ok().filter(|_| code == 0)
}
