//! Operations that a program starts again and again. It has a request of MPI's that is never started and stands for the
//! operation; each start begins the nonblocking form.
#![allow(unsafe_code, reason = "calls MPI")]

use super::failed::Failed;
use super::held::Held;
use crate::mpi::handle;
use mpi_abi::MPI_Request;
use std::{
    collections::BTreeMap,
    os::raw::c_int,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Release},
        },
    },
};

/// Begins the operation and says where its request is.
pub(super) type Again = Box<dyn Fn(*mut MPI_Request) -> c_int>;

struct Persistent {
    again: Again,
    /// The request of the form that was started last, until the program has seen its end.
    under_way: Option<MPI_Request>,
    /// Types and operators, which the program may have freed.
    _held: Held,
}

// SAFETY: memory of the program that it has given away until it frees the request, which any thread may use.
unsafe impl Send for Persistent {}

/// By the number of the request that the program has.
static ALL: Mutex<BTreeMap<u64, Persistent>> = Mutex::new(BTreeMap::new());

/// How many there are: none, most of the time.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn all() -> MutexGuard<'static, BTreeMap<u64, Persistent>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn are_there() -> bool {
    COUNT.load(Acquire) > 0
}

/// A request that stands for an operation.
pub(super) fn made(again: Again, held: Held) -> Result<MPI_Request, Failed> {
    let mut request = mpi_abi::MPI_REQUEST_NULL();
    // SAFETY: it is never started, so that nothing is received.
    Failed::unless(unsafe {
        let (room, of, own) = (ptr::null_mut(), mpi_abi::MPI_BYTE(), mpi_abi::MPI_COMM_SELF());
        mpi_abi::PMPI_Recv_init(room, 0, of, 0, 0, own, &mut request)
    })?;
    let mut all = all();
    let persistent = Persistent {
        again,
        under_way: None,
        _held: held,
    };
    all.insert(handle::word(request), persistent);
    COUNT.store(all.len(), Release);
    Ok(request)
}

/// Begins the operation that a request stands for; None if it stands for none.
pub(super) fn start(request: MPI_Request) -> Option<c_int> {
    let mut all = all();
    let persistent = all.get_mut(&handle::word(request))?;
    if persistent.under_way.is_some() {
        return Some(mpi_abi::MPI_ERR_REQUEST);
    }
    let mut begun = mpi_abi::MPI_REQUEST_NULL();
    let code = (persistent.again)(&mut begun);
    if code == 0 {
        persistent.under_way = Some(begun);
    }
    Some(code)
}

/// What was started for a request.
pub(super) fn under_way(request: MPI_Request) -> Option<MPI_Request> {
    all().get(&handle::word(request))?.under_way
}

/// The program has seen the end of what was started.
pub(super) fn ended(request: MPI_Request) {
    if let Some(persistent) = all().get_mut(&handle::word(request)) {
        persistent.under_way = None;
    }
}

/// The program gives the request back; what was started for it and goes on.
pub(super) fn forget(request: MPI_Request) -> Option<MPI_Request> {
    let mut all = all();
    let persistent = all.remove(&handle::word(request))?;
    COUNT.store(all.len(), Release);
    drop(all);
    persistent.under_way
}
