//! The output of a job's ranks on this node: pieces are kept until the coordinator says they were taken. Each job has a
//! window of its own in the driver, which leaves the pipes unread while too much is kept, so a job whose reader is slow
//! holds up no other.

use crate::node::outbox::Outbox;
use crate::node::ranks::effect::RankEffect;
use crate::node::record::Record;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::peer::{OutputPiece, StreamToCoordinator};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a stream that are kept to say how it ended: a few lines, as a terminal has room for them.
const SAID_LAST_MAX: usize = 400;

/// Lines of a stream that are said: an error and where it comes from.
const LINES_SAID_MAX: usize = 3;

/// One stream of one process.
#[derive(Debug, Default)]
struct StreamOut {
    next: u64,
    kept: VecDeque<OutputPiece>,
    has_ended: bool,
    /// The last bytes, taken or not.
    said_last: Vec<u8>,
}

impl StreamOut {
    fn say(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(SAID_LAST_MAX)..];
        self.said_last.extend_from_slice(last);
        let beyond = self.said_last.len().saturating_sub(SAID_LAST_MAX);
        self.said_last.drain(..beyond);
    }

    /// In quotes, so that nothing in them acts on a terminal.
    fn last_lines(&self) -> String {
        let text = String::from_utf8_lossy(&self.said_last);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES_SAID_MAX)..];
        let quoted: Vec<String> = last.iter().map(|line| format!("{line:?}")).collect();
        quoted.join(", ")
    }
}

/// Output of the job's processes here.
#[derive(Debug)]
pub struct PartOutput {
    job: JobId,
    streams: BTreeMap<(ProcessId, Stream), StreamOut>,
}

