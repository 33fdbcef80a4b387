//! The PMI socket of one rank. A request is only looked at until it is answered; then answer and removal follow each
//! other at once, so that what stands in the socket is what was not answered.
//!
//! A daemon may be killed between the two: the answer wakes the rank, which often takes the daemon's CPU just then. So
//! it notes on the rank's page which request it answers before it does, and its successor removes that request.

use crate::watched::watch;
use pcm_core::pmi::wire::{REQUEST_BYTES_MAX, Reading, Request, Skipping, request_read};
use pcm_proto::fnv::fnv1a;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    /// Its hash, never 0.
    mark: AtomicU64,
    answered: Notify,
}

impl PmiPort {
    /// `answering` is the note of whoever served the rank before.
    pub(super) fn new(socket: OwnedFd, answering: &AtomicU64) -> io::Result<Self> {
        let noted = answering.load(Ordering::SeqCst);
        if noted != 0
            && let Ok(Look::Complete { length, mark, .. }) = look(&socket, &mut 0)
            && mark == noted
        {
            take(&socket, length)?;
        }
        answering.store(0, Ordering::SeqCst);
        Ok(Self {
            socket: watch(socket)?,
            pending: AtomicUsize::new(0),
            mark: AtomicU64::new(0),
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
                let mut found = look_past(socket, &mut seen, &mut skipping)?;
                // The socket stays readable when the rank has gone: to wait for the rest of a request would be to
                // look again without end. What it sent before it went is there by now.
                if matches!(found, Look::Incomplete) && has_gone(socket)? {
                    found = match look_past(socket, &mut seen, &mut skipping)? {
                        Look::Incomplete => Look::Closed,
                        rest => rest,
                    };
                }
                match found {
                    Look::Complete { request, length, mark } => {
                        self.mark.store(mark, Ordering::Release);
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
        matches!(look(self.socket.get_ref(), &mut 0), Ok(Look::Complete { .. }))
    }

    /// Sends the answer and takes the request out; `answering` is the note for a successor.
    pub(super) fn answer(&self, line: &str, answering: &AtomicU64) -> io::Result<()> {
        answering.store(self.mark.load(Ordering::Acquire), Ordering::SeqCst);
        let sent = send(&self.socket, line.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        if sent != line.len() {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                "a PMI answer was cut: the process does not read",
            ));
        }
        take(&self.socket, self.pending.load(Ordering::Acquire))?;
        answering.store(0, Ordering::SeqCst);
        self.pending.store(0, Ordering::Release);
        self.answered.notify_one();
        Ok(())
    }
}

enum Look {
    Complete { request: Request, length: usize, mark: u64 },
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
            Reading::Whole(request, length) => complete(request, &bytes[..length]),
            Reading::Incomplete if bytes.len() == size && size < REQUEST_BYTES_MAX => {
                size = REQUEST_BYTES_MAX;
                continue;
            }
            Reading::Incomplete => Look::Incomplete,
            Reading::TooLong => Look::TooLong(Skipping::new(&bytes)),
        });
    }
}

fn complete(request: Request, bytes: &[u8]) -> Look {
    Look::Complete {
        request,
        length: bytes.len(),
        mark: fnv1a(bytes.iter().copied()).max(1),
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
            Ok((request, end)) => return Ok(complete(request, &bytes[..end])),
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

/// Whether the rank sends nothing more.
fn has_gone(socket: impl AsFd) -> io::Result<bool> {
    let mut watched = [PollFd::new(&socket, PollFlags::RDHUP)];
    poll(&mut watched, Some(&Timespec::default()))?;
    Ok(!watched[0].revents().is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    const REQUEST: &[u8] = b"cmd=get_maxes\n";

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap()
    }

    fn said(rank: &OwnedFd) -> Vec<u8> {
        peek(rank, LOOK_BYTES).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_successor_asks_itself_no_request_that_was_answered() {
        for answers in [false, true] {
            let (rank, daemon) = pair();
            let answering = AtomicU64::new(0);
            send(&rank, REQUEST, SendFlags::empty()).unwrap();
            let port = PmiPort::new(daemon.try_clone().unwrap(), &answering).unwrap();
            assert!(matches!(port.next().await, Ok(Asked::Request(Request::Maxes))));
            if answers {
                // Killed between the answer and the removal.
                answering.store(port.mark.load(Ordering::Acquire), Ordering::SeqCst);
                send(&daemon, b"cmd=maxes\n", SendFlags::empty()).unwrap();
            }
            let successor = PmiPort::new(daemon, &answering).unwrap();
            assert_eq!(successor.is_asking(), !answers);
            assert_eq!(answering.load(Ordering::SeqCst), 0);
        }
    }

    #[tokio::test]
    async fn a_rank_that_goes_in_the_middle_of_a_request_is_closed() {
        for begun in [&b"cmd=get_max"[..], b"mcmd=spawn\ntotspawns=9\nendcmd\n"] {
            let (rank, daemon) = pair();
            let port = PmiPort::new(daemon, &AtomicU64::new(0)).unwrap();
            send(&rank, begun, SendFlags::empty()).unwrap();
            drop(rank);
            let asked = tokio::time::timeout(std::time::Duration::from_secs(20), port.next()).await;
            assert!(matches!(asked, Ok(Ok(Asked::Closed))));
        }
    }

    #[tokio::test]
    async fn what_the_rank_asks_next_is_not_taken_for_what_was_answered() {
        let (rank, daemon) = pair();
        let answering = AtomicU64::new(0);
        send(&rank, REQUEST, SendFlags::empty()).unwrap();
        let port = PmiPort::new(daemon.try_clone().unwrap(), &answering).unwrap();
        assert!(matches!(port.next().await, Ok(Asked::Request(_))));
        let mark = port.mark.load(Ordering::Acquire);
        port.answer("cmd=maxes\n", &answering).unwrap();
        assert_eq!(
            (answering.load(Ordering::SeqCst), said(&rank)),
            (0, b"cmd=maxes\n".to_vec())
        );
        // Killed before it could withdraw its note.
        answering.store(mark, Ordering::SeqCst);
        send(&rank, b"cmd=get_appnum\n", SendFlags::empty()).unwrap();
        assert!(PmiPort::new(daemon, &answering).unwrap().is_asking());
    }
}
