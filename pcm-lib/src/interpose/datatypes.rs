//! Sizes of MPI datatypes, asked once: of the predefined ones at the start, of others when they are committed.
#![allow(unsafe_code, reason = "reads constants of mpi.h, asks MPI for sizes")]

use mpi_abi::MPI_Datatype;
use std::os::raw::{c_int, c_void};

unsafe extern "C" {
    static pcm_mpi_in_place: *mut c_void;
    static pcm_mpi_predefined: [MPI_Datatype; 0];
    static pcm_mpi_predefined_count: c_int;
}

pub(super) fn in_place() -> *mut c_void {
    // SAFETY: a constant of interpose/constants.c.
    unsafe { pcm_mpi_in_place }
}

/// Every predefined type that this MPI has.
pub(super) fn predefined() -> impl Iterator<Item = MPI_Datatype> {
    // SAFETY: constants of interpose/constants.c, which says how many types the array has.
    let types = unsafe {
        let count = usize::try_from(pcm_mpi_predefined_count).unwrap_or(0);
        let first = (&raw const pcm_mpi_predefined).cast::<MPI_Datatype>();
        std::slice::from_raw_parts(first, count)
    };
    let null = mpi_abi::MPI_DATATYPE_NULL;
    types.iter().copied().filter(move |datatype| *datatype != null)
}

/// Bytes of one element of a type that exists.
pub(super) fn size(datatype: MPI_Datatype) -> Option<u64> {
    let mut size: c_int = 0;
    // SAFETY: the caller has the type from MPI itself; the output is a local.
    let code = unsafe { mpi_abi::PMPI_Type_size(datatype, &mut size) };
    // A size beyond `int` comes as MPI_UNDEFINED, which is negative.
    u64::try_from(size).ok().filter(|_| code == 0)
}
