//! The output of a job at its coordinator: pieces come from the nodes in the order of each stream, go to whoever
//! watches, and are acknowledged to their node when they were taken. So a slow reader holds back the ranks, and at
//! most a window's worth is here for each node.

use super::coordinating::Audience;
use super::daemon::Daemon;
use super::event::Event;
use super::output_files::{Filed, OutputFiles};
use pcm_core::node::record::Record;
use pcm_core::node::requester::Requester;
use pcm_proto::control::{DaemonToControl, OUTPUT_WINDOW_BYTES, Stream};
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::peer::{OutputPiece, StreamToNode};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use tokio::sync::mpsc;

type StreamKey = (ProcessId, Stream);

/// Where the output goes.
#[derive(Debug)]
enum Sink {
    /// To the attached `pcmctl`, when there is one.
    Control,
    /// To the files of a detached job.
    Files(OutputFiles),
    Nowhere,
}

/// Output on its way.
#[derive(Debug)]
pub(super) struct JobOutput {
    sink: Sink,
    /// Whether somebody takes output now; without, pieces are left to be sent again.
    is_reading: bool,
    /// By stream: how far pieces came in order.
    expected: BTreeMap<StreamKey, u64>,
    /// By stream: how far they were taken.
    taken: BTreeMap<StreamKey, u64>,
    waiting: VecDeque<OutputPiece>,
    sent: VecDeque<OutputPiece>,
    sent_bytes: u64,
}

impl JobOutput {
    fn new(sink: Sink, is_reading: bool, taken: BTreeMap<StreamKey, u64>) -> Self {
        let expected = taken.clone();
        Self {
            sink,
            is_reading,
            expected,
            taken,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            sent_bytes: 0,
        }
    }

    /// For an attached `pcmctl`.
    pub(super) fn to_control() -> Self {
        Self::new(Sink::Control, true, BTreeMap::new())
    }

    /// For a `pcmctl` that is expected to come back and to say what it has.
    pub(super) fn to_absent_control() -> Self {
        Self::new(Sink::Control, false, BTreeMap::new())
    }

    /// For a detached job, of which this was written before.
    pub(super) fn to_files(
        cluster_dir: &Path,
        job: JobId,
        written: BTreeMap<StreamKey, u64>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        Self::new(Sink::Files(OutputFiles::start(cluster_dir, job, events)), true, written)
    }

    /// A reader that has this much of each stream takes over.
    pub(super) fn attach(&mut self, received: Vec<(ProcessId, Stream, u64)>) {
        self.taken = received
            .into_iter()
            .map(|(process, stream, bytes)| ((process, stream), bytes))
            .collect();
        self.expected = self.taken.clone();
        self.sink = Sink::Control;
        self.waiting.clear();
        self.sent.clear();
        self.sent_bytes = 0;
        self.is_reading = true;
    }

    /// What a successor has to know of a detached job's files.
    pub(super) fn written_records(&self, job: JobId) -> Vec<Record> {
        let Sink::Files(_) = &self.sink else { return Vec::new() };
        let record = |((process, stream), bytes): (&StreamKey, &u64)| Record::Written {
            job,
            process: *process,
            stream: *stream,
            bytes: *bytes,
        };
        self.taken.iter().map(record).collect()
    }

    /// Takes a piece in; whether it is part of what is to be passed on.
    fn take(&mut self, piece: OutputPiece) -> Taken {
        let key = (piece.process, piece.stream);
        let expected = self.expected.entry(key).or_default();
        let end = piece.offset + piece.bytes.len() as u64;
        if !self.is_reading {
            return Taken::Unread;
        }
        if end <= *expected {
            return Taken::Known {
                taken: self.taken.get(&key).copied().unwrap_or(0),
            };
        }
        if piece.offset > *expected && piece.available_from <= *expected {
            return Taken::OutOfOrder { expected: *expected };
        }
        if piece.offset > *expected {
            let lost = piece.offset - *expected;
            tracing::warn!(process = %piece.process, lost, "output was lost with a daemon that was killed");
        }
        *expected = end;
        self.waiting.push_back(piece);
        Taken::Queued
    }

