//! The output of a job's ranks on this node: pieces are kept until the coordinator says they were taken, and the pipes
//! are left unread while too much is kept. Each job has a window of its own, so a job whose reader is slow holds up
//! nobody else.

use super::daemon::Daemon;
use super::event::Event;
use crate::rank::{self, Output};
use pcm_core::job::participant::Input;
use pcm_core::node::record::Record;
use pcm_core::node::timer::Timer;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::peer::{OUTPUT_WINDOW_BYTES, OutputPiece, StreamToCoordinator};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Pieces between the pipes' readers and the window.
const READ_AHEAD_MAX: usize = 4;

/// Pipes of a job whose processes are gone are read to their end at once; one that is still open is held by something
/// that is not of the job any more.
const PIPES_CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// One stream of one process.
#[derive(Debug, Default)]
struct StreamOut {
    next: u64,
    kept: VecDeque<OutputPiece>,
    has_ended: bool,
}

/// Output of the job's processes here.
#[derive(Debug)]
pub(super) struct PartOutput {
    streams: BTreeMap<(ProcessId, Stream), StreamOut>,
    window: Arc<Semaphore>,
    sender: mpsc::Sender<Output>,
}

impl PartOutput {
    pub(super) fn start(job: JobId, events: mpsc::Sender<Event>) -> Self {
        let window = Arc::new(Semaphore::new(OUTPUT_WINDOW_BYTES as usize));
        let (sender, receiver) = mpsc::channel(READ_AHEAD_MAX);
        tokio::spawn(gate(job, receiver, Arc::clone(&window), events));
        Self {
            streams: BTreeMap::new(),
            window,
            sender,
        }
    }

    /// Where a process's output goes.
    pub(super) fn sender(&self) -> mpsc::Sender<Output> {
        self.sender.clone()
    }

    /// A process is going to have output.
    pub(super) fn expect(&mut self, process: ProcessId) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.streams.entry((process, stream)).or_default();
        }
    }

    /// What an earlier daemon had passed on of a stream.
    pub(super) fn go_on_at(&mut self, process: ProcessId, stream: Stream, bytes: u64) {
        self.streams.entry((process, stream)).or_default().next = bytes;
    }

    /// What a successor has to know.
    pub(super) fn printed_records(&self, job: JobId) -> Vec<Record> {
        let record = |((process, stream), out): (&(ProcessId, Stream), &StreamOut)| Record::Printed {
            job,
            process: *process,
            stream: *stream,
            bytes: out.next,
        };
        self.streams.iter().map(record).collect()
    }

    /// Whether both streams of a process were read to their end.
    pub(super) fn has_ended(&self, process: ProcessId) -> bool {
        let of_process = self
            .streams
            .range((process, Stream::Stdout)..=(process, Stream::Stderr));
        of_process.into_iter().all(|(_, stream)| stream.has_ended)
    }

    /// Whether nothing more will come and nothing is kept.
    fn is_done(&self) -> bool {
        self.streams
            .values()
            .all(|stream| stream.has_ended && stream.kept.is_empty())
    }

    fn push(&mut self, process: ProcessId, stream: Stream, bytes: Vec<u8>) -> OutputPiece {
        let out = self.streams.entry((process, stream)).or_default();
        let offset = out.next;
        out.next += bytes.len() as u64;
        let available_from = out.kept.front().map_or(offset, |piece| piece.offset);
        let piece = OutputPiece {
            process,
            stream,
            offset,
            available_from,
            bytes,
        };
        out.kept.push_back(piece.clone());
        piece
    }

    fn taken(&mut self, process: ProcessId, stream: Stream, bytes: u64) {
        let Some(out) = self.streams.get_mut(&(process, stream)) else {
            return;
        };
        while let Some(piece) = out.kept.front()
            && piece.offset + piece.bytes.len() as u64 <= bytes
        {
            self.window.add_permits(piece.bytes.len());
            out.kept.pop_front();
        }
    }

    /// What is kept of all streams.
    fn kept(&self) -> Vec<OutputPiece> {
        let streams = self
            .streams
            .values()
            .filter_map(|out| Some((out.kept.front()?.offset, out)));
        let pieces = streams.flat_map(|(available_from, out)| {
            out.kept.iter().map(move |piece| OutputPiece {
                available_from,
                ..piece.clone()
            })
        });
        pieces.collect()
    }
}

/// Lets output through as far as the window has room.
async fn gate(job: JobId, mut output: mpsc::Receiver<Output>, window: Arc<Semaphore>, events: mpsc::Sender<Event>) {
    while let Some(output) = output.recv().await {
        if let Output::Lines { bytes, .. } = &output {
            match window.acquire_many(bytes.len() as u32).await {
                Ok(permits) => permits.forget(),
                Err(_) => return,
            }
        }
        if events.send(Event::Printed { job, output }).await.is_err() {
            return;
        }
    }
}

