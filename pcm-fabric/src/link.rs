//! A link: two directions, the peer's identity, and the one fact of how it ended, seen by both directions.

use crate::{
    counters::Counters,
    limits::Limits,
    receiver::{Receiver, RecvError},
    record::{Inbound, Outbound},
    sender::{self, SendError, Sender},
};
use pcm_proto::handshake::Identity;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

/// How a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// We closed it; everything queued was sent before.
    Closed,
    /// We dropped it with whatever was queued.
    Aborted,
    /// The peer did not read for this long.
    Stalled(Duration),
    /// The connection broke, or the peer vanished without a goodbye.
    Lost(io::ErrorKind),
    /// The peer sent what no peer of this version sends.
    Violated,
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "the link was closed"),
            Self::Aborted => write!(f, "the link was dropped"),
            Self::Stalled(deadline) => {
                write!(
                    f,
                    "the link was dropped because the peer did not read for {} ms",
                    deadline.as_millis()
                )
            }
            Self::Lost(kind) => write!(f, "the link was lost ({kind})"),
            Self::Violated => write!(f, "the link was dropped because the peer broke its protocol"),
        }
    }
}

/// Where a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// Over the network.
    Network(SocketAddr),
    /// A process of this machine and of the same user; its id if the system told it.
    Local {
        /// The process id.
        pid: Option<i32>,
    },
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => address.fmt(f),
            Self::Local { pid: Some(pid) } => write!(f, "local process {pid}"),
            Self::Local { pid: None } => write!(f, "a local process"),
        }
    }
}

/// The one end of a link, set once and seen by both directions.
#[derive(Debug)]
pub(crate) struct End {
    watch: watch::Sender<Option<LinkEnd>>,
    /// The peer said goodbye, so a connection that breaks now loses nothing.
    peer_left: AtomicBool,
    counters: Arc<Counters>,
}

impl End {
    pub(crate) fn now(&self) -> Option<LinkEnd> {
        *self.watch.borrow()
    }

    /// The first reason stands; later ones follow from it.
    pub(crate) fn set(&self, end: LinkEnd) {
        let first = self.watch.send_if_modified(|now| {
            let first = now.is_none();
            *now = now.or(Some(end));
            first
        });
        if first && let Some(counter) = self.counter(end) {
            Counters::count(counter);
        }
    }

    fn counter(&self, end: LinkEnd) -> Option<&AtomicU64> {
        match end {
            LinkEnd::Stalled(_) => Some(&self.counters.stalled),
            LinkEnd::Lost(_) if self.peer_left.load(Ordering::Relaxed) => None,
            LinkEnd::Lost(_) => Some(&self.counters.lost),
            // What the violation was is counted where it was seen.
            LinkEnd::Closed | LinkEnd::Aborted | LinkEnd::Violated => None,
        }
    }

    pub(crate) async fn reached(&self) -> LinkEnd {
        self.reached_one(|_| true).await
    }

    /// As [`End::reached`], but our own close, after which the peer may still speak, is no end.
    pub(crate) async fn broken(&self) -> LinkEnd {
        self.reached_one(|end| end != LinkEnd::Closed).await
    }

    async fn reached_one(&self, counts: impl Fn(LinkEnd) -> bool) -> LinkEnd {
        let mut watch = self.watch.subscribe();
        let reached = watch.wait_for(|end| end.is_some_and(&counts)).await;
        // The sending half lives in `self`, so the wait cannot fail while somebody waits.
        reached.ok().and_then(|end| *end).unwrap_or(LinkEnd::Aborted)
    }

    pub(crate) fn peer_left(&self) {
        self.peer_left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// A finished link to one peer.
#[derive(Debug)]
pub struct Link {
    sender: Sender,
    receiver: Receiver,
    peer: Identity,
    address: PeerAddress,
}

pub(crate) type ReadStream = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type WriteStream = Box<dyn AsyncWrite + Send + Unpin>;

/// A stream whose peer has been checked.
pub(crate) struct Checked {
    pub(crate) read: ReadStream,
    pub(crate) write: WriteStream,
    pub(crate) outbound: Outbound,
    pub(crate) inbound: Inbound,
    pub(crate) peer: Identity,
    pub(crate) address: PeerAddress,
}

impl Link {
    /// Must be called inside a tokio runtime, where the link's writer runs.
    pub(crate) fn new(checked: Checked, limits: &Limits, counters: &Arc<Counters>) -> Self {
        let end = Arc::new(End {
            watch: watch::Sender::new(None),
            peer_left: AtomicBool::new(false),
            counters: Arc::clone(counters),
        });
        let sender = sender::start(checked.write, checked.outbound, limits, Arc::clone(&end));
        let receiver = Receiver::new(checked.read, checked.inbound, limits, end);
        Self {
            sender,
            receiver,
            peer: checked.peer,
            address: checked.address,
        }
    }

    /// Who the peer is.
    pub fn peer(&self) -> &Identity {
        &self.peer
    }

    /// Where the peer is.
    pub fn address(&self) -> PeerAddress {
        self.address
    }

    /// Queues a message, waiting while the queue is full.
    pub async fn send<T: Serialize + ?Sized>(&self, message: &T) -> Result<(), SendError> {
        self.sender.send(message).await
    }

    /// Waits for the next message. Cancelling it loses nothing.
    pub async fn recv<T: DeserializeOwned>(&mut self) -> Result<T, RecvError> {
        self.receiver.recv().await
    }

    /// The two directions. The link ends in order when every clone of the sender is gone.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}
