//! The link to the parent: a thread that reads orders and one that writes reports, so that the process's own thread
//! never waits for the parent. A parent that is killed closes it, and the next one opens it again.

use super::answers::Waiting;
use crate::{
    names::Status,
    rules::{NodeMessage, Upcall},
};
use pcm_proto::frame::{Decoder, FrameKind, HEADER_LENGTH, PAYLOAD_LENGTH_MAX, decode, encode};
use pcm_proto::pmix::{Order, Report};
use std::{
    io::{self, Read, Write},
    os::{
        fd::AsFd,
        unix::net::{UnixListener, UnixStream},
    },
    sync::mpsc::{self, Receiver, SyncSender, TrySendError},
    thread,
    time::Duration,
};

/// What the process's own thread hears of.
#[derive(Debug)]
pub(super) enum Input {
    /// A parent opened the link: reports go there from now on.
    Opened(UnixStream),
    Order(Order),
    /// It closed the link.
    Closed,
    /// An order cannot be read, or no parent can open the link.
    Broken {
        reason: String,
    },
    /// A call of libpmix, which waits for its answer.
    Called {
        waiting: Waiting,
        upcall: Upcall,
    },
    /// libpmix answers `fetch`.
    Fetched {
        number: u64,
        outcome: Result<Vec<u8>, Status>,
    },
}

/// Inputs that wait at most. Each process has one or two calls at a time, and a node at most some hundred processes.
const INPUTS_MAX: usize = 65_536;

/// Reports that wait at most for a parent that does not read.
const REPORTS_MAX: usize = 65_536;

/// Longest message to another node: what daemons and frames put around it fits a frame with it.
const MESSAGE_BYTES_MAX: usize = PAYLOAD_LENGTH_MAX - (16 << 10);

/// How long the last reports may take.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The way for inputs, and what comes out of it.
pub(super) fn inputs() -> (SyncSender<Input>, Receiver<Input>) {
    mpsc::sync_channel(INPUTS_MAX)
}

/// What the thread that writes gets.
enum ToWrite {
    /// Where it writes from now on.
    To(UnixStream),
    Frame(Vec<u8>),
}

/// Reports on their way to the parent.
pub(super) struct Reports {
    to_writer: SyncSender<ToWrite>,
    is_written: Receiver<()>,
}

impl Reports {
    /// Reports that come before a parent are dropped, and those that a parent does not take: the next one asks for what
    /// there is.
    pub(super) fn begin() -> io::Result<Self> {
        let (to_writer, reports) = mpsc::sync_channel::<ToWrite>(REPORTS_MAX);
        let (written, is_written) = mpsc::sync_channel(1);
        thread::Builder::new().name("reports".into()).spawn(move || {
            let mut link: Option<UnixStream> = None;
            for next in reports {
                match next {
                    ToWrite::To(stream) => link = Some(stream),
                    ToWrite::Frame(frame) => link = link.filter(|mut link| link.write_all(&frame).is_ok()),
                }
            }
            // The process may have ended its wait.
            _ = written.send(());
        })?;
        Ok(Self { to_writer, is_written })
    }

    pub(super) fn open(&self, link: UnixStream) -> Result<(), String> {
        self.write(ToWrite::To(link))
    }

    /// Puts a report on its way. An error ends the process: the parent would wait for what it did not get.
    pub(super) fn send(&self, report: &Report) -> Result<(), String> {
        let mut frame = Vec::new();
        encode(FrameKind::Message, report, PAYLOAD_LENGTH_MAX, &mut frame)
            .map_err(|error| format!("a report fits no frame: {error}"))?;
        self.write(ToWrite::Frame(frame))
    }

    fn write(&self, next: ToWrite) -> Result<(), String> {
        let sent = self.to_writer.try_send(next);
        sent.map_err(|error| match error {
            TrySendError::Full(_) => "the parent does not read reports".to_owned(),
            TrySendError::Disconnected(_) => "the thread that reports has ended".to_owned(),
        })
    }

    /// Writes what is left.
    pub(super) fn finish(self) {
        drop(self.to_writer);
        // What the parent has not read by then it will not read.
        _ = self.is_written.recv_timeout(FLUSH_MAX);
    }
}

/// A message for the process of another node, as the daemons carry it.
pub(super) fn sealed(message: &NodeMessage) -> Result<Vec<u8>, String> {
    let mut frame = Vec::new();
    encode(FrameKind::Message, message, MESSAGE_BYTES_MAX, &mut frame)
        .map_err(|error| format!("a message to another node fits no frame: {error}"))?;
    Ok(frame.split_off(HEADER_LENGTH))
}

/// A message from the process of another node.
pub(super) fn opened(message: &[u8]) -> Result<NodeMessage, String> {
    decode(message).map_err(|error| format!("a message of another node cannot be read: {error}"))
}

/// Starts to wait for parents on standard input, one after the other, and to read their orders.
pub(super) fn read_orders(inputs: SyncSender<Input>) -> io::Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    // A process that connects sees this one as the other side, and not the one that made the socket.
    rustix::net::listen(&socket, 4)?;
    let listener = UnixListener::from(socket);
    let read = move || {
        loop {
            let all = listener.accept().and_then(|(link, _)| read_all(link, &inputs));
            let next = all.map_or_else(
                |error| Input::Broken {
                    reason: error.to_string(),
                },
                |()| Input::Closed,
            );
            // Without the process there is nothing to read for.
            if inputs.send(next).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("orders".into()).spawn(read)?;
    Ok(())
}

/// Until the parent closes the link; what it had not said to its end then is lost with it.
fn read_all(mut link: UnixStream, inputs: &SyncSender<Input>) -> io::Result<()> {
    let gone = |_| io::Error::other("the process has ended");
    inputs.send(Input::Opened(link.try_clone()?)).map_err(gone)?;
    let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
    let mut piece = [0; 16 << 10];
    loop {
        // A parent that is killed may reset it.
        let length = link.read(&mut piece).unwrap_or(0);
        if length == 0 {
            return Ok(());
        }
        decoder.push(&piece[..length]);
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            let order: Order = decode(frame.payload).map_err(io::Error::other)?;
            inputs.send(Input::Order(order)).map_err(gone)?;
        }
    }
}
