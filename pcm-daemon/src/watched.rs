//! Descriptors under tokio's eye.
#![allow(
    unsafe_code,
    reason = "tokio asks whoever registers a descriptor to promise that it stays open"
)]

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Makes a descriptor non-blocking and watches it. Must be called inside a tokio runtime.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&descriptor, true)?;
    // SAFETY: the `AsyncFd` owns the descriptor, which is open and not replaced or closed while it is owned.
    unsafe { AsyncFd::register(descriptor) }.map_err(io::Error::from)
}
