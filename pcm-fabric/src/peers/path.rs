//! Whether datagrams of one transport reach one node. A network may drop datagrams while it carries connections. A
//! node that is down or frozen confirms nothing either, so missing confirmations count only while the node is linked.
//! Pure: time is an argument.

use std::time::{Duration, Instant};

/// Unconfirmed messages in a row, each sent after the one before was missed, until a path is silent: what is under way
/// at a time is lost together where the other daemon is started again, or where the network loses much for a moment.
const FAILURES_MAX: u32 = 3;

/// Pause before one message tries a silent path again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// The first datagram was confirmed.
    Confirmed,
    /// Datagrams are not confirmed: another transport carries all messages.
    Silent,
    /// A silent path confirmed a datagram.
    Recovered,
}

/// Datagrams of one transport to one node.
#[derive(Debug, Default)]
pub(super) struct DatagramPath {
    has_worked: bool,
    is_confirmed: bool,
    failures: u32,
    /// When the last of them was missed.
    missed_at: Option<Instant>,
    /// Set while the path is silent: the time of the next try.
    retry_at: Option<Instant>,
}

impl DatagramPath {
    /// Whether the next message may take this path. A silent path is tried by one message at a time.
    pub(super) fn try_use(&mut self, now: Instant) -> bool {
        match self.retry_at {
            None => true,
            Some(at) if now < at => false,
            Some(_) => {
                self.retry_at = Some(now + RETRY_AFTER);
                true
            }
        }
    }

    /// Whether datagrams arrive, as far as is known, and the last one did.
    pub(super) fn is_proven(&self) -> bool {
        self.has_worked && self.failures == 0 && self.retry_at.is_none()
    }

    /// Whether datagrams were confirmed and the path is not silent.
    pub(super) fn carries(&self) -> bool {
        self.is_confirmed && !self.is_silent()
    }

    /// Whether another transport carries all messages, because datagrams are not confirmed.
    pub(super) fn is_silent(&self) -> bool {
        self.retry_at.is_some()
    }

    /// A datagram arrived from the node. It says nothing about the present path to the node.
    pub(super) fn on_received(&mut self) {
        self.has_worked = true;
    }

    /// A datagram was confirmed.
    pub(super) fn on_confirmed(&mut self) -> Option<PathChange> {
        self.has_worked = true;
        self.failures = 0;
        let was_silent = self.retry_at.take().is_some();
        let is_first = !std::mem::replace(&mut self.is_confirmed, true);
        match (was_silent, is_first) {
            (true, _) => Some(PathChange::Recovered),
            (false, true) => Some(PathChange::Confirmed),
            (false, false) => None,
        }
    }

    /// A datagram that was sent then was not confirmed.
    pub(super) fn on_unconfirmed(&mut self, (sent, now): (Instant, Instant), is_linked: bool) -> Option<PathChange> {
        if self.missed_at.is_none_or(|missed| missed <= sent) {
            self.failures = self.failures.saturating_add(1);
            self.missed_at = Some(now);
        }
        if self.failures < FAILURES_MAX || !is_linked {
            return None;
        }
        let was_silent = self.retry_at.replace(now + RETRY_AFTER).is_some();
        (!was_silent).then_some(PathChange::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIRM: Duration = Duration::from_millis(500);

    fn silent(now: Instant) -> DatagramPath {
        let mut path = DatagramPath::default();
        for _ in 1..FAILURES_MAX {
            assert_eq!(path.on_unconfirmed((now, now), true), None);
        }
        assert_eq!(path.on_unconfirmed((now, now), true), Some(PathChange::Silent));
        path
    }

    #[test]
    fn a_path_without_confirmations_is_not_used() {
        let now = Instant::now();
        let mut path = silent(now);
        assert!(!path.try_use(now) && !path.is_proven());
        assert_eq!(
            path.on_unconfirmed((now, now), true),
            None,
            "the change is reported once"
        );
    }

    #[test]
    fn what_is_lost_together_counts_once() {
        let now = Instant::now();
        let mut path = DatagramPath::default();
        for _ in 0..10 {
            assert_eq!(path.on_unconfirmed((now, now + CONFIRM), true), None);
        }
        let later = now + CONFIRM;
        assert_eq!(path.on_unconfirmed((later, later + CONFIRM), true), None);
        let last = later + CONFIRM;
        assert_eq!(
            path.on_unconfirmed((last, last + CONFIRM), true),
            Some(PathChange::Silent)
        );
    }

    #[test]
    fn one_message_at_a_time_tries_a_silent_path() {
        let now = Instant::now();
        let mut path = silent(now);
        let later = now + RETRY_AFTER;
        assert!(path.try_use(later));
        assert!(!path.try_use(later));
        assert_eq!(path.on_confirmed(), Some(PathChange::Recovered));
        assert!(path.try_use(later) && path.is_proven());
    }

    #[test]
    fn the_first_confirmation_is_reported_once() {
        let mut path = DatagramPath::default();
        path.on_received();
        assert!(!path.carries());
        assert_eq!(path.on_confirmed(), Some(PathChange::Confirmed));
        assert!(path.carries());
        assert_eq!(path.on_confirmed(), None);
    }

    #[test]
    fn a_datagram_from_a_node_does_not_end_the_silence_of_the_path_to_it() {
        let now = Instant::now();
        let mut path = silent(now);
        path.on_received();
        assert!(path.is_silent() && !path.try_use(now) && !path.is_proven());
    }

    #[test]
    fn missing_confirmations_without_a_link_do_not_silence_a_path() {
        let now = Instant::now();
        let mut path = DatagramPath::default();
        for _ in 0..10 {
            assert_eq!(path.on_unconfirmed((now, now), false), None);
        }
        assert!(path.try_use(now));
        assert!(!path.is_proven());
        assert_eq!(path.on_unconfirmed((now, now), true), Some(PathChange::Silent));
    }
}
