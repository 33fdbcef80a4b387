//! Why blocks of an image do not come all at once, and how long they are waited for.

use std::time::Duration;

/// A region of which no block comes for so long is withdrawn: the sender tries again by itself where a connection
/// broke, and waits half a second at most before it does.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why they do not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCome {
    /// They were refused, here or there, as too many others were under way: this says nothing of the route.
    Refused(String),
    /// They were waited for in vain, as others on that route would be.
    Silence(String),
}

impl NotCome {
    /// The node that was to send them says why it does not; it tries for a while where it cannot be connected to.
    pub(super) fn told(waited: Duration, reason: String) -> Self {
        if waited < PATIENCE {
            Self::Refused(reason)
        } else {
            Self::Silence(reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_took_as_long_as_silence_counts_against_a_route() {
        let told = |waited| NotCome::told(waited, "no".to_owned());
        assert_eq!(told(Duration::from_millis(50)), NotCome::Refused("no".to_owned()));
        assert_eq!(told(PATIENCE), NotCome::Silence("no".to_owned()));
    }
}
