//! Time as state machines see it: a number they are handed. Whoever drives them owns the clock.

use std::time::Duration;

/// Microseconds since an origin of the driver's choice that stays the same while the driver lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment this much later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// Time since an earlier moment; zero when it was later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A span in microseconds, the unit of every message.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_never_negative() {
        assert_eq!(Moment(3).since(Moment(5)), Duration::ZERO);
        assert_eq!(
            Moment(3).plus(Duration::from_millis(1)).since(Moment(3)),
            Duration::from_millis(1)
        );
        assert_eq!(Moment(u64::MAX).plus(Duration::MAX), Moment(u64::MAX));
    }
}
