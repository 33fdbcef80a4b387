//! Requests that programs have of operations under way.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::extensions::wait_for;
use crate::mpi::handle;
use mpi_abi::{MPI_Request, MPI_Status};
use std::{
    collections::BTreeSet,
    os::raw::c_int,
    slice,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Release},
        },
    },
};

/// Requests of operations under way, by number, and how many there are.
static OPEN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);

fn open() -> MutexGuard<'static, BTreeSet<u64>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program has a request.
pub(super) fn opened(request: MPI_Request) {
    let mut open = open();
    open.insert(handle::word(request));
    OPEN_COUNT.store(open.len(), Release);
}

/// It is about to be complete.
pub(super) fn closed(request: MPI_Request) {
    let mut open = open();
    open.remove(&handle::word(request));
    OPEN_COUNT.store(open.len(), Release);
}

/// As MPI says. MPICH's ends the process where one of our requests, not complete yet, is beside a null one: those are
/// waited for before.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Waitall(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
) -> c_int {
    if OPEN_COUNT.load(Acquire) > 0 && !requests.is_null() {
        // SAFETY: the caller's contract.
        let all = unsafe { slice::from_raw_parts(requests, usize::try_from(count).unwrap_or(0)) };
        if all.contains(&mpi_abi::MPI_REQUEST_NULL) {
            for request in all.iter().filter(|request| open().contains(&handle::word(**request))) {
                wait_for(*request);
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe { mpi_abi::PMPI_Waitall(count, requests, statuses) }
}
