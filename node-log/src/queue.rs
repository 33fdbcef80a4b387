//! Lines on their way to the thread that writes them. Must never make their author wait for a disk.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines wait up to so many bytes; what comes then is dropped.
const WAITING_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    dropped: u64,
    /// Whether the thread writes what it has taken.
    is_writing: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.bytes.len() + line.len() > WAITING_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes.extend_from_slice(line);
        self.changed.notify_all();
    }

    /// Writes what comes; does not return.
    pub(crate) fn write_to(&self, mut file: impl Write) {
        loop {
            let waiting = self.waiting();
            let is_idle = |waiting: &mut Waiting| waiting.bytes.is_empty() && waiting.dropped == 0;
            let waited = self.changed.wait_while(waiting, is_idle);
            let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
            let mut bytes = std::mem::take(&mut waiting.bytes);
            let dropped = std::mem::take(&mut waiting.dropped);
            waiting.is_writing = true;
            drop(waiting);
            if dropped > 0 {
                let text = format!("{dropped} lines were dropped here: the log's disk did not take them\n");
                bytes.extend_from_slice(text.as_bytes());
            }
            // Said nowhere, because nowhere is left to say it.
            _ = file.write_all(&bytes);
            self.waiting().is_writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits so long at most until nothing waits.
    pub(crate) fn drain(&self, within: Duration) {
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.bytes.is_empty();
        // That the time was too short cannot be told: this is the log.
        _ = self.changed.wait_timeout_while(self.waiting(), within, is_busy);
    }
}

/// An author's end.
pub(crate) struct Queued(pub(crate) &'static Queue);

impl Write for Queued {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    /// A file on a disk that is away until it is there again.
    struct Away {
        is_there: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Away {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.is_there.recv().unwrap();
            self.written.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_is_away_holds_up_no_author_and_what_is_lost_is_counted() {
        let queue: &'static Queue = Box::leak(Box::default());
        let ((there, is_there), (written, lines)) = (channel(), channel());
        std::thread::spawn(move || queue.write_to(Away { is_there, written }));
        let mut author = Queued(queue);
        author.write_all(b"first\n").unwrap();
        let begun = Instant::now();
        // From here on the disk is waited for, and all that follows waits together.
        while !queue.waiting().is_writing {
            assert!(begun.elapsed() < Duration::from_secs(60), "the first line is not taken");
            std::thread::yield_now();
        }
        let begun = Instant::now();
        for _ in 0..4 * WAITING_MAX / 100 {
            author.write_all(&[b'x'; 100]).unwrap();
        }
        queue.drain(Duration::from_millis(10));
        assert!(begun.elapsed() < Duration::from_secs(5));
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains("lines were dropped") {
            there.send(()).unwrap();
            text.extend(lines.recv_timeout(Duration::from_secs(5)).unwrap());
        }
        assert!(text.starts_with(b"first\n") && text.len() < 2 * WAITING_MAX + 1000);
        author.write_all(b"last\n").unwrap();
        there.send(()).unwrap();
        queue.drain(Duration::from_secs(5));
        assert_eq!(lines.try_recv().unwrap(), b"last\n");
    }
}
