//! The files of a detached job, `jobs/ID/stdout` and `jobs/ID/stderr` in the cluster's directory, written by a task of
//! their own.

use super::event::Event;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::peer::OutputPiece;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Batches on their way to the files; more wait at the coordinator, inside the nodes' windows.
const BATCHES_MAX: usize = 8;

/// Pieces in one batch: at most 4 MiB.
const BATCH_PIECES_MAX: usize = 64;

/// A piece that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filed {
    pub(super) process: ProcessId,
    pub(super) stream: Stream,
    pub(super) end: u64,
}

/// The way to the files of one job.
#[derive(Debug)]
pub(super) struct OutputFiles {
    batches: mpsc::Sender<Vec<OutputPiece>>,
}

impl OutputFiles {
    pub(super) fn start(cluster_dir: &Path, job: JobId, events: mpsc::Sender<Event>) -> Self {
        let directory = cluster_dir.join("jobs").join(job.to_string());
        let (batches, receiver) = mpsc::channel(BATCHES_MAX);
        tokio::task::spawn_blocking(move || write_all(&directory, job, receiver, &events));
        Self { batches }
    }

    /// Pieces that can be handed over now; `None` when none can.
    pub(super) fn room(&self) -> Option<usize> {
        (self.batches.capacity() > 0).then_some(BATCH_PIECES_MAX)
    }

    /// Hands over a batch; there must be room.
    pub(super) fn write(&self, pieces: Vec<OutputPiece>) {
        if self.batches.try_send(pieces).is_err() {
            tracing::error!("output of a detached job is lost: its writer has ended");
        }
    }
}

fn write_all(
    directory: &PathBuf,
    job: JobId,
    mut batches: mpsc::Receiver<Vec<OutputPiece>>,
    events: &mpsc::Sender<Event>,
) {
    let open = |name: &str| -> io::Result<File> {
        std::fs::create_dir_all(directory)?;
        OpenOptions::new().create(true).append(true).open(directory.join(name))
    };
    let (mut stdout, mut stderr) = (open("stdout"), open("stderr"));
    while let Some(pieces) = batches.blocking_recv() {
        let mut filed = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let file = match piece.stream {
                Stream::Stdout => &mut stdout,
                Stream::Stderr => &mut stderr,
            };
            let written = match file {
                Ok(file) => file.write_all(&piece.bytes),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            if let Err(error) = written {
                tracing::error!(%job, directory = %directory.display(), %error, "output of a detached job is lost");
            }
            let end = piece.offset + piece.bytes.len() as u64;
            filed.push(Filed {
                process: piece.process,
                stream: piece.stream,
                end,
            });
        }
        if events.blocking_send(Event::Filed { job, pieces: filed }).is_err() {
            return;
        }
    }
}
