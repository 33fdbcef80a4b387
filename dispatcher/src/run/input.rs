//! Reads standard input on a thread of its own and keeps what is on its way to rank 0 until the daemon says that it
//! was taken, so that nothing is lost or doubled when the daemon is started again.

use pcm_proto::control::{STDIN_WINDOW_BYTES, STREAM_CHUNK_BYTES_MAX};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use tokio::sync::mpsc;

/// Chunks that wait between the reading thread and the link.
const CHUNKS_MAX: usize = 2;

/// Standard input on its way to rank 0.
pub(crate) struct Input {
    chunks: mpsc::Receiver<Vec<u8>>,
    /// Sent and not yet known to be taken; an empty chunk is the end of input.
    under_way: VecDeque<Vec<u8>>,
    /// All bytes before the first chunk under way.
    taken: u64,
    /// Bytes of the chunks under way.
    bytes_under_way: u64,
    /// After a link was lost: wait until the daemon has said how much it took.
    is_held: bool,
    ended: bool,
}

impl Input {
    /// Starts to read.
    pub(crate) fn start() -> Self {
        let (queue, chunks) = mpsc::channel(CHUNKS_MAX);
        std::thread::spawn(move || read_all(&queue));
        Self {
            chunks,
            under_way: VecDeque::new(),
            taken: 0,
            bytes_under_way: 0,
            is_held: false,
            ended: false,
        }
    }

    /// The next chunk to send; waits for input. Cancelling it loses nothing. An empty chunk is the end of input.
    pub(crate) async fn next(&mut self) -> Vec<u8> {
        let chunk = self.chunks.recv().await.unwrap_or_default();
        self.ended = chunk.is_empty();
        self.bytes_under_way += chunk.len() as u64;
        self.under_way.push_back(chunk.clone());
        chunk
    }

    /// Whether `next` may be called now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ended && !self.is_held && self.bytes_under_way + STREAM_CHUNK_BYTES_MAX as u64 <= STDIN_WINDOW_BYTES
    }

    /// The daemon has taken so many bytes from the beginning. Returns what must be sent again after a lost link.
    pub(crate) fn on_taken(&mut self, bytes: u64) -> Vec<Vec<u8>> {
        while let Some(first) = self.under_way.front() {
            let end = self.taken + first.len() as u64;
            if first.is_empty() || bytes < end {
                break;
            }
            self.taken = end;
            self.bytes_under_way -= first.len() as u64;
            self.under_way.pop_front();
        }
        if !std::mem::take(&mut self.is_held) {
            return Vec::new();
        }
        let mut again: Vec<Vec<u8>> = self.under_way.iter().cloned().collect();
        let skip = usize::try_from(bytes.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        if let Some(first) = again.first_mut() {
            first.drain(..skip.min(first.len()));
        }
        again
    }

    /// The link was lost: what is under way may have been lost with it.
    pub(crate) fn hold(&mut self) {
        self.is_held = true;
    }
}

fn read_all(queue: &mpsc::Sender<Vec<u8>>) {
    let mut stdin = std::io::stdin().lock();
    loop {
        let mut chunk = vec![0; STREAM_CHUNK_BYTES_MAX];
        let count = match stdin.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A closed standard input is an empty one.
            Err(_) => 0,
        };
        chunk.truncate(count);
        if queue.blocking_send(chunk).is_err() || count == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(chunks: &[&str]) -> Input {
        let (_, receiver) = mpsc::channel(1);
        let under_way: VecDeque<Vec<u8>> = chunks.iter().map(|chunk| chunk.as_bytes().to_vec()).collect();
        Input {
            chunks: receiver,
            bytes_under_way: under_way.iter().map(|chunk| chunk.len() as u64).sum(),
            under_way,
            taken: 0,
            is_held: false,
            ended: false,
        }
    }

    #[test]
    fn after_a_lost_link_only_what_was_not_taken_is_sent_again() {
        let mut input = input(&["abc", "def", ""]);
        input.hold();
        assert!(!input.is_ready());
        assert_eq!(input.on_taken(4), [b"ef".to_vec(), b"".to_vec()]);
        assert!(input.is_ready());
        assert_eq!(input.on_taken(6), Vec::<Vec<u8>>::new());
        assert_eq!(input.bytes_under_way, 0);
    }

    #[test]
    fn a_full_window_waits_for_the_daemon() {
        let chunk = "x".repeat(STREAM_CHUNK_BYTES_MAX);
        let mut input = input(&[&chunk, &chunk, &chunk, &chunk]);
        assert!(!input.is_ready());
        input.on_taken(STREAM_CHUNK_BYTES_MAX as u64);
        assert!(input.is_ready());
    }
}