fn stream_of(stream: rank::Stream) -> Stream {
    match stream {
        rank::Stream::Stdout => Stream::Stdout,
        rank::Stream::Stderr => Stream::Stderr,
    }
}

impl Daemon {
    /// A rank printed something, or one of its streams ended.
    pub(super) fn on_printed(&mut self, job: JobId, output: Output) {
        match output {
            Output::Lines { key, stream, bytes } => {
                let stream = stream_of(stream);
                let Some(part) = self.parts.get_mut(&job) else { return };
                let piece = part.output.push(key.process, stream, bytes);
                let coordinator = part.state.coordinator().clone();
                let end = piece.offset + piece.bytes.len() as u64;
                self.record(Record::Printed {
                    job,
                    process: key.process,
                    stream,
                    bytes: end,
                });
                self.send_job(&coordinator, job, StreamToCoordinator::Output(piece));
            }
            Output::End { key, stream } => {
                let Some(part) = self.parts.get_mut(&job) else { return };
                let out = part.output.streams.entry((key.process, stream_of(stream))).or_default();
                out.has_ended = true;
                self.forget_if_done(job, key.process);
                self.clear_if_done(job);
            }
        }
    }

    pub(super) fn on_part_output_taken(&mut self, job: JobId, process: ProcessId, stream: Stream, bytes: u64) {
        if let Some(part) = self.parts.get_mut(&job) {
            part.output.taken(process, stream, bytes);
            self.clear_if_done(job);
        }
    }

    /// The coordinator wants what was not taken once more.
    pub(super) fn on_output_from(&mut self, job: JobId, from: &[(ProcessId, Stream, u64)]) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        for (process, stream, bytes) in from {
            part.output.taken(*process, *stream, *bytes);
        }
        let coordinator = part.state.coordinator().clone();
        for piece in part.output.kept() {
            self.send_job(&coordinator, job, StreamToCoordinator::Output(piece));
        }
        self.clear_if_done(job);
    }

    /// No process is left; output may be.
    pub(super) fn on_part_emptied(&mut self, job: JobId) {
        self.out.arm(PIPES_CLOSE_WITHIN, Timer::OutputEnd(job));
        self.clear_if_done(job);
    }

    pub(super) fn on_output_end_timer(&mut self, job: JobId) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        for out in part.output.streams.values_mut() {
            out.has_ended = true;
        }
        for process in part.locals.keys().copied().collect::<Vec<_>>() {
            self.forget_if_done(job, process);
        }
        self.clear_if_done(job);
    }

    fn clear_if_done(&mut self, job: JobId) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        if part.state.is_emptied() && part.output.is_done() {
            self.participate(job, Input::OutputTaken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_taken_is_not_kept_and_makes_room() {
        let (events, _receiver) = mpsc::channel(8);
        let mut output = PartOutput::start(JobId(1), events);
        output.window.try_acquire_many(6).unwrap().forget();
        output.push(ProcessId(0), Stream::Stdout, b"ab\n".to_vec());
        let second = output.push(ProcessId(0), Stream::Stdout, b"cd\n".to_vec());
        assert_eq!((second.offset, second.available_from), (3, 0));
        output.taken(ProcessId(0), Stream::Stdout, 3);
        assert_eq!(output.window.available_permits() as u64, OUTPUT_WINDOW_BYTES - 3);
        assert_eq!(output.kept().len(), 1);
        assert_eq!(output.kept()[0].available_from, 3);
    }

    #[tokio::test]
    async fn a_job_beyond_its_window_waits_and_goes_on_when_output_is_taken() {
        let (events, mut receiver) = mpsc::channel(64);
        let output = PartOutput::start(JobId(1), events);
        let key = pcm_proto::keeper::ProcessKey {
            job: JobId(1),
            process: ProcessId(0),
        };
        let sender = output.sender();
        let chunk = 64 * 1024;
        tokio::spawn(async move {
            for _ in 0..17 {
                let bytes = vec![b'x'; chunk];
                let lines = Output::Lines {
                    key,
                    stream: rank::Stream::Stdout,
                    bytes,
                };
                sender.send(lines).await.unwrap();
            }
        });
        for _ in 0..16 {
            receiver.recv().await.unwrap();
        }
        assert!(
            tokio::time::timeout(Duration::from_millis(50), receiver.recv())
                .await
                .is_err()
        );
        output.window.add_permits(chunk);
        assert!(
            tokio::time::timeout(Duration::from_secs(5), receiver.recv())
                .await
                .unwrap()
                .is_some()
        );
    }
}
