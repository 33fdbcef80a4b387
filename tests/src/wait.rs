//! Waiting for a condition with a deadline. Must never be used to sleep and hope.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Looks until `look` finds something.
///
/// # Panics
/// When it has not within `limit`; the text says what was waited for.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    within(limit, &mut look).unwrap_or_else(|| panic!("waited {limit:?} in vain for {what}"))
}

/// Looks until `look` finds something; `None` when it has not within `limit`.
pub fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
