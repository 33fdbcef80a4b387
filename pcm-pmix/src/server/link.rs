//! The link to the parent: a thread that reads orders and one that writes reports, so that the process's own thread
//! never waits for the parent. Must never write anything but frames to what was standard output.

use super::answers::Waiting;
use crate::{
    names::Status,
    rules::{NodeMessage, Upcall},
};
use pcm_proto::frame::{Decoder, FrameKind, HEADER_LENGTH, PAYLOAD_LENGTH_MAX, decode, encode};
use pcm_proto::pmix::{Order, Report};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    sync::mpsc::{self, Receiver, SyncSender, TrySendError},
    thread,
    time::Duration,
};

/// What the process's own thread hears of.
#[derive(Debug)]
pub(super) enum Input {
    Order(Order),
    /// No more orders come; the reason, unless the parent closed the link between two.
    Closed {
        reason: Option<String>,
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

/// Reports on their way to the parent.
pub(super) struct Reports {
    to_writer: SyncSender<Vec<u8>>,
    is_written: Receiver<()>,
}

impl Reports {
    /// Takes standard output for reports; what else writes there goes to standard error.
    pub(super) fn take() -> io::Result<Self> {
        let mine = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3)?;
        rustix::stdio::dup2_stdout(io::stderr().as_fd())?;
        let mut out = File::from(mine);
        let (to_writer, reports) = mpsc::sync_channel::<Vec<u8>>(REPORTS_MAX);
        let (written, is_written) = mpsc::sync_channel(1);
        thread::Builder::new().name("reports".into()).spawn(move || {
            for frame in reports {
                if let Err(error) = out.write_all(&frame) {
                    eprintln!("pcm-pmix: cannot report to the parent: {error}");
                    break;
                }
            }
            // The process may have ended its wait.
            _ = written.send(());
        })?;
        Ok(Self { to_writer, is_written })
    }

    /// Puts a report on its way. An error ends the process: the parent would wait for what it did not get.
    pub(super) fn send(&self, report: &Report) -> Result<(), String> {
        let mut frame = Vec::new();
        encode(FrameKind::Message, report, PAYLOAD_LENGTH_MAX, &mut frame)
            .map_err(|error| format!("a report fits no frame: {error}"))?;
        let sent = self.to_writer.try_send(frame);
        sent.map_err(|error| match error {
            TrySendError::Full(_) => "the parent does not read reports".to_owned(),
            TrySendError::Disconnected(_) => "the parent has closed the link for reports".to_owned(),
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

/// Starts to read orders.
pub(super) fn read_orders(inputs: SyncSender<Input>) -> io::Result<()> {
    let read = move || {
        let reason = read_all(&inputs).err().map(|error| error.to_string());
        // Without the process there is nothing to end.
        _ = inputs.send(Input::Closed { reason });
    };
    thread::Builder::new().name("orders".into()).spawn(read)?;
    Ok(())
}

fn read_all(inputs: &SyncSender<Input>) -> io::Result<()> {
    let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
    let mut piece = [0; 16 << 10];
    let mut stdin = io::stdin().lock();
    loop {
        let length = stdin.read(&mut piece)?;
        if length == 0 {
            return decoder.finish().map_err(io::Error::other);
        }
        decoder.push(&piece[..length]);
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            let order: Order = decode(frame.payload).map_err(io::Error::other)?;
            if inputs.send(Input::Order(order)).is_err() {
                return Ok(());
            }
        }
    }
}
