//! What Open MPI can do with MPI_COMM_WORLD alone, for programs whose MPI_COMM_WORLD has become another communicator.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use crate::start;
use mpi_abi::{Family, MPI_Comm};
use std::{
    ops::Range,
    os::raw::{c_int, c_void},
};

/// Keys of Open MPI's own attributes, from MPI_TAG_UB to MPI_FT.
const KEYS: Range<c_int> = 0..13;

/// The job's communicator, where that is not the world that MPI began with.
fn job() -> Option<MPI_Comm> {
    let started = start::started().filter(|_| mpi_abi::FAMILY == Family::OpenMpi)?;
    started.recorder.job_apart_from_world()
}

/// As MPI says. Attributes of MPI's own are with the world.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_get_attr(
    communicator: MPI_Comm,
    key: c_int,
    value: *mut c_void,
    is_there: *mut c_int,
) -> c_int {
    let is_of_world = KEYS.contains(&key) && job() == Some(communicator);
    let asked = if is_of_world {
        mpi_abi::MPI_COMM_WORLD()
    } else {
        communicator
    };
    // SAFETY: the caller's contract.
    unsafe { mpi_abi::PMPI_Comm_get_attr(asked, key, value, is_there) }
}

/// The older name.
///
/// # Safety
/// As of the other.
pub(super) unsafe fn MPI_Attr_get(
    communicator: MPI_Comm,
    key: c_int,
    value: *mut c_void,
    is_there: *mut c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { MPI_Comm_get_attr(communicator, key, value, is_there) }
}

/// As MPI says. Over several worlds Open MPI's own never returns (5.0.11) where it is not between two groups.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_disconnect(communicator: *mut MPI_Comm) -> c_int {
    let mut is_between = 1;
    // SAFETY: the caller's contract; a communicator is read where one is given.
    unsafe {
        let is_usable = job().is_some() && !communicator.is_null();
        if is_usable {
            mpi_abi::PMPI_Comm_test_inter(*communicator, &mut is_between);
        }
        if is_between != 0 {
            return mpi_abi::PMPI_Comm_disconnect(communicator);
        }
        match mpi_abi::PMPI_Barrier(*communicator) {
            0 => mpi_abi::PMPI_Comm_free(communicator),
            code => code,
        }
    }
}
