//! Communicators made from groups alone. MPI makes them over the world that the process started in, and ends a process
//! whose group has others; here they are made over the communicator of the job.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::{ranks::in_job, recorder, refusal};
use mpi_abi::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info};
use pcm_proto::fnv::fnv1a;
use std::{
    ffi::CStr,
    os::raw::{c_char, c_int, c_void},
};

/// The greatest tag that every MPI has.
const TAG_MAX: u64 = 32_767;

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_create_from_group(
    group: MPI_Group,
    tag: *mut c_void,
    info: MPI_Info,
    handler: MPI_Errhandler,
    made: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let job = recorder::active().and_then(|recorder| recorder.job_apart_from_world());
        let Some(job) = job.filter(|_| has_members(group) && !tag.is_null()) else {
            return mpi_abi::PMPI_Comm_create_from_group(group, tag.cast(), info, handler, made);
        };
        if !is_within(group, job) {
            return refusal::raise(job, OUTSIDE);
        }
        match mpi_abi::PMPI_Comm_create_group(job, group, tag_of(tag.cast()), made) {
            0 => endow(*made, info, handler),
            code => code,
        }
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
#[allow(clippy::too_many_arguments, reason = "as MPI says")]
pub(super) unsafe fn MPI_Intercomm_create_from_groups(
    group: MPI_Group,
    leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    tag: *mut c_void,
    info: MPI_Info,
    handler: MPI_Errhandler,
    made: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract; the communicator of this side is freed.
    unsafe {
        let job = recorder::active().and_then(|recorder| recorder.job_apart_from_world());
        let both = has_members(group) && has_members(remote_group) && !tag.is_null();
        let Some(job) = job.filter(|_| both) else {
            return mpi_abi::PMPI_Intercomm_create_from_groups(
                group,
                leader,
                remote_group,
                remote_leader,
                tag.cast(),
                info,
                handler,
                made,
            );
        };
        if !is_within(group, job) || !is_within(remote_group, job) {
            return refusal::raise(job, OUTSIDE);
        }
        let remote = in_job(remote_group, job).unwrap_or_default();
        let remote = usize::try_from(remote_leader)
            .ok()
            .and_then(|leader| remote.get(leader));
        let (tag, mut side) = (tag_of(tag.cast()), mpi_abi::MPI_COMM_NULL());
        let code = mpi_abi::PMPI_Comm_create_group(job, group, tag, &mut side);
        if code != 0 {
            return code;
        }
        let remote = remote.copied().unwrap_or(remote_leader);
        let code = mpi_abi::PMPI_Intercomm_create(side, leader, job, remote, tag, made);
        mpi_abi::PMPI_Comm_free(&mut side);
        if code != 0 {
            return code;
        }
        endow(*made, info, handler)
    }
}

const OUTSIDE: &str = "a group with processes that are not in MPI_COMM_WORLD (they left when the ranks of the job \
                       changed, or were spawned) gives no communicator: make it from a group of MPI_COMM_WORLD as it \
                       is now";

/// Whether it is a group, and not an empty one: MPI has an answer of its own to others.
unsafe fn has_members(group: MPI_Group) -> bool {
    let mut size: c_int = 0;
    // SAFETY: the caller's contract.
    group != mpi_abi::MPI_GROUP_NULL() && unsafe { mpi_abi::PMPI_Group_size(group, &mut size) } == 0 && size > 0
}

unsafe fn is_within(group: MPI_Group, job: MPI_Comm) -> bool {
    // SAFETY: the caller's contract.
    unsafe { in_job(group, job) }.is_some_and(|ranks| ranks.iter().all(|rank| *rank >= 0))
}

/// Calls with different texts may get the same number: then MPI matches those of the same processes in their order, as
/// it does with one text.
unsafe fn tag_of(text: *const c_char) -> c_int {
    // SAFETY: the caller's text ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    (fnv1a(text.to_bytes().iter().copied()) & TAG_MAX) as c_int
}

unsafe fn endow(made: MPI_Comm, info: MPI_Info, handler: MPI_Errhandler) -> c_int {
    // SAFETY: MPI has just made the communicator; the others are the caller's.
    unsafe {
        if handler != mpi_abi::MPI_ERRHANDLER_NULL() {
            let code = mpi_abi::PMPI_Comm_set_errhandler(made, handler);
            if code != 0 {
                return code;
            }
        }
        if info == mpi_abi::MPI_INFO_NULL() {
            return 0;
        }
        mpi_abi::PMPI_Comm_set_info(made, info)
    }
}
