//! The short stop of one thread: registers and the used part of its stack are copied while it is stopped.

#![allow(unsafe_code, reason = "ptrace and memory of other processes")]

use libc::{c_void, pid_t};
use proc_files::{Mapping, mapping_at};
use std::io;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// Most of a stack that is copied: MPI keeps buffers of tens of KiB there.
const STACK_BYTES_MAX: u64 = 256 * 1024;

/// A thread that waits in the kernel without a signal being able to wake it does not stop.
const STOPS_WITHIN: Duration = Duration::from_millis(20);

/// Time between two looks whether it has stopped.
const BETWEEN_LOOKS: Duration = Duration::from_micros(10);

/// A copy of what a thread had.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) instruction: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) frame_pointer: u64,
    stack: Vec<u8>,
    /// From the wish to stop it until it was let go.
    pub(crate) stopped: Duration,
}

impl Copy {
    /// A word of the stack.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let begin = usize::try_from(address.checked_sub(self.stack_pointer)?).ok()?;
        let bytes = self.stack.get(begin..begin.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Stops a thread, copies, does what else is asked meanwhile, and lets it go. The kernel lets it go, too, when the
/// calling thread ends.
pub(crate) fn copy<T>(pid: u32, thread: u32, maps: &[Mapping], meanwhile: impl FnOnce() -> T) -> io::Result<(Copy, T)> {
    let id = pid_t::try_from(thread).map_err(io::Error::other)?;
    let process = pid_t::try_from(pid).map_err(io::Error::other)?;
    request(libc::PTRACE_SEIZE, id, null_mut(), 0)?;
    let begin = Instant::now();
    let stopped = request(libc::PTRACE_INTERRUPT, id, null_mut(), 0).and_then(|()| await_stop(id, begin));
    let signal = stopped?;
    let copied = copy_stopped(process, id, maps);
    let done = meanwhile();
    let released = request(libc::PTRACE_DETACH, id, null_mut(), signal);
    let (registers, stack) = copied?;
    released?;
    let copy = Copy {
        instruction: registers.rip,
        stack_pointer: registers.rsp,
        frame_pointer: registers.rbp,
        stack,
        stopped: begin.elapsed(),
    };
    Ok((copy, done))
}

fn copy_stopped(process: pid_t, id: pid_t, maps: &[Mapping]) -> io::Result<(libc::user_regs_struct, Vec<u8>)> {
    // SAFETY: a struct of integers, for which all bits zero are valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, id, (&raw mut registers).cast(), 0)?;
    let begin = registers.rsp;
    let end = mapping_at(maps, begin).map_or(begin.saturating_add(STACK_BYTES_MAX), |map| map.end);
    let bytes = (end - begin).min(STACK_BYTES_MAX);
    Ok((registers, memory(process, begin, bytes as usize)?))
}

/// Memory of a process.
pub(crate) fn memory(process: pid_t, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut copy = vec![0_u8; bytes];
    let local = libc::iovec {
        iov_base: copy.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let remote = libc::iovec {
        iov_base: address as *mut c_void,
        iov_len: bytes,
    };
    // SAFETY: `local` names the bytes of `copy`; what `remote` names is checked by the kernel.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    copy.truncate(read);
    Ok(copy)
}

/// The signal that the thread is to get when it goes on, as it was stopped before that got to it.
fn await_stop(id: pid_t, begin: Instant) -> io::Result<i32> {
    loop {
        let mut status = 0;
        // SAFETY: writes one number.
        let changed = unsafe { libc::waitpid(id, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if changed < 0 {
            return Err(io::Error::last_os_error());
        }
        if changed == id && !libc::WIFSTOPPED(status) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if changed == id {
            let is_of_ptrace = status >> 16 == libc::PTRACE_EVENT_STOP;
            return Ok(if is_of_ptrace { 0 } else { libc::WSTOPSIG(status) });
        }
        if begin.elapsed() > STOPS_WITHIN {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn request(what: libc::c_uint, id: pid_t, data: *mut c_void, number: i32) -> io::Result<()> {
    let data = if data.is_null() {
        number as usize as *mut c_void
    } else {
        data
    };
    // SAFETY: of the requests made here only GETREGS writes, to a struct that its caller keeps.
    let result = unsafe { libc::ptrace(what, id, null_mut::<c_void>(), data) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
