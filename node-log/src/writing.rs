//! The one writer of a process. Must be begun once, before anything is to be written.

use crate::levels::{BadLevels, Levels};
use crate::queue::{Queue, Queued};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::{filter::Targets, fmt, fmt::writer::BoxMakeWriter, prelude::*, registry, reload};

type Change = Box<dyn Fn(Targets) -> bool + Send + Sync>;

/// A disk that takes longer has lost the last words.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

static QUEUE: OnceLock<Queue> = OnceLock::new();

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Writes to standard error from now on, with the levels of the environment; by a thread of its own: a disk that is
/// slow or away holds up no author of a line. [`finish`] waits for the last words.
pub fn begin() {
    let queue = QUEUE.get_or_init(Queue::default);
    let write = || queue.write_to(Forgiving(io::stderr()));
    let writer = match std::thread::Builder::new().name("log".to_owned()).spawn(write) {
        Ok(_) => BoxMakeWriter::new(|| Queued(queue)),
        Err(_) => BoxMakeWriter::new(|| Forgiving(io::stderr())),
    };
    let (filter, handle) = reload::Layer::new(Levels::at_start().targets());
    let writing = fmt::layer().with_writer(writer).with_ansi(false);
    registry().with(filter).with(writing).init();
    // A second beginning would have panicked above.
    _ = CHANGE.set(Box::new(move |filter| handle.reload(filter).is_ok()));
}

/// Waits until everything is written, for a short time.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.drain(LAST_WORDS_MAX);
    }
}

/// Writes with these levels from now on; false where nothing was begun.
pub fn write_from_now_on(levels: &Levels) -> bool {
    CHANGE.get().is_some_and(|change| change(levels.targets()))
}

/// Writes from now on with the levels of the start and, above them, those in `text`.
///
/// # Errors
/// When the text names no levels: they stay as they are.
pub fn write_as_told(text: &str) -> Result<Levels, BadLevels> {
    let levels = Levels::at_start().with(text)?;
    write_from_now_on(&levels);
    Ok(levels)
}

/// Drops what cannot be written: a full disk must not end who writes a log.
struct Forgiving<W>(W);

impl<W: Write> Write for Forgiving<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Said nowhere, because nowhere is left to say it.
        _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_error_of_who_writes() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!((&full).write_all(b"a line").is_err());
        Forgiving(full).write_all(b"a line").unwrap();
    }

    #[test]
    fn levels_change_while_the_process_runs() {
        let levels = |text: &str| Levels::at_start().with(text).unwrap();
        assert!(!write_from_now_on(&levels("warn")), "nothing writes yet");
        begin();
        let is_written = || tracing::enabled!(target: "pcm_daemon", tracing::Level::DEBUG);
        assert!(write_from_now_on(&levels("warn")) && !is_written());
        assert!(write_from_now_on(&levels("warn,pcm_daemon=debug")) && is_written());
        assert!(write_from_now_on(&levels("warn,pcm_daemon=error")) && !is_written());
    }
}
