//! The PMI socket of one rank. A request is only looked at until it is answered; then answer and removal follow each
//! other at once, so that what stands in the socket is what was not answered.

use crate::watched::watch;
use pcm_core::pmi::wire::{REQUEST_BYTES_MAX, Reading, Request, Skipping, request_read};
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
        let (mut seen, mut skipping) = (0, None);
        self.socket
            .async_io(Interest::READABLE, |socket| {
                match look_past(socket, &mut seen, &mut skipping)? {
                    Look::Complete(request, length) => {
                        self.pending.store(length, Ordering::Release);
                        Ok(Asked::Request(request))
                    }
                    Look::Closed => Ok(Asked::Closed),
                    Look::Incomplete | Look::TooLong(_) => Err(io::ErrorKind::WouldBlock.into()),
                }
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
        take(&self.socket, self.pending.load(Ordering::Acquire))?;
        self.pending.store(0, Ordering::Release);
        self.answered.notify_one();
        Ok(())
    }
}

enum Look {
    Complete(Request, usize),
    Incomplete,
    TooLong(Skipping),
    Closed,
}

/// Looks at what stands in the socket without taking it. `seen` remembers how much an earlier look saw, so that a
/// large incomplete request is not looked at again in small steps.
fn look(socket: impl AsFd, seen: &mut usize) -> io::Result<Look> {
    let mut size = LOOK_BYTES.max(*seen * 2).min(REQUEST_BYTES_MAX);
    loop {
        let bytes = peek(&socket, size)?;
        if bytes.is_empty() {
            return Ok(Look::Closed);
        }
        *seen = bytes.len();
        return Ok(match request_read(&bytes) {
            Reading::Whole(request, taken) => Look::Complete(request, taken),
            Reading::Incomplete if bytes.len() == size && size < REQUEST_BYTES_MAX => {
                size = REQUEST_BYTES_MAX;
                continue;
            }
            Reading::Incomplete => Look::Incomplete,
            Reading::TooLong => Look::TooLong(Skipping::new(&bytes)),
        });
    }
}

/// As [`look`], but takes what there is of a request that is too long, up to its last line.
fn look_past(socket: impl AsFd, seen: &mut usize, skipping: &mut Option<Skipping>) -> io::Result<Look> {
    let skipping = match skipping {
        Some(skipping) => skipping,
        none => match look(&socket, seen)? {
            Look::TooLong(begun) => none.insert(begun),
            look => return Ok(look),
        },
    };
    loop {
        let bytes = peek(&socket, REQUEST_BYTES_MAX)?;
        if bytes.is_empty() {
            return Ok(Look::Closed);
        }
        match skipping.over(&bytes) {
            Ok((request, end)) => return Ok(Look::Complete(request, end)),
            Err(0) => return Ok(Look::Incomplete),
            Err(past) => take(&socket, past)?,
        }
    }
}

/// The bytes that stand in the socket, at most so many; none when it is closed.
fn peek(socket: impl AsFd, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let length = match recv(&socket, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(rustix::io::Errno::CONNRESET) => 0,
        result => result?.1,
    };
    bytes.truncate(length);
    Ok(bytes)
}

fn take(socket: impl AsFd, mut left: usize) -> io::Result<()> {
    let mut sink = [0; LOOK_BYTES];
    while left > 0 {
        let part = left.min(LOOK_BYTES);
        let (_, taken) = recv(&socket, &mut sink[..part], RecvFlags::DONTWAIT)?;
        if taken == 0 {
            break;
        }
        left -= taken;
    }
    Ok(())
}
