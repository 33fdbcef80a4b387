//! Which keys datagrams use at a moment. Pure.

use std::time::{Duration, SystemTime};

/// Keys of datagrams are good for an hour and the one before and after, so clocks may differ by as much.
const EPOCH: Duration = Duration::from_secs(3600);

/// The epoch of keys at this moment: every member with a clock finds the same, without a word.
pub fn key_epoch(now: SystemTime) -> u32 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs() / EPOCH.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_every_hour_by_one() {
        let at = |seconds| key_epoch(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!((at(0), at(3599), at(3600), at(7200)), (0, 0, 1, 2));
    }
}