    /// The next piece for an attached reader, as far as its window allows.
    fn next_for_control(&mut self, ignore_window: bool) -> Option<OutputPiece> {
        let length = self.waiting.front()?.bytes.len() as u64;
        if !ignore_window && self.sent_bytes > 0 && self.sent_bytes + length > OUTPUT_WINDOW_BYTES {
            return None;
        }
        let piece = self.waiting.pop_front()?;
        self.sent_bytes += length;
        self.sent.push_back(piece.clone());
        Some(piece)
    }

    /// The reader took so much of a stream. Returns whether that is news.
    fn on_taken(&mut self, key: StreamKey, bytes: u64) -> bool {
        let known = self.taken.entry(key).or_default();
        if bytes <= *known {
            return false;
        }
        *known = bytes;
        let sent_bytes = &mut self.sent_bytes;
        self.sent.retain(|piece| {
            let is_taken = (piece.process, piece.stream) == key && piece.offset + piece.bytes.len() as u64 <= bytes;
            if is_taken {
                *sent_bytes -= piece.bytes.len() as u64;
            }
            !is_taken
        });
        true
    }
}

enum Taken {
    Queued,
    Known { taken: u64 },
    OutOfOrder { expected: u64 },
    Unread,
}

impl Daemon {
    /// A node sends output.
    pub(super) fn on_output_piece(&mut self, job: JobId, node: &NodeName, piece: OutputPiece) {
        let (process, stream, end) = (piece.process, piece.stream, piece.offset + piece.bytes.len() as u64);
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return self.send_job(
                node,
                job,
                StreamToNode::OutputTaken {
                    process,
                    stream,
                    bytes: end,
                },
            );
        };
        match coordinated.output.take(piece) {
            Taken::Queued => self.pump_output(job),
            Taken::Known { taken } => {
                self.send_job(
                    node,
                    job,
                    StreamToNode::OutputTaken {
                        process,
                        stream,
                        bytes: taken,
                    },
                );
            }
            Taken::OutOfOrder { expected } => {
                self.send_job(node, job, StreamToNode::OutputFrom(vec![(process, stream, expected)]));
            }
            Taken::Unread => {}
        }
    }

    /// Passes on what may be passed on.
    pub(super) fn pump_output(&mut self, job: JobId) {
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return;
        };
        match &coordinated.output.sink {
            Sink::Control => self.pump_to_control(job, false),
            Sink::Files(files) => {
                if let Some(room) = files.room() {
                    let count = room.min(coordinated.output.waiting.len());
                    let pieces: Vec<OutputPiece> = coordinated.output.waiting.drain(..count).collect();
                    if !pieces.is_empty() {
                        files.write(pieces);
                    }
                }
            }
            Sink::Nowhere => {
                let pieces = std::mem::take(&mut coordinated.output.waiting);
                let ends = pieces
                    .iter()
                    .map(|p| (p.process, p.stream, p.offset + p.bytes.len() as u64));
                for (process, stream, bytes) in ends.collect::<Vec<_>>() {
                    self.on_output_taken(job, process, stream, bytes);
                }
            }
        }
    }

    fn pump_to_control(&mut self, job: JobId, ignore_window: bool) {
        while let Some(coordinated) = self.jobs.get_mut(&job)
            && let Audience::Attached(link) = coordinated.audience
            && let Some(piece) = coordinated.output.next_for_control(ignore_window)
        {
            let rank = coordinated
                .state
                .rank_of(piece.process)
                .unwrap_or(Rank(piece.process.0));
            let OutputPiece {
                process,
                stream,
                offset,
                bytes,
                ..
            } = piece;
            self.answer(
                Requester::Control(link),
                DaemonToControl::Output {
                    rank,
                    process,
                    stream,
                    offset,
                    bytes,
                },
            );
        }
    }

    /// The reader took output.
    pub(super) fn on_output_taken(&mut self, job: JobId, process: ProcessId, stream: Stream, bytes: u64) {
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return;
        };
        if !coordinated.output.on_taken((process, stream), bytes) {
            return;
        }
        let node = coordinated
            .state
            .processes()
            .get(&process)
            .map(|known| known.node.clone());
        if let Some(node) = node {
            self.send_job(&node, job, StreamToNode::OutputTaken { process, stream, bytes });
        }
        self.pump_output(job);
    }

    pub(super) fn on_filed(&mut self, job: JobId, pieces: Vec<Filed>) {
        for Filed { process, stream, end } in pieces {
            self.record(Record::Written {
                job,
                process,
                stream,
                bytes: end,
            });
            self.on_output_taken(job, process, stream, end);
        }
        self.pump_output(job);
    }

    /// Asks one node, or all, for the output that has not come.
    pub(super) fn ask_output(&mut self, job: JobId, node: Option<&NodeName>) {
        let Some(coordinated) = self.jobs.get(&job).filter(|job| job.output.is_reading) else {
            return;
        };
        let expected = coordinated.output.expected.iter();
        let from: Vec<(ProcessId, Stream, u64)> = expected
            .map(|((process, stream), at)| (*process, *stream, *at))
            .collect();
        let nodes: Vec<NodeName> = match node {
            Some(node) => vec![node.clone()],
            None => coordinated.state.nodes_with_output().cloned().collect(),
        };
        for node in nodes {
            self.send_job(&node, job, StreamToNode::OutputFrom(from.clone()));
        }
    }

    /// From now on all output is dropped, so that nobody waits for a reader that is gone.
    pub(super) fn discard_output(&mut self, job: JobId) {
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return;
        };
        let output = &mut coordinated.output;
        output.sink = Sink::Nowhere;
        output.is_reading = true;
        let sent = std::mem::take(&mut output.sent);
        output.waiting = sent.into_iter().chain(output.waiting.drain(..)).collect();
        output.sent_bytes = 0;
        self.ask_output(job, None);
        self.pump_output(job);
    }

    /// The job is over: what is still here goes out whatever the window says.
    pub(super) fn finish_output(&mut self, job: JobId) {
        if let Some(coordinated) = self.jobs.get(&job)
            && matches!(coordinated.output.sink, Sink::Control)
        {
            self.pump_to_control(job, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, available_from: u64, bytes: &[u8]) -> OutputPiece {
        OutputPiece {
            process: ProcessId(0),
            stream: Stream::Stdout,
            offset,
            available_from,
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn a_piece_that_comes_twice_is_passed_on_once() {
        let mut output = JobOutput::to_control();
        assert!(matches!(output.take(piece(0, 0, b"ab\n")), Taken::Queued));
        assert!(matches!(output.take(piece(0, 0, b"ab\n")), Taken::Known { taken: 0 }));
        assert_eq!(output.waiting.len(), 1);
    }

    #[test]
    fn a_gap_is_asked_for_when_the_node_has_it_and_accepted_when_it_is_lost() {
        let mut output = JobOutput::to_control();
        assert!(matches!(
            output.take(piece(3, 0, b"cd\n")),
            Taken::OutOfOrder { expected: 0 }
        ));
        assert!(matches!(output.take(piece(3, 3, b"cd\n")), Taken::Queued));
    }

    #[test]
    fn a_reader_that_does_not_read_gets_no_more_than_its_window() {
        let mut output = JobOutput::to_control();
        let bytes = vec![b'x'; 64 * 1024];
        for number in 0..40 {
            output.take(piece(number * bytes.len() as u64, 0, &bytes));
        }
        let mut sent = 0;
        while let Some(piece) = output.next_for_control(false) {
            sent += piece.bytes.len() as u64;
        }
        assert_eq!(sent, OUTPUT_WINDOW_BYTES);
        output.on_taken((ProcessId(0), Stream::Stdout), 128 * 1024);
        assert!(output.next_for_control(false).is_some() && output.next_for_control(false).is_some());
        assert!(output.next_for_control(false).is_none());
    }

    #[test]
    fn a_reader_that_comes_back_gets_what_it_has_not() {
        let mut output = JobOutput::to_control();
        output.take(piece(0, 0, b"ab\n"));
        output.next_for_control(false);
        output.attach(vec![(ProcessId(0), Stream::Stdout, 3)]);
        assert!(matches!(output.take(piece(0, 0, b"ab\n")), Taken::Known { taken: 3 }));
        assert!(matches!(output.take(piece(3, 0, b"cd\n")), Taken::Queued));
    }
}
