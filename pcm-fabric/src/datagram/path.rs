//! What a sender knows of the way to one peer: round trip, window and pace. Pure; time is an argument.

use std::time::Duration;

/// First guess of a round trip's limit, before one has been seen.
const RTO_FIRST: Duration = Duration::from_millis(60);
/// A peer's processor may be busy with something else for some milliseconds.
const RTO_MIN: Duration = Duration::from_millis(10);
/// Beyond this, waiting longer saves nothing: packets are small and few.
const RTO_MAX: Duration = Duration::from_millis(400);
const BACKOFF_MAX: u32 = 6;

/// Packets in flight: to begin with (one message of some KiB and more), at least (so that loss without congestion
/// does not starve control exchanges), at most (a megabyte in the smallest packets).
const WINDOW_FIRST: f64 = 32.0;
const WINDOW_MIN: f64 = 8.0;
const WINDOW_MAX: f64 = 512.0;

/// Packets that may leave at once; where a timer's tick is worth more than these, as many as that.
const BURST: f64 = 16.0;
const TICK_SECONDS: f64 = 1e-3;

/// The way to one peer.
#[derive(Clone, Debug)]
pub(super) struct Path {
    round_trip: Option<(Duration, Duration)>,
    backoff: u32,
    window: f64,
    threshold: f64,
    tokens: f64,
    refilled: Duration,
    reduced: Option<Duration>,
}

impl Path {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            round_trip: None,
            backoff: 0,
            window: WINDOW_FIRST,
            threshold: WINDOW_MAX,
            tokens: BURST,
            refilled: now,
            reduced: None,
        }
    }

    /// How long to wait for an acknowledgement.
    pub(super) fn timeout(&self) -> Duration {
        let base = match self.round_trip {
            Some((smoothed, variation)) => (smoothed + 4 * variation).max(RTO_MIN),
            None => RTO_FIRST,
        };
        (base * (1 << self.backoff)).min(RTO_MAX.max(base))
    }

    /// A packet sent this long ago, of which later ones have arrived, is lost.
    pub(super) fn reordering(&self) -> Duration {
        match self.round_trip {
            Some((smoothed, variation)) => smoothed + (smoothed / 4).max(4 * variation),
            None => RTO_FIRST,
        }
    }

    pub(super) fn has_room(&self, in_flight: usize) -> bool {
        (in_flight as f64) < self.window
    }

    /// Takes the right to send one packet now, or says when there will be one.
    pub(super) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let Some((smoothed, _)) = self.round_trip else {
            return Ok(());
        };
        let per_second = 1.25 * self.window / smoothed.as_secs_f64().max(1e-5);
        let passed = now.saturating_sub(self.refilled).as_secs_f64();
        self.tokens = (self.tokens + passed * per_second).min(BURST.max(per_second * TICK_SECONDS));
        self.refilled = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up, so that the wait is never over too early and found vain.
        Err(now + Duration::from_secs_f64((1.0 - self.tokens) / per_second) + Duration::from_micros(1))
    }

    pub(super) fn on_round_trip(&mut self, sample: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                let off = smoothed.abs_diff(sample);
                ((smoothed * 7 + sample) / 8, (variation * 3 + off) / 4)
            }
        });
    }

    pub(super) fn on_acked(&mut self, packets: usize) {
        self.backoff = 0;
        let packets = packets as f64;
        self.window += if self.window < self.threshold {
            packets
        } else {
            packets / self.window
        };
        self.window = self.window.min(WINDOW_MAX);
    }

    pub(super) fn on_loss(&mut self, now: Duration) {
        let pause = self.round_trip.map_or(RTO_FIRST, |(smoothed, _)| smoothed);
        if self.reduced.is_none_or(|reduced| now >= reduced + pause) {
            self.reduced = Some(now);
            self.window = (self.window / 2.0).max(WINDOW_MIN);
            self.threshold = self.window;
        }
    }

    pub(super) fn on_timeout(&mut self, now: Duration) {
        self.on_loss(now);
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_an_acknowledgement_grows_and_shrinks_again() {
        let mut path = Path::new(Duration::ZERO);
        path.on_round_trip(Duration::from_millis(4));
        let first = path.timeout();
        path.on_timeout(Duration::ZERO);
        assert_eq!(path.timeout(), 2 * first);
        for _ in 0..20 {
            path.on_timeout(Duration::ZERO);
        }
        assert_eq!(path.timeout(), RTO_MAX);
        path.on_acked(1);
        assert_eq!(path.timeout(), first);
    }

    #[test]
    fn a_paced_sender_gets_its_rate_and_no_more() {
        let mut path = Path::new(Duration::ZERO);
        path.on_round_trip(Duration::from_millis(32));
        let (mut now, mut sent) = (Duration::ZERO, 0);
        while now < Duration::from_secs(1) {
            match path.take(now) {
                Ok(()) => sent += 1,
                Err(when) => {
                    assert!(when > now);
                    now = when;
                }
            }
        }
        assert!((1200..=1300).contains(&sent), "{sent}");
    }
}