impl PartOutput {
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            streams: BTreeMap::new(),
        }
    }

    /// Reads what a process prints from now on.
    pub fn read(&mut self, process: ProcessId, out: &mut Outbox) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.streams.entry((process, stream)).or_default();
        }
        let key = ProcessKey { job: self.job, process };
        out.rank(RankEffect::ReadOutput { key });
    }

    /// What an earlier daemon had passed on of a stream.
    pub fn go_on_at(&mut self, process: ProcessId, stream: Stream, bytes: u64) {
        self.streams.entry((process, stream)).or_default().next = bytes;
    }

    /// What a successor has to know.
    pub fn printed_records(&self) -> impl Iterator<Item = Record> + '_ {
        self.streams.iter().map(|((process, stream), out)| Record::Printed {
            job: self.job,
            process: *process,
            stream: *stream,
            bytes: out.next,
        })
    }

    /// Whether both streams of a process were read to their end.
    pub fn has_ended(&self, process: ProcessId) -> bool {
        let mut of_process = self
            .streams
            .range((process, Stream::Stdout)..=(process, Stream::Stderr));
        of_process.all(|(_, stream)| stream.has_ended)
    }

    /// The last lines of a process: those of its errors, else those of its output.
    pub fn said_last(&self, process: ProcessId) -> String {
        let both = [Stream::Stderr, Stream::Stdout].into_iter();
        let mut lines = both.filter_map(|stream| Some(self.streams.get(&(process, stream))?.last_lines()));
        lines.find(|lines| !lines.is_empty()).unwrap_or_default()
    }

    /// Whether nothing more will come and nothing is kept.
    pub fn is_done(&self) -> bool {
        let mut streams = self.streams.values();
        streams.all(|stream| stream.has_ended && stream.kept.is_empty())
    }

    /// A process printed lines. Their number is in the journal before they are passed on, so that none has two.
    pub fn on_lines(
        &mut self,
        (process, stream): (ProcessId, Stream),
        bytes: Vec<u8>,
        coordinator: &NodeName,
        out: &mut Outbox,
    ) {
        let of = self.streams.entry((process, stream)).or_default();
        let offset = of.next;
        of.say(&bytes);
        of.next += bytes.len() as u64;
        let piece = OutputPiece {
            process,
            stream,
            offset,
            available_from: of.kept.front().map_or(offset, |piece| piece.offset),
            bytes,
        };
        of.kept.push_back(piece.clone());
        out.record(Record::Printed {
            job: self.job,
            process,
            stream,
            bytes: of.next,
        });
        out.send_job(coordinator, self.job, StreamToCoordinator::Output(piece));
    }

    /// A stream was read to its end.
    pub fn on_end(&mut self, process: ProcessId, stream: Stream) {
        self.streams.entry((process, stream)).or_default().has_ended = true;
    }

    /// Pipes that are still open are held by something that is not of the job any more.
    pub fn end_all(&mut self) {
        for stream in self.streams.values_mut() {
            stream.has_ended = true;
        }
    }

    /// The coordinator has passed on so much of a stream.
    pub fn on_taken(&mut self, process: ProcessId, stream: Stream, bytes: u64, out: &mut Outbox) {
        let Some(of) = self.streams.get_mut(&(process, stream)) else {
            return;
        };
        let mut freed = 0;
        while let Some(piece) = of.kept.front()
            && piece.offset + piece.bytes.len() as u64 <= bytes
        {
            freed += piece.bytes.len() as u64;
            of.kept.pop_front();
        }
        if freed > 0 {
            out.rank(RankEffect::FreeOutput {
                job: self.job,
                bytes: freed,
            });
        }
    }

    /// The coordinator has so much of each stream and wants the rest once more.
    pub fn on_asked_from(&mut self, from: &[(ProcessId, Stream, u64)], coordinator: &NodeName, out: &mut Outbox) {
        for (process, stream, bytes) in from {
            self.on_taken(*process, *stream, *bytes, out);
        }
        for of in self.streams.values() {
            let available_from = of.kept.front().map_or(0, |piece| piece.offset);
            for piece in &of.kept {
                let piece = OutputPiece {
                    available_from,
                    ..piece.clone()
                };
                out.send_job(coordinator, self.job, StreamToCoordinator::Output(piece));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::node::outbox::Effect;
    use pcm_proto::peer::{DaemonToDaemon, JobMessage};

    const OUT: (ProcessId, Stream) = (ProcessId(0), Stream::Stdout);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn output() -> (PartOutput, Outbox) {
        (PartOutput::new(JobId(1)), Outbox::new(node("n0"), Moment(0)))
    }

    fn pieces(out: &mut Outbox) -> Vec<(u64, u64)> {
        let effects = out.take().into_iter();
        let pieces = effects.filter_map(|effect| match effect {
            Effect::Send {
                message: DaemonToDaemon::Job { message, .. },
                ..
            } => match *message {
                JobMessage::StreamToCoordinator(StreamToCoordinator::Output(piece)) => {
                    Some((piece.offset, piece.available_from))
                }
                other => panic!("{other:?}"),
            },
            _ => None,
        });
        pieces.collect()
    }

    #[test]
    fn what_was_taken_is_not_kept_and_makes_room() {
        let (mut output, mut out) = output();
        output.on_lines(OUT, b"ab\n".to_vec(), &node("n1"), &mut out);
        output.on_lines(OUT, b"cd\n".to_vec(), &node("n1"), &mut out);
        assert_eq!(pieces(&mut out), [(0, 0), (3, 0)]);
        output.on_taken(OUT.0, OUT.1, 3, &mut out);
        let effects = out.take();
        assert!(
            matches!(&effects[..], [Effect::Rank(RankEffect::FreeOutput { bytes: 3, .. })]),
            "{effects:?}"
        );
        output.on_asked_from(&[], &node("n1"), &mut out);
        assert_eq!(pieces(&mut out), [(3, 3)]);
    }

    #[test]
    fn the_last_lines_of_errors_are_said_else_those_of_the_output_also_once_they_were_taken() {
        let (mut output, mut out) = output();
        assert_eq!(output.said_last(OUT.0), "");
        output.on_lines(OUT, b"one\ntwo\n\nthree\n".to_vec(), &node("n1"), &mut out);
        output.on_lines(OUT, b"four\x1b\n".to_vec(), &node("n1"), &mut out);
        output.on_taken(OUT.0, OUT.1, 100, &mut out);
        assert_eq!(output.said_last(OUT.0), r#""two", "three", "four\u{1b}""#);
        let errors = (OUT.0, Stream::Stderr);
        output.on_lines(errors, "ä".repeat(SAID_LAST_MAX).into_bytes(), &node("n1"), &mut out);
        output.on_lines(errors, b"\nbad input\n".to_vec(), &node("n1"), &mut out);
        let said = output.said_last(OUT.0);
        assert!(
            said.ends_with(r#"ä", "bad input""#) && said.len() < 2 * SAID_LAST_MAX,
            "{said}"
        );
    }

    #[test]
    fn the_journal_knows_of_a_piece_before_the_coordinator() {
        let (mut output, mut out) = output();
        output.on_lines(OUT, b"ab\n".to_vec(), &node("n1"), &mut out);
        let effects = out.take();
        assert!(
            matches!(&effects[..], [Effect::Record(record), Effect::Send { .. }]
                if matches!(**record, Record::Printed { bytes: 3, .. })),
            "{effects:?}"
        );
    }

    #[test]
    fn a_process_is_done_when_both_streams_ended_and_all_was_taken() {
        let (mut output, mut out) = output();
        output.read(ProcessId(0), &mut out);
        output.on_lines(OUT, b"ab\n".to_vec(), &node("n1"), &mut out);
        output.on_end(ProcessId(0), Stream::Stdout);
        assert!(!output.has_ended(ProcessId(0)));
        output.on_end(ProcessId(0), Stream::Stderr);
        assert!(output.has_ended(ProcessId(0)) && !output.is_done());
        output.on_taken(OUT.0, OUT.1, 3, &mut out);
        assert!(output.is_done());
    }

    #[test]
    fn a_restarted_daemon_counts_on_where_its_predecessor_was() {
        let (mut output, mut out) = output();
        output.go_on_at(OUT.0, OUT.1, 10);
        output.on_lines(OUT, b"ab\n".to_vec(), &node("n1"), &mut out);
        assert_eq!(pieces(&mut out), [(10, 10)]);
    }
}
