//! Requests that programs have of operations under way.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::extensions::wait_for;
use super::persistent;
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

/// Calls with the requests of what was started in place of those that stand for it, which stay the program's.
///
/// # Safety
/// There are `count` requests.
unsafe fn with_started(
    count: c_int,
    requests: *mut MPI_Request,
    call: impl FnOnce(*mut MPI_Request) -> c_int,
) -> c_int {
    if !persistent::are_there() || requests.is_null() {
        return call(requests);
    }
    // SAFETY: the caller's contract.
    let given = unsafe { slice::from_raw_parts_mut(requests, usize::try_from(count).unwrap_or(0)) };
    let started: Vec<Option<MPI_Request>> = given.iter().map(|request| persistent::under_way(*request)).collect();
    let mut used: Vec<MPI_Request> = given
        .iter()
        .zip(&started)
        .map(|(own, started)| started.unwrap_or(*own))
        .collect();
    let code = call(used.as_mut_ptr());
    for ((given, started), used) in given.iter_mut().zip(started).zip(used) {
        match started {
            None => *given = used,
            Some(_) if used == mpi_abi::MPI_REQUEST_NULL() => persistent::ended(*given),
            Some(_) => {}
        }
    }
    code
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
    let wait = |requests: *mut MPI_Request| {
        if OPEN_COUNT.load(Acquire) > 0 && !requests.is_null() {
            // SAFETY: the caller's contract.
            let all = unsafe { slice::from_raw_parts(requests, usize::try_from(count).unwrap_or(0)) };
            // One that is not started is like a null one.
            if all.contains(&mpi_abi::MPI_REQUEST_NULL()) || persistent::are_there() {
                for request in all.iter().filter(|request| open().contains(&handle::word(**request))) {
                    wait_for(*request);
                }
            }
        }
        // SAFETY: the caller's contract.
        unsafe { mpi_abi::PMPI_Waitall(count, requests, statuses) }
    };
    // SAFETY: the caller's contract.
    unsafe { with_started(count, requests, wait) }
}

/// Functions of several requests, which see what was started.
macro_rules! of_several {
    ($(unsafe fn $name:ident($($more:ident: $of:ty),*), $own:ident;)*) => {
        $(
            /// As MPI says.
            ///
            /// # Safety
            /// The caller's arguments of the MPI function.
            pub(in crate::interpose) unsafe fn $name(
                count: c_int, requests: *mut MPI_Request, $($more: $of),*
            ) -> c_int {
                // SAFETY: the caller's contract.
                unsafe { with_started(count, requests, |requests| mpi_abi::$own(count, requests, $($more),*)) }
            }
        )*
    };
}

of_several! {
    unsafe fn MPI_Waitany(index: *mut c_int, status: *mut MPI_Status), PMPI_Waitany;
    unsafe fn MPI_Waitsome(ended: *mut c_int, indices: *mut c_int, statuses: *mut MPI_Status), PMPI_Waitsome;
    unsafe fn MPI_Testall(flag: *mut c_int, statuses: *mut MPI_Status), PMPI_Testall;
    unsafe fn MPI_Testany(index: *mut c_int, flag: *mut c_int, status: *mut MPI_Status), PMPI_Testany;
    unsafe fn MPI_Testsome(ended: *mut c_int, indices: *mut c_int, statuses: *mut MPI_Status), PMPI_Testsome;
    unsafe fn MPI_Request_get_status_all(flag: *mut c_int, statuses: *mut MPI_Status), PMPI_Request_get_status_all;
    unsafe fn MPI_Request_get_status_any(index: *mut c_int, flag: *mut c_int, status: *mut MPI_Status),
        PMPI_Request_get_status_any;
    unsafe fn MPI_Request_get_status_some(ended: *mut c_int, indices: *mut c_int, statuses: *mut MPI_Status),
        PMPI_Request_get_status_some;
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { with_started(1, request, |request| mpi_abi::PMPI_Wait(request, status)) }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { with_started(1, request, |request| mpi_abi::PMPI_Test(request, flag, status)) }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Request_get_status(
    mut request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    let look = |request: *mut MPI_Request| {
        // SAFETY: the request is there; the caller's contract for the rest.
        unsafe { mpi_abi::PMPI_Request_get_status(*request, flag, status) }
    };
    // SAFETY: it is one request.
    unsafe { with_started(1, &mut request, look) }
}

/// As MPI says.
///
/// # Safety
/// The caller's argument of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Start(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let is_looked_at = persistent::are_there() && !request.is_null();
        let begun = is_looked_at.then(|| persistent::start(*request)).flatten();
        begun.unwrap_or_else(|| mpi_abi::PMPI_Start(request))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Startall(count: c_int, requests: *mut MPI_Request) -> c_int {
    if !persistent::are_there() || requests.is_null() {
        // SAFETY: the caller's contract.
        return unsafe { mpi_abi::PMPI_Startall(count, requests) };
    }
    // SAFETY: the caller's contract.
    let all = unsafe { slice::from_raw_parts_mut(requests, usize::try_from(count).unwrap_or(0)) };
    // SAFETY: as above.
    let codes = all.iter_mut().map(|request| unsafe { MPI_Start(request) });
    codes.into_iter().find(|code| *code != 0).unwrap_or(0)
}

/// As MPI says.
///
/// # Safety
/// The caller's argument of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let is_looked_at = persistent::are_there() && !request.is_null();
        if let Some(mut started) = is_looked_at.then(|| persistent::forget(*request)).flatten() {
            mpi_abi::PMPI_Request_free(&mut started);
        }
        mpi_abi::PMPI_Request_free(request)
    }
}
