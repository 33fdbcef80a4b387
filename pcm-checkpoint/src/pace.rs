//! How fast parts may be written, at which priority, and whether they are still wanted. Only waits; never touches a
//! file.

use rustix::process::{Pid, setpriority_process};
use std::{
    io,
    num::NonZeroU64,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// A wait is cut into such steps, so that whoever calls it off does not wait for it.
const STEP: Duration = Duration::from_millis(20);

/// What a bounded writer may have written and not made last: the disk is not asked for more at the end than this.
const UNSYNCED_MAX: u64 = 16 << 20;

/// What others see and say of a writer.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    said: Arc<Said>,
}

#[derive(Debug, Default)]
struct Said {
    written: AtomicU64,
    is_called_off: AtomicBool,
    is_urgent: AtomicBool,
    /// Held by whoever waits for a change, and taken by who makes one.
    turn: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    /// Bytes that were written since it was made.
    pub fn written(&self) -> u64 {
        self.said.written.load(Relaxed)
    }

    /// Others wrote so many bytes for the same end.
    pub fn add(&self, bytes: u64) {
        self.said.written.fetch_add(bytes, Relaxed);
    }

    /// The writer is to end soon, with a failure.
    pub fn call_off(&self) {
        self.said.is_called_off.store(true, Relaxed);
        self.changed();
    }

    /// Somebody waits for the writer: it need not be polite any more.
    pub fn hurry(&self) {
        self.said.is_urgent.store(true, Relaxed);
        self.changed();
    }

    /// Whether both are of one writer.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.said, &other.said)
    }

    /// Whether it was called off.
    pub fn is_called_off(&self) -> bool {
        self.said.is_called_off.load(Relaxed)
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_urgent(&self) -> bool {
        self.said.is_urgent.load(Relaxed)
    }

    /// What somebody may be waiting for has changed.
    pub(crate) fn changed(&self) {
        let turn = self.said.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.said.changed.notify_all();
        drop(turn);
    }

    /// Waits until somebody hurries, or calls off, or `is_over`.
    pub(crate) fn wait_for_hurry(&self, is_over: impl Fn() -> bool) {
        let mut turn = self.said.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !(is_over() || self.is_urgent() || self.is_called_off()) {
            turn = self.said.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// See the file head. One per writer, whose threads share it.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: Option<NonZeroU64>,
    progress: Progress,
    nice: i32,
    begun: Instant,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    unsynced: u64,
}

impl Pace {
    /// So many bytes a second, or as many as the disk takes.
    pub fn new(bytes_per_s: Option<NonZeroU64>, progress: Progress) -> Self {
        Self {
            bytes_per_s,
            progress,
            nice: 0,
            begun: Instant::now(),
            taken: Mutex::default(),
        }
    }

    /// The same, but threads that write large parts have this priority until somebody hurries.
    #[must_use]
    pub fn polite(self, nice: i32) -> Self {
        Self { nice, ..self }
    }

    /// Whether there is a rate that is not to be exceeded.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bytes_per_s.is_some()
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Gives the calling thread its priority.
    pub(crate) fn be_polite(&self) {
        if self.nice > 0 {
            // What is refused is only less polite. `None` is the calling thread.
            _ = setpriority_process(None::<Pid>, self.nice);
        }
    }

    /// Waits until so many more bytes may be written. Whether what was written before is to be made last now.
    pub(crate) fn take(&self, bytes: u64) -> io::Result<bool> {
        let (before, is_due) = {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let before = taken.bytes;
            taken.bytes += bytes;
            taken.unsynced += bytes;
            let is_due = self.bytes_per_s.is_some() && taken.unsynced > UNSYNCED_MAX;
            if is_due {
                taken.unsynced = 0;
            }
            (before, is_due)
        };
        if let Some(rate) = self.bytes_per_s {
            let due = self.begun + Duration::from_secs_f64(before as f64 / rate.get() as f64);
            while !self.progress.is_called_off() {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(STEP));
            }
        }
        if self.progress.is_called_off() {
            return Err(io::Error::other("it was aborted"));
        }
        self.progress.add(bytes);
        Ok(is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_writer_takes_the_time_that_its_bytes_may_take() {
        let progress = Progress::default();
        let pace = Pace::new(NonZeroU64::new(1_000_000), progress.clone());
        let begun = Instant::now();
        (0..4).for_each(|_| _ = pace.take(50_000).unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(150), "{:?}", begun.elapsed());
        assert_eq!(progress.written(), 200_000);
    }

    #[test]
    fn a_writer_that_is_called_off_does_not_wait_for_its_turn() {
        let progress = Progress::default();
        let pace = Pace::new(NonZeroU64::new(1), progress.clone());
        pace.take(1_000_000).unwrap();
        progress.call_off();
        assert!(pace.take(1).is_err());
    }
}
