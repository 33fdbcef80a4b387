//! What MPICH has beyond the standard: a function of ours that it calls whenever it works for messages
//! (MPIX_Async_start), and whether a request is complete, asked without such work.
#![allow(unsafe_code, reason = "calls MPI")]

use super::failed::Failed;
use mpi_abi::{Family, Function, MPI_Request};
use std::{
    mem::transmute,
    os::raw::{c_int, c_void},
    ptr::NonNull,
    sync::OnceLock,
    thread,
};

pub(super) type Poll = unsafe extern "C" fn(*mut c_void) -> c_int;
/// The last argument is a stream, which is a number in the ABI of MPICH; others have no such function.
pub(super) type AsyncStart = unsafe extern "C" fn(Poll, *mut c_void, c_int) -> c_int;
pub(super) type AsyncState = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type StreamProgress = unsafe extern "C" fn(c_int) -> c_int;
type IsComplete = unsafe extern "C" fn(MPI_Request) -> c_int;

pub(super) const NO_STREAM: c_int = 0x3c00_0000;

/// What MPICH has beyond the standard.
pub(super) struct Extensions {
    pub(super) async_start: AsyncStart,
    pub(super) async_state: AsyncState,
    is_complete: IsComplete,
    stream_progress: StreamProgress,
}

/// None where MPI's own nonblocking operations serve. It is one MPI in all ranks of a job, so all decide alike.
pub(super) fn extensions() -> Option<&'static Extensions> {
    static FOUND: OnceLock<Option<Extensions>> = OnceLock::new();
    static START: Function = Function::new("PMPIX_Async_start\0");
    static STATE: Function = Function::new("PMPIX_Async_get_state\0");
    static PROGRESS: Function = Function::new("PMPIX_Stream_progress\0");
    static COMPLETE: Function = Function::new("PMPIX_Request_is_complete\0");
    // With MPICH 4.3 jobs with several threads in MPI hung: version 5 has this function.
    static OF_VERSION_5: Function = Function::new("PMPI_Abi_get_version\0");
    let find = || {
        OF_VERSION_5.address()?;
        let (start, state) = (START.address()?, STATE.address()?);
        let (complete, progress) = (COMPLETE.address()?, PROGRESS.address()?);
        // SAFETY: functions of these names have these types in the ABI of MPICH.
        let found = unsafe {
            Extensions {
                async_start: transmute::<NonNull<c_void>, AsyncStart>(start),
                async_state: transmute::<NonNull<c_void>, AsyncState>(state),
                is_complete: transmute::<NonNull<c_void>, IsComplete>(complete),
                stream_progress: transmute::<NonNull<c_void>, StreamProgress>(progress),
            }
        };
        (mpi_abi::FAMILY == Family::Mpich).then_some(found)
    };
    FOUND.get_or_init(find).as_ref()
}

/// Whether nonblocking operations can be ours.
pub(super) fn is_possible() -> bool {
    extensions().is_some()
}

/// Whether a request is complete, which it is no more then. Lets MPI do nothing else.
pub(super) fn is_complete(request: &mut MPI_Request) -> Result<bool, Failed> {
    let Some(extensions) = extensions() else {
        return Err(Failed(mpi_abi::MPI_ERR_UNSUPPORTED_OPERATION));
    };
    let mut flag = 0;
    // SAFETY: a request of ours; the output is a local. MPICH does not look for messages for one that is complete.
    unsafe {
        if (extensions.is_complete)(*request) == 0 {
            return Ok(false);
        }
        Failed::unless(mpi_abi::PMPI_Test(request, &mut flag, mpi_abi::MPI_STATUS_IGNORE))?;
    }
    Ok(flag != 0)
}

/// Waits until a request of ours is complete.
pub(super) fn wait_for(request: MPI_Request) {
    let Some(extensions) = extensions() else { return };
    // SAFETY: the program has the request as long as it waits for it.
    while unsafe { (extensions.is_complete)(request) } == 0 {
        look_for_messages();
        thread::yield_now();
    }
}

/// Lets MPI do what it has to do. Where no operation can be nonblocking none waits for this.
pub(super) fn look_for_messages() {
    if let Some(extensions) = extensions() {
        // SAFETY: what MPI's own waits do, once.
        unsafe { (extensions.stream_progress)(NO_STREAM) };
    }
}
