//! Whether datagrams reach one other node. A network may drop them while it carries connections; a node that is down
//! or frozen confirms nothing either, so silence counts only while a connection to it is there. Pure.

use std::time::{Duration, Instant};

/// So many messages in a row that went unconfirmed while a connection was there: one may be lost with a busy machine.
const FAILURES_MAX: u32 = 3;

/// How long connections carry everything before one message tries again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The first datagram was confirmed.
    First,
    /// Datagrams are not confirmed: something else carries everything.
    Silent,
    /// Datagrams arrive again.
    Heard,
}

/// What is known of datagrams to one node.
#[derive(Debug, Default)]
pub(super) struct Way {
    has_worked: bool,
    is_confirmed: bool,
    failures: u32,
    /// While set, datagrams are not used but for one try at each of these moments.
    retry_at: Option<Instant>,
}

impl Way {
    /// Whether the next message may go as a datagram. Where the node was silent, one message may at a time.
    pub(super) fn take_leave(&mut self, now: Instant) -> bool {
        match self.retry_at {
            None => true,
            Some(at) if now < at => false,
            Some(_) => {
                self.retry_at = Some(now + RETRY_AFTER);
                true
            }
        }
    }

    /// Whether datagrams are known to arrive.
    pub(super) fn is_proven(&self) -> bool {
        self.has_worked && self.failures == 0 && self.retry_at.is_none()
    }

    /// Whether datagrams were confirmed, the last ones too.
    pub(super) fn carries(&self) -> bool {
        self.is_confirmed && !self.is_silent()
    }

    /// Whether something else carries everything, because datagrams are not confirmed.
    pub(super) fn is_silent(&self) -> bool {
        self.retry_at.is_some()
    }

    /// A datagram came from the node: once there and back was a way. There may be none there any more.
    pub(super) fn on_heard(&mut self) {
        self.has_worked = true;
    }

    /// A datagram was confirmed.
    pub(super) fn on_confirmed(&mut self) -> Option<Turn> {
        self.has_worked = true;
        self.failures = 0;
        let was_silent = self.retry_at.take().is_some();
        let is_first = !std::mem::replace(&mut self.is_confirmed, true);
        match (was_silent, is_first) {
            (true, _) => Some(Turn::Heard),
            (false, true) => Some(Turn::First),
            (false, false) => None,
        }
    }

    /// A datagram was not confirmed.
    pub(super) fn on_unconfirmed(&mut self, now: Instant, is_linked: bool) -> Option<Turn> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES_MAX || !is_linked {
            return None;
        }
        let was_silent = self.retry_at.replace(now + RETRY_AFTER).is_some();
        (!was_silent).then_some(Turn::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(now: Instant) -> Way {
        let mut way = Way::default();
        for _ in 1..FAILURES_MAX {
            assert_eq!(way.on_unconfirmed(now, true), None);
        }
        assert_eq!(way.on_unconfirmed(now, true), Some(Turn::Silent));
        way
    }

    #[test]
    fn connections_carry_everything_where_datagrams_are_not_confirmed() {
        let now = Instant::now();
        let mut way = silent(now);
        assert!(!way.take_leave(now) && !way.is_proven());
        assert_eq!(way.on_unconfirmed(now, true), None, "it is said once");
    }

    #[test]
    fn one_message_at_a_time_tries_again() {
        let now = Instant::now();
        let mut way = silent(now);
        let later = now + RETRY_AFTER;
        assert!(way.take_leave(later));
        assert!(!way.take_leave(later));
        assert_eq!(way.on_confirmed(), Some(Turn::Heard));
        assert!(way.take_leave(later) && way.is_proven());
    }

    #[test]
    fn the_first_datagram_that_is_confirmed_is_told_once() {
        let mut way = Way::default();
        way.on_heard();
        assert!(!way.carries());
        assert_eq!(way.on_confirmed(), Some(Turn::First));
        assert!(way.carries());
        assert_eq!(way.on_confirmed(), None);
    }

    #[test]
    fn a_node_that_is_heard_may_not_hear_us() {
        let now = Instant::now();
        let mut way = silent(now);
        way.on_heard();
        assert!(way.is_silent() && !way.take_leave(now) && !way.is_proven());
    }

    #[test]
    fn a_node_without_a_connection_may_just_be_down() {
        let now = Instant::now();
        let mut way = Way::default();
        for _ in 0..10 {
            assert_eq!(way.on_unconfirmed(now, false), None);
        }
        assert!(way.take_leave(now));
        assert!(!way.is_proven());
        assert_eq!(way.on_unconfirmed(now, true), Some(Turn::Silent));
    }
}
