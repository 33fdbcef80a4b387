//! Standard input on the node of the first process: from the coordinator into the process's pipe.

use super::daemon::Daemon;
use super::event::Event;
use crate::rank::RankHandle;
use pcm_proto::control::STDIN_WINDOW_BYTES;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::peer::StreamToCoordinator;
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Pieces on their way into the pipe; the window bounds their bytes.
const PIECES_MAX: usize = STDIN_WINDOW_BYTES as usize;

/// Standard input of the one process here that has any.
#[derive(Debug, Default)]
pub(super) struct PartStdin {
    process: Option<ProcessId>,
    pieces: Option<mpsc::Sender<Vec<u8>>>,
    waiting: VecDeque<Vec<u8>>,
    next: u64,
    is_ended: bool,
}

impl PartStdin {
    /// The process is there.
    pub(super) fn attach(&mut self, job: JobId, handle: &RankHandle, events: &mpsc::Sender<Event>) {
        let Some(pipe) = handle.stdin() else { return };
        let (pieces, receiver) = mpsc::channel(PIECES_MAX);
        tokio::spawn(feed(job, self.next, receiver, pipe, events.clone()));
        for piece in self.waiting.drain(..) {
            let _ = pieces.try_send(piece);
        }
        self.process = Some(handle.key().process);
        self.pieces = Some(pieces);
    }

    /// Whether nothing more will come.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }
}

async fn feed(
    job: JobId,
    start: u64,
    mut pieces: mpsc::Receiver<Vec<u8>>,
    pipe: mpsc::Sender<Vec<u8>>,
    events: mpsc::Sender<Event>,
) {
    let mut bytes = start;
    while let Some(piece) = pieces.recv().await {
        bytes += piece.len() as u64;
        // A process that closed its input takes everything and reads nothing.
        let _ = pipe.send(piece).await;
        if events.send(Event::StdinTaken { job, bytes }).await.is_err() {
            return;
        }
    }
}

impl Daemon {
    /// The coordinator sends standard input.
    pub(super) fn on_part_stdin(&mut self, job: JobId, offset: u64, bytes: Vec<u8>) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        let stdin = &mut part.stdin;
        if stdin.is_ended || offset < stdin.next {
            return;
        }
        stdin.next = offset + bytes.len() as u64;
        if bytes.is_empty() {
            return self.end_stdin(job);
        }
        let Some(pieces) = &stdin.pieces else {
            stdin.waiting.push_back(bytes);
            return;
        };
        if pieces.try_send(bytes).is_err() {
            tracing::warn!(%job, "standard input beyond its window is dropped");
        }
    }

    /// Nothing more will come; what is on its way still arrives.
    pub(super) fn end_stdin(&mut self, job: JobId) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        part.stdin.is_ended = true;
        part.stdin.pieces = None;
        if let Some(process) = part.stdin.process {
            if let Some(local) = part.locals.get_mut(&process) {
                local.handle.stdin_close();
            }
            self.out.keeper(DaemonToKeeper::CloseStdin {
                key: ProcessKey { job, process },
            });
        }
    }

    pub(super) fn on_stdin_taken(&mut self, job: JobId, bytes: u64) {
        let Some(part) = self.parts.get(&job) else { return };
        let coordinator = part.state.coordinator().clone();
        self.send_job(&coordinator, job, StreamToCoordinator::StdinTaken { bytes });
    }
}
