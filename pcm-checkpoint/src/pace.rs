//! How fast parts may be written, and whether they are still wanted. Only waits; never touches a file.

use std::{
    io,
    num::NonZeroU64,
    sync::{
        Arc,
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
    written: Arc<AtomicU64>,
    is_called_off: Arc<AtomicBool>,
}

impl Progress {
    /// Bytes that were written since it was made.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Others wrote so many bytes for the same end.
    pub fn add(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
    }

    /// The writer is to end soon, with a failure.
    pub fn call_off(&self) {
        self.is_called_off.store(true, Relaxed);
    }

    /// Whether both are of one writer.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.written, &other.written)
    }

    /// Whether it was called off.
    pub fn is_called_off(&self) -> bool {
        self.is_called_off.load(Relaxed)
    }
}

/// See the file head. One per writer.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: Option<NonZeroU64>,
    progress: Progress,
    begun: Instant,
    taken: u64,
    unsynced: u64,
}

impl Pace {
    /// So many bytes a second, or as many as the disk takes.
    pub fn new(bytes_per_s: Option<NonZeroU64>, progress: Progress) -> Self {
        Self {
            bytes_per_s,
            progress,
            begun: Instant::now(),
            taken: 0,
            unsynced: 0,
        }
    }

    /// Waits until so many more bytes may be written. Whether what was written before is to be made last now.
    pub(crate) fn take(&mut self, bytes: u64) -> io::Result<bool> {
        if let Some(rate) = self.bytes_per_s {
            let due = self.begun + Duration::from_secs_f64(self.taken as f64 / rate.get() as f64);
            while !self.progress.is_called_off() {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(STEP));
            }
        }
        if self.progress.is_called_off() {
            return Err(io::Error::other("it was called off"));
        }
        self.taken += bytes;
        self.unsynced += bytes;
        self.progress.add(bytes);
        let is_due = self.bytes_per_s.is_some() && self.unsynced > UNSYNCED_MAX;
        if is_due {
            self.unsynced = 0;
        }
        Ok(is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_writer_takes_the_time_that_its_bytes_may_take() {
        let progress = Progress::default();
        let mut pace = Pace::new(NonZeroU64::new(1_000_000), progress.clone());
        let begun = Instant::now();
        (0..4).for_each(|_| _ = pace.take(50_000).unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(150), "{:?}", begun.elapsed());
        assert_eq!(progress.written(), 200_000);
    }

    #[test]
    fn a_writer_that_is_called_off_does_not_wait_for_its_turn() {
        let progress = Progress::default();
        let mut pace = Pace::new(NonZeroU64::new(1), progress.clone());
        pace.take(1_000_000).unwrap();
        progress.call_off();
        assert!(pace.take(1).is_err());
    }
}
