//! When ranks look together whether a checkpoint is due. Rank 0 has the clock; the others would not agree with it on an
//! iteration, so it says at each look when the next one is: a few looks in an interval, one small broadcast each.

use super::Settings;
use crate::mpi::{Communicator, MpiError};
use pcm_core::{
    checkpoint::{Schedule, When},
    moment::Moment,
};
use std::time::{Duration, Instant};

/// Most iterations between two looks.
const STEP_MAX: u64 = 1 << 20;

/// Without an interval, ranks with a daemon look this often whether somebody wants a checkpoint.
const LOOK_FOR_WISHES: Duration = Duration::from_secs(1);

/// Bits of what rank 0 says.
const DUE: u64 = 1;
const IN_FILES: u64 = 2;

/// A checkpoint that is due waits for the one before; it is looked for this often whether that is over.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What rank 0 knows at a look; the others' counts for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    /// Somebody wants a checkpoint.
    pub(crate) is_wanted: bool,
    pub(crate) in_files: bool,
    /// The one before is over.
    pub(crate) is_free: bool,
}

/// A checkpoint is to be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Somebody wants it in files.
    pub(crate) in_files: bool,
}

/// See the file head.
#[derive(Debug)]
pub(crate) struct Looks {
    schedule: Schedule,
    /// No look before this iteration.
    next: u64,
    begun: Instant,
    /// The last look: when, and at which iteration.
    last: (Moment, u64),
}

impl Looks {
    /// Looks of a program that begins with this iteration.
    pub(crate) fn new(settings: &Settings, iteration: u64, has_daemon: bool) -> Self {
        let mut schedule = Schedule::new(Moment(0), settings.when, 1);
        (0..settings.failures).for_each(|_| schedule.on_failure(Moment(0)));
        let next = if settings.when == When::OnDemand && !has_daemon {
            u64::MAX
        } else {
            iteration + 1
        };
        Self {
            schedule,
            next,
            begun: Instant::now(),
            last: (Moment(0), iteration),
        }
    }

    /// Whether all ranks look at the top of this iteration.
    #[inline]
    pub(crate) fn is_now(&self, iteration: u64) -> bool {
        iteration >= self.next
    }

    /// The ranks have changed: they look together at the next iteration and from then on as the new rank 0 says.
    pub(crate) fn renew(&mut self, iteration: u64) {
        if self.next != u64::MAX {
            self.next = iteration + 1;
        }
        // Who took over data did not do the iterations before: they tell nothing of how long one takes.
        self.last = (self.now(), iteration);
    }

    /// Whether a checkpoint is to be made now, for it is due or wanted, and the last one is over. Collective; what rank
    /// 0 says counts.
    pub(crate) fn look(&mut self, job: &Communicator, iteration: u64, said: Said) -> Result<Option<Due>, MpiError> {
        let Said {
            is_wanted,
            in_files,
            is_free,
        } = said;
        let now = self.now();
        let is_due = (self.schedule.is_due(now) || is_wanted) && is_free;
        let (then, since) = self.last;
        let done = u32::try_from(iteration.saturating_sub(since))
            .unwrap_or(u32::MAX)
            .max(1);
        let each = now.since(then) / done;
        let left = match self.schedule.next() {
            _ if !is_free => LOOK_AGAIN,
            Some(next) if !is_due => next.since(now),
            _ => self.schedule.interval(now).unwrap_or(LOOK_FOR_WISHES),
        };
        self.last = (now, iteration);
        let mut said = [0_u8; 16];
        let order = if is_due {
            DUE | if in_files { IN_FILES } else { 0 }
        } else {
            0
        };
        said[..8].copy_from_slice(&order.to_ne_bytes());
        // The time of an iteration is not known well at first, and may change.
        let step = step(left, each).min(2 * u64::from(done));
        said[8..].copy_from_slice(&(iteration + step).to_ne_bytes());
        job.broadcast_in_place(&mut said, 0)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|n| said[at + n]));
        self.next = word(8);
        Ok((word(0) & DUE != 0).then_some(Due {
            in_files: word(0) & IN_FILES != 0,
        }))
    }

    /// A checkpoint was tried, and held the program so long.
    pub(crate) fn made(&mut self, held: Duration, is_written: bool) {
        let now = self.now();
        if is_written {
            self.schedule.on_complete(now, held);
        } else {
            self.schedule.on_given_up(now);
        }
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// Half of the iterations that are left: the last looks before a checkpoint is due come at short distances.
fn step(left: Duration, each: Duration) -> u64 {
    let iterations = left.as_nanos() / each.as_nanos().max(1) / 2;
    u64::try_from(iterations).unwrap_or(u64::MAX).clamp(1, STEP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_of_others_do_not_count_for_how_long_one_takes() {
        let settings = Settings::of(|_| None).unwrap();
        let mut looks = Looks::new(&settings, 0, true);
        looks.renew(5000);
        assert_eq!((looks.next, looks.last.1), (5001, 5000));
    }

    #[test]
    fn looks_are_few_and_the_last_is_near_the_moment() {
        let each = Duration::from_millis(1);
        let (mut left, mut looks, mut done) = (60_000_u64, 0, 1);
        while left > 0 {
            done = step(Duration::from_millis(left), each).min(2 * done).min(left);
            left -= done;
            looks += 1;
        }
        assert!(looks <= 32, "{looks}");
        assert_eq!(step(Duration::ZERO, each), 1);
        assert_eq!(step(Duration::from_secs(9), Duration::ZERO), STEP_MAX);
    }
}
