//! The daemon's clock, and the timers that wait for it.

use pcm_core::moment::Moment;
use pcm_core::node::timer::Timer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Timers in the order of their time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BTreeMap<(Moment, u64), Timer>,
    count: u64,
}

impl Timers {
    pub(super) fn arm(&mut self, at: Moment, timer: Timer) {
        self.count += 1;
        self.queue.insert((at, self.count), timer);
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Option<Timer> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// Microseconds since 1970 that never go back while the daemon lives, whatever happens to the system's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started_us: u64,
    started: Instant,
}

impl Clock {
    /// `first` says which moment the clock begins with, given the system's.
    pub(super) fn start(first: impl FnOnce(Moment) -> Moment) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started_us: first(Moment(since.as_micros() as u64)).0,
            started: Instant::now(),
        }
    }

    pub(super) fn now(self) -> Moment {
        Moment(self.started_us).plus(self.started.elapsed())
    }

    /// The system's word for a moment; the start for one before it.
    pub(super) fn instant(self, moment: Moment) -> Instant {
        self.started + moment.since(Moment(self.started_us)).min(Duration::from_secs(1 << 30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fall_due_in_the_order_of_their_time() {
        let mut timers = Timers::default();
        timers.arm(Moment(20), Timer::Beat);
        timers.arm(Moment(10), Timer::Ask(1));
        timers.arm(Moment(10), Timer::Ask(2));
        assert_eq!(timers.take_due(Moment(9)), None);
        assert_eq!(timers.take_due(Moment(10)), Some(Timer::Ask(1)));
        assert_eq!(timers.take_due(Moment(10)), Some(Timer::Ask(2)));
        assert_eq!(timers.take_due(Moment(10)), None);
        assert_eq!(timers.next(), Some(Moment(20)));
    }

    #[test]
    fn a_moment_is_found_on_the_systems_clock() {
        let clock = Clock::start(|system| system);
        let span = Duration::from_secs(3);
        let now = clock.now();
        assert_eq!(clock.instant(now.plus(span)) - clock.instant(now), span);
        assert!(clock.now() >= now);
    }
}
