//! The incoming direction of a link: bytes to records to frames to messages, each checked before the next. Reads only
//! when asked for a message, so a slow receiver slows its peer and not this process's memory.

use crate::{
    counters::Counters,
    limits::Limits,
    link::{End, LinkEnd, ReadStream},
    record::Inbound,
};
use pcm_proto::frame::{self, Decoder, Frame, FrameError, FrameKind, MessageError};
use serde::de::DeserializeOwned;
use std::{fmt, io, sync::Arc, time::Duration};
use tokio::{io::AsyncReadExt as _, runtime::Handle, time};

/// Bytes asked of the system at once: four records, as many as a writer writes at once.
const READ_BYTES: usize = 256 << 10;

/// Why there is no message.
#[derive(Debug)]
pub enum RecvError {
    /// The peer said goodbye; nothing will follow.
    Closed,
    /// The link ended without a goodbye from the peer.
    Ended(LinkEnd),
    /// The peer sent what is not a frame; the link has been dropped.
    Frame(FrameError),
    /// The peer sent a frame that has no place there; the link has been dropped.
    UnexpectedFrame(FrameKind),
    /// A record was altered, replayed or forged; the link has been dropped.
    Forged,
    /// A frame did not hold the expected message. It is counted and skipped; the next call goes on behind it.
    Message(MessageError),
}

impl RecvError {
    /// Whether no further message can come.
    pub fn is_end(&self) -> bool {
        !matches!(self, Self::Message(_))
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "the peer closed the link"),
            Self::Ended(end) => end.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::UnexpectedFrame(kind) => write!(f, "the peer sent a frame of kind {kind:?} in the wrong place"),
            Self::Forged => write!(f, "a record was altered or replayed on its way; the link was dropped"),
            Self::Message(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {}

/// Bytes thrown away at once.
const THROWN_AWAY_BYTES: usize = 16 << 10;

/// How long what a peer still sends is read and thrown away after we closed the link. Closing a socket with unread
/// bytes makes the system tell the peer so at once, and that can overtake our last messages.
const LINGER: Duration = Duration::from_secs(1);

/// Receives messages from one peer. Dropping it throws away what the peer still sends.
pub struct Receiver {
    /// Absent only while it is being dropped.
    stream: Option<ReadStream>,
    inbound: Inbound,
    wire: Vec<u8>,
    opened: usize,
    decoder: Decoder,
    closed: bool,
    end: Arc<End>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("closed", &self.closed)
            .field("end", &self.end.now())
            .finish_non_exhaustive()
    }
}

enum Step<T> {
    Message(T),
    Goodbye,
    MoreBytes,
}

impl Receiver {
    pub(crate) fn new(stream: ReadStream, inbound: Inbound, limits: &Limits, end: Arc<End>) -> Self {
        let decoder = Decoder::new(limits.payload_length_max);
        Self {
            stream: Some(stream),
            inbound,
            wire: Vec::new(),
            opened: 0,
            decoder,
            closed: false,
            end,
        }
    }

    /// Waits for the next message. Cancelling it loses nothing.
    pub async fn recv<T: DeserializeOwned>(&mut self) -> Result<T, RecvError> {
        loop {
            if self.closed {
                return Err(RecvError::Closed);
            }
            match self.step()? {
                Step::Message(message) => return Ok(message),
                Step::Goodbye => {
                    self.closed = true;
                    self.end.peer_left();
                }
                Step::MoreBytes => self.read().await?,
            }
        }
    }

    fn step<T: DeserializeOwned>(&mut self) -> Result<Step<T>, RecvError> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some(Frame {
                    kind: FrameKind::Message,
                    payload,
                })) => {
                    return frame::decode(payload).map(Step::Message).map_err(|error| {
                        Counters::count(&self.end.counters().messages_rejected);
                        RecvError::Message(error)
                    });
                }
                Ok(Some(Frame {
                    kind: FrameKind::Goodbye,
                    ..
                })) => return Ok(Step::Goodbye),
                Ok(Some(Frame { kind, .. })) => {
                    Counters::count(&self.end.counters().frames_rejected);
                    self.end.set(LinkEnd::Violated);
                    return Err(RecvError::UnexpectedFrame(kind));
                }
                Ok(None) => {}
                Err(error) => {
                    Counters::count(&self.end.counters().frames_rejected);
                    self.end.set(LinkEnd::Violated);
                    return Err(RecvError::Frame(error));
                }
            }
            match self.inbound.open(&self.wire[self.opened..]) {
                Ok(Some((taken, plain))) => {
                    self.decoder.push(plain);
                    self.opened += taken;
                }
                Ok(None) => return Ok(Step::MoreBytes),
                Err(_) => {
                    Counters::count(&self.end.counters().records_rejected);
                    self.end.set(LinkEnd::Violated);
                    return Err(RecvError::Forged);
                }
            }
        }
    }

    async fn read(&mut self) -> Result<(), RecvError> {
        self.wire.drain(..self.opened);
        self.opened = 0;
        self.wire.reserve(READ_BYTES);
        let Some(stream) = &mut self.stream else {
            return Err(RecvError::Ended(LinkEnd::Aborted));
        };
        let read = tokio::select! {
            biased;
            read = stream.read_buf(&mut self.wire) => read,
            end = self.end.broken() => return Err(RecvError::Ended(end)),
        };
        let lost = match read {
            Ok(0) => self
                .decoder
                .finish()
                .err()
                .map_or(io::ErrorKind::ConnectionReset, |_| io::ErrorKind::UnexpectedEof),
            Ok(_) => return Ok(()),
            Err(error) => error.kind(),
        };
        self.end.set(LinkEnd::Lost(lost));
        Err(RecvError::Ended(LinkEnd::Lost(lost)))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let goes_on = self.end.now().is_none_or(|end| end == LinkEnd::Closed) && !self.closed;
        if goes_on && let (Some(stream), Ok(runtime)) = (self.stream.take(), Handle::try_current()) {
            runtime.spawn(throw_away(stream, Arc::clone(&self.end)));
        }
    }
}

/// Until the peer closes too, the link breaks, or it is closed and has lingered.
async fn throw_away(mut stream: ReadStream, end: Arc<End>) {
    let lingered = async {
        if end.reached().await == LinkEnd::Closed {
            time::sleep(LINGER).await;
        }
    };
    let read_all = async {
        let mut bytes = vec![0; THROWN_AWAY_BYTES];
        while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    };
    tokio::select! {
        () = lingered => {}
        () = read_all => {}
    }
}
