//! The output of a job at its coordinator: pieces come from the nodes in the order of each stream, go to the reader,
//! and are acknowledged to their node when they were taken. So a slow reader holds back the ranks, and at most a
//! window's worth is here for each node.

use super::JobView;
use super::effect::{FileEffect, Filed};
use crate::node::outbox::Outbox;
use crate::node::record::Record;
use pcm_proto::control::{DaemonToControl, OUTPUT_WINDOW_BYTES, Stream};
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::peer::{OutputPiece, StreamToNode};
use std::collections::{BTreeMap, VecDeque};

/// Batches on their way to the files of a job; more wait here, inside the nodes' windows.
const BATCHES_MAX: usize = 8;

/// Pieces in one batch: at most 4 MiB.
const BATCH_PIECES_MAX: usize = 64;

type StreamKey = (ProcessId, Stream);

/// Where the output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// To the attached `pcmctl`, when there is one.
    Control,
    /// To the files of a detached job.
    Files {
        /// Batches that are not written.
        batches: usize,
    },
    Nowhere,
}

/// Output on its way.
#[derive(Debug)]
pub struct JobOutput {
    job: JobId,
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
    fn new(job: JobId, sink: Sink, is_reading: bool, taken: BTreeMap<StreamKey, u64>) -> Self {
        let expected = taken.clone();
        Self {
            job,
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
    pub fn to_control(job: JobId) -> Self {
        Self::new(job, Sink::Control, true, BTreeMap::new())
    }

    /// For a `pcmctl` that is expected to come back and to say what it has.
    pub fn to_absent_control(job: JobId) -> Self {
        Self::new(job, Sink::Control, false, BTreeMap::new())
    }

    /// For a detached job, of which this was written before.
    pub fn to_files(job: JobId, written: BTreeMap<StreamKey, u64>, out: &mut Outbox) -> Self {
        out.files(FileEffect::Open { job });
        Self::new(job, Sink::Files { batches: 0 }, true, written)
    }

    /// A reader that has this much of each stream takes over.
    pub fn attach(&mut self, received: Vec<(ProcessId, Stream, u64)>, out: &mut Outbox) {
        self.close(out);
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

    /// The files of a detached job get nothing more.
    pub fn close(&mut self, out: &mut Outbox) {
        if let Sink::Files { .. } = self.sink {
            self.sink = Sink::Nowhere;
            out.files(FileEffect::Close { job: self.job });
        }
    }

    /// What a successor has to know of a detached job's files.
    pub fn written_records(&self) -> Vec<Record> {
        let Sink::Files { .. } = self.sink else {
            return Vec::new();
        };
        let record = |((process, stream), bytes): (&StreamKey, &u64)| Record::Written {
            job: self.job,
            process: *process,
            stream: *stream,
            bytes: *bytes,
        };
        self.taken.iter().map(record).collect()
    }

    /// A node sends output.
    pub fn on_piece(&mut self, node: &NodeName, piece: OutputPiece, view: JobView<'_>, out: &mut Outbox) {
        let (process, stream) = (piece.process, piece.stream);
        match self.take(piece) {
            Taken::Queued => self.pump(view, out),
            Taken::Known { taken: bytes } => {
                out.send_job(node, self.job, StreamToNode::OutputTaken { process, stream, bytes });
            }
            Taken::OutOfOrder { expected } => {
                let from = vec![(process, stream, expected)];
                out.send_job(node, self.job, StreamToNode::OutputFrom(from));
            }
            Taken::Unread => {}
        }
    }

    /// Takes a piece in; whether it is part of what is to be passed on.
    fn take(&mut self, piece: OutputPiece) -> Taken {
        let key = (piece.process, piece.stream);
        let expected = self.expected.entry(key).or_default();
        let end = end_of(&piece);
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

    /// Passes on what may be passed on.
    pub fn pump(&mut self, view: JobView<'_>, out: &mut Outbox) {
        match &mut self.sink {
            Sink::Control => self.pump_to_control(false, view, out),
            Sink::Files { batches } => {
                while *batches < BATCHES_MAX && !self.waiting.is_empty() {
                    *batches += 1;
                    let count = BATCH_PIECES_MAX.min(self.waiting.len());
                    let pieces = self.waiting.drain(..count).collect();
                    out.files(FileEffect::Write { job: self.job, pieces });
                }
            }
            Sink::Nowhere => {
                for piece in std::mem::take(&mut self.waiting) {
                    self.take_note(piece.process, piece.stream, end_of(&piece), view, out);
                }
            }
        }
    }

    fn pump_to_control(&mut self, ignore_window: bool, view: JobView<'_>, out: &mut Outbox) {
        let Some(link) = view.reader else { return };
        while let Some(piece) = self.next_for_control(ignore_window) {
            let rank = view.coordinator.rank_of(piece.process);
            let output = DaemonToControl::Output {
                rank: rank.unwrap_or(Rank(piece.process.0)),
                process: piece.process,
                stream: piece.stream,
                offset: piece.offset,
                bytes: piece.bytes,
            };
            out.control(link, output);
        }
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

    /// The reader took output.
    pub fn on_taken(&mut self, process: ProcessId, stream: Stream, bytes: u64, view: JobView<'_>, out: &mut Outbox) {
        if self.take_note(process, stream, bytes, view, out) {
            self.pump(view, out);
        }
    }

    /// So much of a stream was taken; its node may let go of it. Whether that is news.
    fn take_note(
        &mut self,
        process: ProcessId,
        stream: Stream,
        bytes: u64,
        view: JobView<'_>,
        out: &mut Outbox,
    ) -> bool {
        let key = (process, stream);
        let known = self.taken.entry(key).or_default();
        if bytes <= *known {
            return false;
        }
        *known = bytes;
        let sent_bytes = &mut self.sent_bytes;
        self.sent.retain(|piece| {
            let is_taken = (piece.process, piece.stream) == key && end_of(piece) <= bytes;
            if is_taken {
                *sent_bytes -= piece.bytes.len() as u64;
            }
            !is_taken
        });
        let known = view.coordinator.processes().get(&process);
        // The node of a process of an earlier start is not known any more: it is one of these.
        let others = view.coordinator.nodes_with_output().filter(|_| known.is_none());
        for node in known.map(|known| &known.node).into_iter().chain(others) {
            out.send_job(node, self.job, StreamToNode::OutputTaken { process, stream, bytes });
        }
        true
    }

    /// A batch was written to the files; that is in the journal before any node lets go of it.
    pub fn on_filed(&mut self, pieces: &[Filed], view: JobView<'_>, out: &mut Outbox) {
        if let Sink::Files { batches } = &mut self.sink {
            *batches = batches.saturating_sub(1);
        }
        for Filed { process, stream, end } in pieces {
            out.record(Record::Written {
                job: self.job,
                process: *process,
                stream: *stream,
                bytes: *end,
            });
            self.take_note(*process, *stream, *end, view, out);
        }
        self.pump(view, out);
    }

    /// Asks one node, or all, for the output that has not come.
    pub fn ask(&self, node: Option<&NodeName>, view: JobView<'_>, out: &mut Outbox) {
        if !self.is_reading {
            return;
        }
        let expected = self.expected.iter();
        let from: Vec<(ProcessId, Stream, u64)> = expected
            .map(|((process, stream), at)| (*process, *stream, *at))
            .collect();
        let all = view.coordinator.nodes_with_output().filter(|_| node.is_none());
        for node in node.into_iter().chain(all) {
            out.send_job(node, self.job, StreamToNode::OutputFrom(from.clone()));
        }
    }

    /// From now on all output is dropped, so that nobody waits for a reader that is gone.
    pub fn discard(&mut self, view: JobView<'_>, out: &mut Outbox) {
        self.close(out);
        self.sink = Sink::Nowhere;
        self.is_reading = true;
        let sent = std::mem::take(&mut self.sent);
        self.waiting = sent.into_iter().chain(self.waiting.drain(..)).collect();
        self.sent_bytes = 0;
        self.ask(None, view, out);
        self.pump(view, out);
    }

    /// The job is over: what is still here goes out whatever the window says.
    pub fn finish(&mut self, view: JobView<'_>, out: &mut Outbox) {
        if self.sink == Sink::Control {
            self.pump_to_control(true, view, out);
        }
        self.close(out);
    }
}

enum Taken {
    Queued,
    Known { taken: u64 },
    OutOfOrder { expected: u64 },
    Unread,
}

fn end_of(piece: &OutputPiece) -> u64 {
    piece.offset + piece.bytes.len() as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::job::coordinator::Coordinator;
    use crate::job::placement::{Placed, Share};
    use crate::moment::Moment;
    use crate::node::outbox::Effect;
    use crate::node::requester::LinkId;
    use pcm_proto::job::JobSpec;
    use pcm_proto::peer::{DaemonToDaemon, JobMessage};

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    /// A job of one rank on node n1, led by node n0.
    pub(in crate::node::streams) fn coordinator() -> Coordinator {
        let spec = JobSpec {
            name: "test".into(),
            size: 1,
            min: 1,
            max: 1,
            program: b"a.out".to_vec(),
            cwd: "/".into(),
            restarts_max: 100,
            ..JobSpec::default()
        };
        let share = Share {
            node: node("n1"),
            host: 1,
            count: 1,
        };
        let placed = Placed::on(vec![share]);
        Coordinator::accept(JobId(1), node("n0"), spec, &placed, 0).0
    }

    fn view(coordinator: &Coordinator, link: Option<u64>) -> JobView<'_> {
        JobView {
            coordinator,
            reader: link.map(LinkId),
        }
    }

    fn outbox() -> Outbox {
        Outbox::new(node("n0"), Moment(0))
    }

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
        let mut output = JobOutput::to_control(JobId(1));
        assert!(matches!(output.take(piece(0, 0, b"ab\n")), Taken::Queued));
        assert!(matches!(output.take(piece(0, 0, b"ab\n")), Taken::Known { taken: 0 }));
        assert_eq!(output.waiting.len(), 1);
    }

    #[test]
    fn a_gap_is_asked_for_when_the_node_has_it_and_accepted_when_it_is_lost() {
        let mut output = JobOutput::to_control(JobId(1));
        assert!(matches!(
            output.take(piece(3, 0, b"cd\n")),
            Taken::OutOfOrder { expected: 0 }
        ));
        assert!(matches!(output.take(piece(3, 3, b"cd\n")), Taken::Queued));
    }

    #[test]
    fn a_reader_that_does_not_read_gets_no_more_than_its_window() {
        let mut output = JobOutput::to_control(JobId(1));
        let bytes = vec![b'x'; 64 * 1024];
        for number in 0..40 {
            output.take(piece(number * bytes.len() as u64, 0, &bytes));
        }
        let mut sent = 0;
        while let Some(piece) = output.next_for_control(false) {
            sent += piece.bytes.len() as u64;
        }
        assert_eq!(sent, OUTPUT_WINDOW_BYTES);
        let job = coordinator();
        output.take_note(
            ProcessId(0),
            Stream::Stdout,
            128 * 1024,
            view(&job, None),
            &mut outbox(),
        );
        assert!(output.next_for_control(false).is_some() && output.next_for_control(false).is_some());
        assert!(output.next_for_control(false).is_none());
    }

    #[test]
    fn a_reader_that_comes_back_gets_what_it_has_not() {
        let mut output = JobOutput::to_control(JobId(1));
        output.take(piece(0, 0, b"ab\n"));
        output.next_for_control(false);
        output.attach(vec![(ProcessId(0), Stream::Stdout, 3)], &mut outbox());
        assert!(matches!(output.take(piece(0, 0, b"ab\n")), Taken::Known { taken: 3 }));
        assert!(matches!(output.take(piece(3, 0, b"cd\n")), Taken::Queued));
    }

    #[test]
    fn the_files_of_a_detached_job_get_a_few_batches_at_a_time() {
        let (job, mut out) = (coordinator(), outbox());
        let mut output = JobOutput::to_files(JobId(1), BTreeMap::new(), &mut out);
        assert!(matches!(out.take()[..], [Effect::Files(FileEffect::Open { .. })]));
        for number in 0..2 + BATCHES_MAX as u64 {
            output.on_piece(&node("n1"), piece(2 * number, 0, b"a\n"), view(&job, None), &mut out);
        }
        let written = out.take();
        assert_eq!(written.len(), BATCHES_MAX, "{written:?}");
        let filed = Filed {
            process: ProcessId(0),
            stream: Stream::Stdout,
            end: 2,
        };
        output.on_filed(&[filed], view(&job, None), &mut out);
        let effects = out.take();
        assert!(
            matches!(
                &effects[..],
                [
                    Effect::Record(_),
                    Effect::Send { .. },
                    Effect::Files(FileEffect::Write { pieces, .. })
                ] if pieces.len() == 2
            ),
            "the record, then the node may let go, then the next batch: {effects:?}"
        );
    }

    #[test]
    fn what_a_process_of_an_earlier_start_printed_is_told_to_be_taken_too() {
        let (job, mut out) = (coordinator(), outbox());
        let mut output = JobOutput::to_control(JobId(1));
        let process = ProcessId(77);
        let late = OutputPiece {
            process,
            ..piece(0, 0, b"ab\n")
        };
        output.on_piece(&node("n1"), late, view(&job, Some(5)), &mut out);
        out.take();
        output.on_taken(process, Stream::Stdout, 3, view(&job, Some(5)), &mut out);
        let told = out.take();
        let is_told = |effect: &Effect| matches!(effect, Effect::Send { node: to, .. } if *to == node("n1"));
        assert!(told.iter().any(is_told), "{told:?}");
    }

    #[test]
    fn a_reader_that_is_gone_holds_back_nobody() {
        let (job, mut out) = (coordinator(), outbox());
        let mut output = JobOutput::to_control(JobId(1));
        output.on_piece(&node("n1"), piece(0, 0, b"ab\n"), view(&job, Some(5)), &mut out);
        assert!(matches!(out.take()[..], [Effect::Control { .. }]));
        output.discard(view(&job, None), &mut out);
        output.on_piece(&node("n1"), piece(3, 3, b"cd\n"), view(&job, None), &mut out);
        let taken = out.take().into_iter().filter_map(|effect| match effect {
            Effect::Send {
                message: DaemonToDaemon::Job { message, .. },
                ..
            } => match *message {
                JobMessage::StreamToNode(StreamToNode::OutputTaken { bytes, .. }) => Some(bytes),
                _ => None,
            },
            other => panic!("{other:?}"),
        });
        assert_eq!(taken.collect::<Vec<_>>(), [3, 6]);
    }

    #[test]
    fn the_end_of_a_job_lets_out_what_its_window_held_back() {
        let (job, mut out) = (coordinator(), outbox());
        let mut output = JobOutput::to_control(JobId(1));
        let bytes = vec![b'x'; OUTPUT_WINDOW_BYTES as usize];
        output.on_piece(&node("n1"), piece(0, 0, &bytes), view(&job, Some(5)), &mut out);
        let more = piece(OUTPUT_WINDOW_BYTES, 0, b"ab\n");
        output.on_piece(&node("n1"), more, view(&job, Some(5)), &mut out);
        assert_eq!(out.take().len(), 1);
        output.finish(view(&job, Some(5)), &mut out);
        assert!(matches!(out.take()[..], [Effect::Control { .. }]));
    }
}
