//! Which host a process is on, as MPI takes it. MPI tells by the host's name which processes of another world share a
//! node with which: it asks `gethostname` while it starts, and for its own world it goes by what the process manager
//! says. Where two hosts bear one name both sides of a meeting see other nodes, and collective operations among them
//! never return. So MPI is told what the daemon knows of the host; the program, whenever it asks, is told the host's
//! name.
#![allow(unsafe_code, reason = "defines a function of libc, writes into the caller's memory")]
#![allow(unreachable_pub, reason = "symbols for the linker")]
#![allow(
    non_snake_case,
    missing_docs,
    reason = "the names and meanings are those of libc and MPI"
)]
#![allow(
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "as libc and MPI say"
)]

use pcm_proto::app::environment;
use std::{
    cell::Cell,
    env,
    ffi::{CStr, CString},
    os::raw::{c_char, c_int, c_void},
    os::unix::ffi::OsStringExt,
    sync::OnceLock,
};

/// What the daemon calls this host; nothing where no daemon started the process.
static HOST: OnceLock<Option<CString>> = OnceLock::new();

thread_local! {
    static IS_MPI_STARTING: Cell<bool> = const { Cell::new(false) };
}

/// Starts MPI, which gets the daemon's name of the host.
pub(super) fn started_by(init: impl FnOnce() -> c_int) -> c_int {
    HOST.get_or_init(|| CString::new(env::var_os(environment::HOST)?.into_vec()).ok());
    IS_MPI_STARTING.set(true);
    let code = init();
    IS_MPI_STARTING.set(false);
    code
}

fn daemons_name() -> Option<&'static CStr> {
    HOST.get()?.as_deref()
}

/// As libc has it: a name that is too long for the room is cut, and that is an error. A caller may claim more room than
/// there is, or than any object has: only the bytes of the name are written.
///
/// # Safety
/// `room` has space for the name, or for `length` bytes where that is less.
unsafe fn put(name: &CStr, room: *mut c_char, length: usize) -> bool {
    let bytes = name.to_bytes_with_nul();
    let length = bytes.len().min(length);
    if length > 0 {
        // SAFETY: as promised; no other code knows the room meanwhile.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(room.cast::<u8>(), length) };
    }
    length == bytes.len()
}

fn hosts_name(use_name: impl FnOnce(&CStr) -> bool) -> Option<bool> {
    // SAFETY: all-zero bytes are such a record; the system writes texts that end with a zero byte into it.
    unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        (libc::uname(&mut names) == 0).then(|| use_name(CStr::from_ptr(names.nodename.as_ptr())))
    }
}

#[cfg_attr(not(miri), unsafe(no_mangle))]
pub unsafe extern "C" fn gethostname(name: *mut c_char, length: usize) -> c_int {
    // SAFETY: the caller's room.
    let put = |own: &CStr| unsafe { put(own, name, length) };
    let outcome = match daemons_name().filter(|_| IS_MPI_STARTING.get()) {
        Some(told) => Some(put(told)),
        None => hosts_name(put),
    };
    match outcome {
        Some(true) => 0,
        Some(false) => {
            // SAFETY: this thread's own number of its last error.
            unsafe { *libc::__errno_location() = libc::ENAMETOOLONG };
            -1
        }
        // The system has said why.
        None => -1,
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Get_processor_name(name: *mut c_void, length: *mut c_int) -> c_int {
    let name = name.cast::<c_char>();
    // SAFETY: the caller's arguments, unchanged.
    let code = unsafe { mpi_abi::PMPI_Get_processor_name(name, length) };
    // SAFETY: after success there is a text that ends with a zero byte, in room for so many bytes.
    unsafe {
        if code == 0 && daemons_name().is_some_and(|told| *told == *CStr::from_ptr(name)) {
            hosts_name(|own| put(own, name, mpi_abi::MPI_MAX_PROCESSOR_NAME));
            *length = CStr::from_ptr(name).count_bytes() as c_int;
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(length: usize) -> (c_int, Vec<u8>) {
        let mut room = vec![b'?'; length];
        // SAFETY: room of that length.
        let code = unsafe { gethostname(room.as_mut_ptr().cast(), length) };
        (code, room)
    }

    #[test]
    fn a_caller_that_claims_all_memory_for_room_gets_the_name_and_nothing_else() {
        for length in [100, isize::MAX as usize + 1, usize::MAX] {
            let mut room = [b'?'; 100];
            // SAFETY: a host's name is shorter than this.
            let code = unsafe { gethostname(room.as_mut_ptr().cast(), length) };
            let end = room.iter().position(|byte| *byte == 0).expect("the name ends");
            assert_eq!(code, 0, "{length}");
            assert!(room[end + 1..].iter().all(|byte| *byte == b'?'), "{length}");
        }
    }

    #[test]
    fn mpi_is_told_the_daemons_name_while_it_starts_and_the_program_the_hosts() {
        HOST.set(Some(c"pcm-1".to_owned())).expect("no test before set it");
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the host's name");
        let own = own.trim_end();
        let (code, room) = asked(65);
        assert_eq!((code, &room[..own.len()]), (0, own.as_bytes()));
        assert_eq!(
            started_by(|| {
                assert_eq!(asked(6), (0, b"pcm-1\0".to_vec()));
                assert_eq!(asked(3), (-1, b"pcm".to_vec()), "no room for all of it");
                assert_eq!(asked(0).0, -1);
                7
            }),
            7
        );
        assert_eq!(asked(65), (code, room));
    }
}
