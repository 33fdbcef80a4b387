//! The outgoing direction of a link: a queue bounded in bytes and one task that writes it. Messages queued while a
//! write is under way leave in the next one. A peer that does not take its bytes in time is disconnected.

use crate::{
    counters::Counters,
    limits::Limits,
    link::{End, LinkEnd, WriteStream},
    record::{Outbound, RECORD_PLAIN_MAX},
};
use pcm_proto::frame::{self, EncodeError, FrameKind};
use serde::Serialize;
use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::AsyncWriteExt as _,
    sync::Notify,
    time::{self, Duration},
};

/// Bytes per system call: four records, about what a socket's buffer takes at once.
const WRITE_BYTES: usize = 4 * RECORD_PLAIN_MAX;

/// Buffer that an idle link keeps after a large message.
const IDLE_CAPACITY_MAX: usize = 256 << 10;

/// Why a message was not queued; nothing of it was sent.
#[derive(Debug)]
pub enum SendError {
    /// The peer is slower than we are: the queue holds this many bytes.
    QueueFull { queued: usize },
    /// The link has ended.
    Ended(LinkEnd),
    /// The message cannot be a frame.
    Encode(EncodeError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { queued } => {
                write!(
                    f,
                    "{queued} bytes wait for this peer already: try again when it has read some"
                )
            }
            Self::Ended(end) => end.fmt(f),
            Self::Encode(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    in_flight: usize,
    closing: bool,
}

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    work: Notify,
    room: Notify,
    bytes_max: usize,
    payload_length_max: usize,
    end: Arc<End>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A panic elsewhere cannot leave the queue half changed: nothing between lock and unlock panics.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closing = true;
        self.work.notify_one();
    }
}

