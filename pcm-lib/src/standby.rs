//! A process that was started before its job needs it: it waits before `MPI_Init` until its node's keeper makes it a
//! process of the job, or ends it.
#![allow(unsafe_code, reason = "takes descriptors by number, changes the environment")]

use crate::channel::packet_receive;
use pcm_proto::{
    app::{STANDBY_WAITS, StandbyCall, environment},
    frame,
};
use rustix::{
    io::{Errno, dup2},
    net::{RecvFlags, SendFlags, send},
};
use std::{
    env,
    ffi::OsStr,
    mem::ManuallyDrop,
    os::{
        fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
};

/// Returns when this process is one of its job; at once in any other. To be called before MPI starts.
pub(crate) fn wait() {
    if env::var_os(environment::STANDBY).is_none() {
        return;
    }
    let called = number(environment::CHANNEL_FD).and_then(call);
    let taken = called.and_then(|(call, page)| {
        // SAFETY: no file is closed by the number's owner, which is dropped nowhere.
        let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number(environment::PAGE_FD)?) });
        dup2(&page, &mut place).ok().map(|()| call)
    });
    match taken {
        Some(call) => change_environment(&call),
        // Nothing of the program's own end must happen: it has done nothing.
        // SAFETY: ends the process.
        None => unsafe { libc::_exit(0) },
    }
}

fn number(name: &str) -> Option<RawFd> {
    env::var(name).ok()?.parse().ok().filter(|number| *number > 2)
}

/// What the keeper says; none when it is gone.
fn call(channel: RawFd) -> Option<(StandbyCall, OwnedFd)> {
    // SAFETY: the keeper's socket, which stays open; a number that is not open gives an error.
    let channel = unsafe { BorrowedFd::borrow_raw(channel) };
    send(channel, STANDBY_WAITS, SendFlags::NOSIGNAL).ok()?;
    loop {
        match packet_receive(channel, RecvFlags::empty()) {
            Ok((packet, page)) if !packet.is_empty() => return frame::decode(&packet).ok().zip(page),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return None,
        }
    }
}

fn change_environment(call: &StandbyCall) {
    for name in call.unset.iter().filter(|name| is_name(name)) {
        // SAFETY: the program waits here in its call that starts MPI; its other threads, if it has some by now, have no
        // reason to look for variables of the process manager.
        unsafe { env::remove_var(OsStr::from_bytes(name)) };
    }
    for (name, value) in call
        .set
        .iter()
        .filter(|(name, value)| is_name(name) && !value.contains(&0))
    {
        // SAFETY: as above.
        unsafe { env::set_var(OsStr::from_bytes(name), OsStr::from_bytes(value)) };
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|byte| [0, b'='].contains(byte))
}
