//! Writes the ranks' output to standard output and standard error: whole lines, never two ranks in one line. Runs on a
//! thread of its own, so that a paused reader does not keep signals and the link from being heard.

use crate::progress::ProgressLine;
use pcm_proto::control::{ControlToDaemon, Stream};
use pcm_proto::ids::{ProcessId, Rank};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Pieces of output that wait for the writer; the daemon's window bounds their bytes.
const PIECES_MAX: usize = 64;

/// A piece of one rank's output.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) rank: Rank,
    pub(crate) process: ProcessId,
    pub(crate) stream: Stream,
    /// Where its end stands in the stream.
    pub(crate) end: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What the writer reports.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// Up to here a stream was written out.
    Taken(ControlToDaemon),
    /// Nobody reads any more.
    Closed,
    /// Output cannot be written.
    Failed(String),
}

/// The queue to the writing thread; dropping it lets the thread write what waits and end.
pub(crate) struct Writer {
    queue: mpsc::Sender<Piece>,
}

impl Writer {
    /// Starts the thread; what it has written comes out of the receiver, whose end is the thread's.
    pub(crate) fn start(label: bool, line: Arc<ProgressLine>) -> (Self, mpsc::Receiver<Written>) {
        let (queue, pieces) = mpsc::channel(PIECES_MAX);
        let (report, written) = mpsc::channel(PIECES_MAX);
        std::thread::spawn(move || write_all(pieces, &report, label, &line));
        (Self { queue }, written)
    }

    /// Room for one more piece. Cancelling it loses nothing.
    pub(crate) async fn room(&self) -> Option<mpsc::OwnedPermit<Piece>> {
        self.queue.clone().reserve_owned().await.ok()
    }
}

fn write_all(mut pieces: mpsc::Receiver<Piece>, report: &mpsc::Sender<Written>, label: bool, line: &ProgressLine) {
    let (mut stdout, mut stderr) = (Lines::new(label), Lines::new(label));
    while let Some(piece) = pieces.blocking_recv() {
        let outcome = line.beside(|| match piece.stream {
            Stream::Stdout => write(&mut std::io::stdout().lock(), &stdout.render(piece.rank, &piece.bytes)),
            Stream::Stderr => write(&mut std::io::stderr().lock(), &stderr.render(piece.rank, &piece.bytes)),
        });
        let is_last = outcome.is_err();
        let written = match outcome {
            Ok(()) => Written::Taken(ControlToDaemon::OutputTaken {
                process: piece.process,
                stream: piece.stream,
                bytes: piece.end,
            }),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Written::Closed,
            Err(error) => Written::Failed(error.to_string()),
        };
        if report.blocking_send(written).is_err() || is_last {
            return;
        }
    }
}

fn write(out: &mut impl Write, text: &[u8]) -> std::io::Result<()> {
    out.write_all(text)?;
    out.flush()
}

/// What was written last to one stream, so that the next piece begins where it may.
struct Lines {
    label: bool,
    /// Whose line is open, if the last byte was no line end.
    open: Option<Rank>,
}

impl Lines {
    fn new(label: bool) -> Self {
        Self { label, open: None }
    }

    /// The bytes to write for a piece: a line end first where another rank's line is open, labels where asked for.
    fn render(&mut self, rank: Rank, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len() + 16);
        if bytes.is_empty() {
            return text;
        }
        let mut at_line_start = true;
        match self.open {
            Some(open) if open == rank => at_line_start = false,
            Some(_) => text.push(b'\n'),
            None => {}
        }
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.label && at_line_start {
                text.extend_from_slice(format!("[{rank}] ").as_bytes());
            }
            text.extend_from_slice(line);
            at_line_start = true;
        }
        self.open = (bytes.last() != Some(&b'\n')).then_some(rank);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(label: bool, pieces: &[(u32, &str)]) -> String {
        let mut lines = Lines::new(label);
        let rendered = pieces
            .iter()
            .flat_map(|&(rank, text)| lines.render(Rank(rank), text.as_bytes()));
        String::from_utf8(rendered.collect()).unwrap()
    }

    #[test]
    fn two_ranks_never_share_a_line() {
        assert_eq!(render(false, &[(0, "a\nb"), (1, "c\n"), (0, "d\n")]), "a\nb\nc\nd\n");
        assert_eq!(render(false, &[(0, "a"), (0, "b\n")]), "ab\n");
    }

    #[test]
    fn a_label_stands_at_the_beginning_of_every_line_and_nowhere_else() {
        assert_eq!(
            render(true, &[(3, "a\nb\n"), (4, "c"), (4, "d\n")]),
            "[3] a\n[3] b\n[4] cd\n"
        );
        assert_eq!(render(true, &[(3, "")]), "");
    }
}
