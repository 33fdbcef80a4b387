//! The signals the keeper hears, as a descriptor: the end of a child, and the wish of somebody outside that it ends.
#![allow(unsafe_code, reason = "signalfd and the signal mask")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// What was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// A child ended (or several).
    pub(super) child: bool,
    /// SIGINT: end now.
    pub(super) end: bool,
    /// SIGTERM: the node will be taken away.
    pub(super) notice: bool,
}

const HEARD: [libc::c_int; 4] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

#[derive(Debug)]
pub(super) struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Blocks the signals and opens the descriptor.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: fills a set on the stack, blocks it for this thread, the only one as yet, takes no handler away that
        // is ours, and opens a new descriptor for the set.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in HEARD {
                libc::sigaddset(&mut set, signal);
            }
            if libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            // Whoever started us may ignore some of them, which is inherited. What is ignored is not heard, and of
            // children whose ends are ignored the system keeps no status.
            for signal in HEARD {
                if libc::signal(signal, libc::SIG_DFL) == libc::SIG_ERR {
                    return Err(io::Error::last_os_error());
                }
            }
            let number = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                descriptor: OwnedFd::from_raw_fd(number),
            })
        }
    }

    /// Everything heard since the last call.
    pub(super) fn take(&self) -> Heard {
        let mut heard = Heard::default();
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        while let Ok(length) = rustix::io::read(&self.descriptor, &mut record) {
            if length < record.len() {
                break;
            }
            // The signal's number is the record's first field.
            match i32::from_ne_bytes([record[0], record[1], record[2], record[3]]) {
                libc::SIGCHLD => heard.child = true,
                libc::SIGINT => heard.end = true,
                libc::SIGTERM => heard.notice = true,
                _ => {}
            }
        }
        heard
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
