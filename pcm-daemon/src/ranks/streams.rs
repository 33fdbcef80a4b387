//! The tasks between a job's processes and the loop: what the ranks say and print goes in, standard input goes out. Each
//! job has queues of its own, so none fills those of another.

use crate::rank::{Output, RankEvent};
use pcm_proto::control::STDIN_WINDOW_BYTES;
use pcm_proto::ids::JobId;
use pcm_proto::peer::OUTPUT_WINDOW_BYTES;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Requests and messages of ranks that wait for the loop, per job.
const RANK_EVENTS_MAX: usize = 256;

/// Pieces between the pipes' readers and the window.
const READ_AHEAD_MAX: usize = 4;

/// Pieces on their way into the pipe; the window bounds their bytes.
const PIECES_MAX: usize = STDIN_WINDOW_BYTES as usize;

/// What comes from ranks.
#[derive(Debug)]
pub enum RankNews {
    /// A rank says something.
    Said(RankEvent),
    /// A rank printed something.
    Printed(Output),
    /// A rank took its standard input up to this offset, or never will.
    StdinTaken { job: JobId, bytes: u64 },
}

/// What the loop's events are made of, as far as ranks are concerned.
pub trait FromRanks: From<RankNews> + Send + 'static {}
impl<E: From<RankNews> + Send + 'static> FromRanks for E {}

/// The ways from and to the processes of one job. They end with it.
#[derive(Debug)]
pub(super) struct JobStreams {
    said: mpsc::Sender<RankEvent>,
    printed: mpsc::Sender<Output>,
    window: Arc<Semaphore>,
    stdin: Option<mpsc::Sender<(u64, Vec<u8>)>>,
}

impl JobStreams {
    pub(super) fn start<E: FromRanks>(events: &mpsc::Sender<E>) -> Self {
        let (said, what_was_said) = mpsc::channel(RANK_EVENTS_MAX);
        tokio::spawn(pass_on(what_was_said, events.clone()));
        let window = Arc::new(Semaphore::new(OUTPUT_WINDOW_BYTES as usize));
        let (printed, what_was_printed) = mpsc::channel(READ_AHEAD_MAX);
        tokio::spawn(gate(what_was_printed, Arc::clone(&window), events.clone()));
        Self {
            said,
            printed,
            window,
            stdin: None,
        }
    }

    /// Where a process says something.
    pub(super) fn said(&self) -> mpsc::Sender<RankEvent> {
        self.said.clone()
    }

    /// Where a process's output goes.
    pub(super) fn printed(&self) -> &mpsc::Sender<Output> {
        &self.printed
    }

    /// So much output needs no room any more.
    pub(super) fn free(&self, bytes: u64) {
        self.window.add_permits(bytes as usize);
    }

    /// Standard input goes into this pipe.
    pub(super) fn feed<E: FromRanks>(&mut self, job: JobId, pipe: mpsc::Sender<Vec<u8>>, events: &mpsc::Sender<E>) {
        let (pieces, receiver) = mpsc::channel(PIECES_MAX);
        tokio::spawn(feed(job, receiver, pipe, events.clone()));
        self.stdin = Some(pieces);
    }

    /// Writes a piece of standard input.
    pub(super) fn write(&self, job: JobId, end: u64, bytes: Vec<u8>) {
        let Some(stdin) = &self.stdin else { return };
        if stdin.try_send((end, bytes)).is_err() {
            tracing::warn!(%job, "standard input beyond its window is dropped");
        }
    }

    /// No piece of standard input follows.
    pub(super) fn end_stdin(&mut self) {
        self.stdin = None;
    }
}

async fn pass_on<E: FromRanks>(mut said: mpsc::Receiver<RankEvent>, events: mpsc::Sender<E>) {
    while let Some(event) = said.recv().await {
        if events.send(RankNews::Said(event).into()).await.is_err() {
            return;
        }
    }
}

/// Lets output through as far as the window has room.
async fn gate<E: FromRanks>(mut printed: mpsc::Receiver<Output>, window: Arc<Semaphore>, events: mpsc::Sender<E>) {
    while let Some(output) = printed.recv().await {
        if let Output::Lines { bytes, .. } = &output {
            match window.acquire_many(bytes.len() as u32).await {
                Ok(permits) => permits.forget(),
                Err(_) => return,
            }
        }
        if events.send(RankNews::Printed(output).into()).await.is_err() {
            return;
        }
    }
}

async fn feed<E: FromRanks>(
    job: JobId,
    mut pieces: mpsc::Receiver<(u64, Vec<u8>)>,
    pipe: mpsc::Sender<Vec<u8>>,
    events: mpsc::Sender<E>,
) {
    while let Some((bytes, piece)) = pieces.recv().await {
        // A process that closed its input takes everything and reads nothing.
        let _ = pipe.send(piece).await;
        let taken = RankNews::StdinTaken { job, bytes };
        if events.send(taken.into()).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::control::Stream;
    use pcm_proto::ids::ProcessId;
    use pcm_proto::keeper::ProcessKey;
    use std::time::Duration;

    #[tokio::test]
    async fn a_job_beyond_its_window_waits_and_goes_on_when_output_is_taken() {
        let (events, mut receiver) = mpsc::channel::<RankNews>(64);
        let streams = JobStreams::start(&events);
        let sender = streams.printed().clone();
        let chunk = 64 * 1024;
        tokio::spawn(async move {
            let (job, process) = (JobId(1), ProcessId(0));
            for _ in 0..17 {
                let lines = Output::Lines {
                    key: ProcessKey { job, process },
                    stream: Stream::Stdout,
                    bytes: vec![b'x'; chunk],
                };
                sender.send(lines).await.unwrap();
            }
        });
        for _ in 0..16 {
            receiver.recv().await.unwrap();
        }
        let early = tokio::time::timeout(Duration::from_millis(50), receiver.recv());
        assert!(early.await.is_err());
        streams.free(chunk as u64);
        let late = tokio::time::timeout(Duration::from_secs(5), receiver.recv());
        assert!(late.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn taken_input_is_reported_by_the_offset_of_its_end() {
        let (events, mut receiver) = mpsc::channel::<RankNews>(4);
        let mut streams = JobStreams::start(&events);
        let (pipe, mut reader) = mpsc::channel(4);
        streams.feed(JobId(1), pipe, &events);
        streams.write(JobId(1), 12, b"ab".to_vec());
        streams.end_stdin();
        assert_eq!(reader.recv().await.unwrap(), b"ab");
        let news = receiver.recv().await.unwrap();
        assert!(matches!(news, RankNews::StdinTaken { bytes: 12, .. }), "{news:?}");
        assert_eq!(reader.recv().await, None);
    }
}