/// Closes the queue when the last sender is dropped.
#[derive(Debug)]
struct Guard(Arc<Queue>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Sends messages to one peer; clones share the queue.
#[derive(Clone, Debug)]
pub struct Sender {
    guard: Arc<Guard>,
}

impl Sender {
    /// Queues a message now or says why not; never waits.
    pub fn try_send<T: Serialize + ?Sized>(&self, message: &T) -> Result<(), SendError> {
        self.queue_message(message).inspect_err(|error| {
            if matches!(error, SendError::QueueFull { .. }) {
                Counters::count(&self.queue().end.counters().send_refused);
            }
        })
    }

    /// Queues a message, waiting while the queue is full. The wait ends with the link at the latest, and a link whose
    /// peer does not read ends at its stall deadline.
    pub async fn send<T: Serialize + ?Sized>(&self, message: &T) -> Result<(), SendError> {
        loop {
            let room = self.queue().room.notified();
            tokio::pin!(room);
            // Enabled before the attempt, so room made in between is not missed.
            room.as_mut().enable();
            match self.queue_message(message) {
                Err(SendError::QueueFull { .. }) => tokio::select! {
                    () = room => {}
                    end = self.queue().end.reached() => return Err(SendError::Ended(end)),
                },
                done => return done,
            }
        }
    }

    /// Bytes queued and not yet taken by the system.
    pub fn queued_bytes(&self) -> usize {
        let waiting = self.queue().lock();
        waiting.bytes.len() + waiting.in_flight
    }

    /// Sends what is queued and a goodbye, for all clones; returns how the link ended.
    pub async fn close(self) -> LinkEnd {
        self.queue().close();
        self.ended().await
    }

    /// Drops the link at once with what is queued.
    pub fn abort(&self) {
        self.queue().end.set(LinkEnd::Aborted);
    }

    /// Waits until the link has ended, whatever the reason.
    pub async fn ended(&self) -> LinkEnd {
        self.queue().end.reached().await
    }

    fn queue(&self) -> &Queue {
        &self.guard.0
    }

    fn queue_message<T: Serialize + ?Sized>(&self, message: &T) -> Result<(), SendError> {
        let queue = self.queue();
        if let Some(end) = queue.end.now() {
            return Err(SendError::Ended(end));
        }
        let mut waiting = queue.lock();
        if waiting.closing {
            return Err(SendError::Ended(LinkEnd::Closed));
        }
        let queued = waiting.bytes.len() + waiting.in_flight;
        // Asked before encoding: a sender that waits for room would otherwise encode again for every refusal.
        if queued >= queue.bytes_max {
            return Err(SendError::QueueFull { queued });
        }
        frame::encode(
            FrameKind::Message,
            message,
            queue.payload_length_max,
            &mut waiting.bytes,
        )
        .map_err(SendError::Encode)?;
        drop(waiting);
        queue.work.notify_one();
        Ok(())
    }
}

/// Starts the writing task of a link.
pub(crate) fn start(stream: WriteStream, outbound: Outbound, limits: &Limits, end: Arc<End>) -> Sender {
    let queue = Arc::new(Queue {
        waiting: Mutex::new(Waiting {
            bytes: Vec::new(),
            in_flight: 0,
            closing: false,
        }),
        work: Notify::new(),
        room: Notify::new(),
        bytes_max: limits.queue_bytes_max,
        payload_length_max: limits.payload_length_max,
        end,
    });
    let writer = Writer {
        queue: Arc::clone(&queue),
        stream,
        outbound,
        wire: Vec::new(),
        stall_deadline: limits.stall_deadline,
    };
    tokio::spawn(writer.run());
    Sender {
        guard: Arc::new(Guard(queue)),
    }
}

struct Writer {
    queue: Arc<Queue>,
    stream: WriteStream,
    outbound: Outbound,
    wire: Vec<u8>,
    stall_deadline: Duration,
}

impl Writer {
    async fn run(mut self) {
        let end = tokio::select! {
            end = self.queue.end.reached() => end,
            end = Self::write_all_batches(
                &self.queue,
                &mut self.stream,
                &mut self.outbound,
                &mut self.wire,
                self.stall_deadline,
            ) => end,
        };
        self.queue.end.set(end);
        let mut waiting = self.queue.lock();
        waiting.bytes = Vec::new();
        waiting.in_flight = 0;
        drop(waiting);
        self.queue.room.notify_waiters();
    }

    async fn write_all_batches(
        queue: &Queue,
        stream: &mut WriteStream,
        outbound: &mut Outbound,
        wire: &mut Vec<u8>,
        stall_deadline: Duration,
    ) -> LinkEnd {
        let mut batch = Vec::new();
        loop {
            let closing = next_batch(queue, &mut batch).await;
            if closing && frame::encode(FrameKind::Goodbye, &(), 1, &mut batch).is_err() {
                return LinkEnd::Violated;
            }
            for piece in batch.chunks(WRITE_BYTES) {
                wire.clear();
                if outbound.seal(piece, wire).is_err() {
                    return LinkEnd::Aborted;
                }
                match time::timeout(stall_deadline, stream.write_all(wire)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return LinkEnd::Lost(error.kind()),
                    Err(_) => return LinkEnd::Stalled(stall_deadline),
                }
                let mut waiting = queue.lock();
                waiting.in_flight = waiting.in_flight.saturating_sub(piece.len());
                drop(waiting);
                queue.room.notify_waiters();
            }
            if closing {
                return match time::timeout(stall_deadline, stream.shutdown()).await {
                    Ok(Ok(())) => LinkEnd::Closed,
                    Ok(Err(error)) => LinkEnd::Lost(error.kind()),
                    Err(_) => LinkEnd::Stalled(stall_deadline),
                };
            }
        }
    }
}

/// Waits for work, moves it into `batch` and says whether it is the last.
async fn next_batch(queue: &Queue, batch: &mut Vec<u8>) -> bool {
    batch.clear();
    loop {
        {
            let mut waiting = queue.lock();
            if waiting.closing || !waiting.bytes.is_empty() {
                mem::swap(&mut waiting.bytes, batch);
                waiting.in_flight = batch.len();
                return waiting.closing;
            }
            // Only an idle link gives memory back; a busy one would ask for it again at once.
            waiting.bytes.shrink_to(IDLE_CAPACITY_MAX);
        }
        batch.shrink_to(IDLE_CAPACITY_MAX);
        queue.work.notified().await;
    }
}
