//! Sessions: the process set `mpi://WORLD` is the job, as MPI_COMM_WORLD is.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::{
    recorder::{self, Recorder},
    refusal, traits,
};
use crate::standby;
use mpi_abi::{MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session};
use pcm_proto::app::environment;
use std::{
    env,
    ffi::{CStr, CString},
    os::raw::{c_int, c_void},
};

const WORLD: &[u8] = b"mpi://WORLD";

/// As MPI says. A process that starts as a part of its job learns the rest in MPI_Init alone.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Session_init(info: MPI_Info, handler: MPI_Errhandler, session: *mut MPI_Session) -> c_int {
    standby::wait();
    traits::before_session();
    // SAFETY: the caller's contract; the session that is refused is ended.
    unsafe {
        let code = mpi_abi::PMPI_Session_init(info, handler, session);
        if code != 0 || recorder::active().is_some() || env::var_os(environment::WORLDS).is_none() {
            return code;
        }
        eprintln!(
            "pcm: the ranks of this job start as several MPI worlds, which MPI_Init joins: call it before \
             MPI_Session_init, or run with '--world job'"
        );
        // Codes of the library's own end with MPI's last session: asked for the text of one, MPICH crashes.
        let code = mpi_abi::MPI_ERR_UNSUPPORTED_OPERATION;
        mpi_abi::PMPI_Session_call_errhandler(*session, code);
        mpi_abi::PMPI_Session_finalize(session);
        *session = mpi_abi::MPI_SESSION_NULL();
        code
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Group_from_session_pset(
    session: MPI_Session,
    name: *mut c_void,
    group: *mut MPI_Group,
) -> c_int {
    // SAFETY: the caller's contract; the group that MPI made is freed before another takes its place.
    unsafe {
        let code = mpi_abi::PMPI_Group_from_session_pset(session, name.cast(), group);
        let Some(recorder) = with_world(code, name) else {
            return code;
        };
        if let Err(text) = recorder.world_now() {
            return refusal::raise_in(session, &text);
        }
        match recorder.job_apart_from_world() {
            Some(job) => {
                mpi_abi::PMPI_Group_free(group);
                mpi_abi::PMPI_Comm_group(job, group)
            }
            None => code,
        }
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Session_get_pset_info(session: MPI_Session, name: *mut c_void, info: *mut MPI_Info) -> c_int {
    // SAFETY: the caller's contract; texts end with a zero byte.
    unsafe {
        let code = mpi_abi::PMPI_Session_get_pset_info(session, name.cast(), info);
        let job = with_world(code, name).and_then(Recorder::job_apart_from_world);
        let Some(job) = job else {
            return code;
        };
        let mut size: c_int = 0;
        let code = mpi_abi::PMPI_Comm_size(job, &mut size);
        match CString::new(size.to_string()) {
            Ok(size) if code == 0 => mpi_abi::PMPI_Info_set(*info, c"mpi_size".as_ptr(), size.as_ptr()),
            _ => code,
        }
    }
}

/// The recorder, after a call that succeeded with the name of the world's set.
unsafe fn with_world(code: c_int, name: *mut c_void) -> Option<&'static Recorder> {
    // SAFETY: MPI accepted the name, so it is one; it ends with a zero byte.
    let is_world = code == 0
        && unsafe { CStr::from_ptr(name.cast()) }
            .to_bytes()
            .eq_ignore_ascii_case(WORLD);
    recorder::active().filter(|_| is_world)
}
