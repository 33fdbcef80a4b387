//! What a rank prints, cut at line ends so that lines of different ranks never mix. At most one chunk is held here and
//! the daemon's queue is bounded: when nobody takes the output, the rank's own pipe fills and the rank waits.

use crate::watched::watch;
use pcm_proto::control::Stream;
use pcm_proto::keeper::ProcessKey;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::Sender;

/// Longest piece of output in one step, and the longest line that is kept whole: what a pipe holds by default.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// What a rank printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Whole lines; the last one without its end only at the end of the stream or when it is longer than
    /// [`CHUNK_BYTES_MAX`].
    Lines {
        key: ProcessKey,
        stream: Stream,
        /// The lines, with their ends.
        bytes: Vec<u8>,
    },
    /// Nothing more will come.
    End { key: ProcessKey, stream: Stream },
}

/// Cuts a stream of bytes at line ends.
#[derive(Debug, Default)]
struct Cutter {
    held: Vec<u8>,
}

impl Cutter {
    /// Room for the next read; never 0.
    fn room(&self) -> usize {
        CHUNK_BYTES_MAX - self.held.len()
    }

    fn push(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let start = self.held.len();
        self.held.extend_from_slice(bytes);
        let last_end = bytes.iter().rposition(|b| *b == b'\n').map(|at| start + at + 1);
        let cut = last_end.or((self.held.len() >= CHUNK_BYTES_MAX).then_some(self.held.len()))?;
        let rest = self.held.split_off(cut);
        Some(std::mem::replace(&mut self.held, rest))
    }

    fn finish(self) -> Option<Vec<u8>> {
        (!self.held.is_empty()).then_some(self.held)
    }
}

/// Reads a stream to its end or until nobody listens.
pub(super) async fn pump(key: ProcessKey, stream: Stream, pipe: OwnedFd, sink: Sender<Output>) -> io::Result<()> {
    let pipe: AsyncFd<OwnedFd> = watch(pipe)?;
    let mut cutter = Cutter::default();
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    loop {
        let room = cutter.room();
        let read = |pipe: &OwnedFd| rustix::io::read(pipe, &mut buffer[..room]).map_err(io::Error::from);
        let length = pipe.async_io(Interest::READABLE, read).await?;
        let lines = if length == 0 {
            std::mem::take(&mut cutter).finish()
        } else {
            cutter.push(&buffer[..length])
        };
        if let Some(bytes) = lines
            && sink.send(Output::Lines { key, stream, bytes }).await.is_err()
        {
            return Ok(());
        }
        if length == 0 {
            let _ = sink.send(Output::End { key, stream }).await;
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_held_until_its_end_comes() {
        let mut cutter = Cutter::default();
        assert_eq!(cutter.push(b"one\ntw"), Some(b"one\n".to_vec()));
        assert_eq!(cutter.push(b"o"), None);
        assert_eq!(cutter.push(b"\n\nthree"), Some(b"two\n\n".to_vec()));
        assert_eq!(cutter.finish(), Some(b"three".to_vec()));
    }

    #[test]
    fn an_endless_line_is_passed_on_in_pieces_of_the_limit() {
        let mut cutter = Cutter::default();
        assert_eq!(cutter.push(&vec![b'x'; CHUNK_BYTES_MAX - 1]), None);
        assert_eq!(cutter.room(), 1);
        assert_eq!(cutter.push(b"x").map(|bytes| bytes.len()), Some(CHUNK_BYTES_MAX));
        assert_eq!(cutter.room(), CHUNK_BYTES_MAX);
    }
}
