//! The PMI socket of one rank. A request is only looked at until it is answered; then answer and removal follow each
//! other at once, so that what stands in the socket is what was not answered.

use crate::watched::watch;
use pcm_core::pmi::wire::{ParseError, REQUEST_BYTES_MAX, Request, request_read};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A first look takes this much; almost every request is shorter.
const LOOK_BYTES: usize = 2048;

/// What the socket gave.
#[derive(Debug)]
pub(super) enum Asked {
    Request(Request),
    Garbled(ParseError),
    Closed,
}

#[derive(Debug)]
pub(super) struct PmiPort {
    socket: AsyncFd<OwnedFd>,
    /// Length of the request that waits for its answer, 0 when none does.
    pending: AtomicUsize,
    answered: Notify,
}

impl PmiPort {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: watch(socket)?,
            pending: AtomicUsize::new(0),
            answered: Notify::new(),
        })
    }

    /// Waits until the last request was answered and the next one is there.
    pub(super) async fn next(&self) -> io::Result<Asked> {
        while self.pending.load(Ordering::Acquire) != 0 {
            self.answered.notified().await;
        }
        let mut seen = 0;
        self.socket
            .async_io(Interest::READABLE, |socket| match look(socket, &mut seen)? {
                Look::Complete(request, length) => {
                    self.pending.store(length, Ordering::Release);
                    Ok(Asked::Request(request))
                }
                Look::Garbled(error) => Ok(Asked::Garbled(error)),
                Look::Closed => Ok(Asked::Closed),
                Look::Incomplete => Err(io::ErrorKind::WouldBlock.into()),
            })
            .await
    }

    /// Whether a whole request stands in the socket.
    pub(super) fn is_asking(&self) -> bool {
        matches!(look(self.socket.get_ref(), &mut 0), Ok(Look::Complete(..)))
    }

    /// Sends the answer and takes the request out.
    pub(super) fn answer(&self, line: &str) -> io::Result<()> {
        let sent = send(&self.socket, line.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        if sent != line.len() {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                "a PMI answer was cut: the process does not read",
            ));
        }
        let mut left = self.pending.load(Ordering::Acquire);
        let mut sink = [0; LOOK_BYTES];
        while left > 0 {
            let part = left.min(LOOK_BYTES);
            let (_, taken) = recv(&self.socket, &mut sink[..part], RecvFlags::DONTWAIT)?;
            if taken == 0 {
                break;
            }
            left -= taken;
        }
        self.pending.store(0, Ordering::Release);
        self.answered.notify_one();
        Ok(())
    }
}

enum Look {
    Complete(Request, usize),
    Incomplete,
    Garbled(ParseError),
    Closed,
}

/// Looks at what stands in the socket without taking it. `seen` remembers how much an earlier look saw, so that a
/// large incomplete request is not looked at again in small steps.
fn look(socket: impl AsFd, seen: &mut usize) -> io::Result<Look> {
    let mut size = LOOK_BYTES.max(*seen * 2).min(REQUEST_BYTES_MAX);
    loop {
        let mut bytes = vec![0; size];
        let (_, length) = match recv(&socket, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::CONNRESET) => return Ok(Look::Closed),
            result => result?,
        };
        if length == 0 {
            return Ok(Look::Closed);
        }
        *seen = length;
        return Ok(match request_read(&bytes[..length]) {
            Ok(Some((request, taken))) => Look::Complete(request, taken),
            Ok(None) if length == size && size < REQUEST_BYTES_MAX => {
                size = REQUEST_BYTES_MAX;
                continue;
            }
            Ok(None) => Look::Incomplete,
            Err(error) => Look::Garbled(error),
        });
    }
}
