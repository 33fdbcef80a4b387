//! How far a copy has come, for those who read it while it is made. A copy that is given up is over for them, too.
//! Knows nothing of the data.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A copy that comes no further for so long is given up by who reads it: a gigabyte takes a second, and a program that
/// is held for a debugger can be held for ever.
const STALL_MAX: Duration = Duration::from_secs(60);

/// What readers see.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Bytes from the beginning.
    reached: u64,
    is_given_up: bool,
}

impl Filled {
    /// Waits until the copy has reached `end`. Fails if it never will.
    pub(crate) fn wait_for(&self, end: u64) -> io::Result<()> {
        self.wait_within(end, STALL_MAX)
    }

    fn wait_within(&self, end: u64, stall_max: Duration) -> io::Result<()> {
        let mut state = self.state();
        while state.reached < end {
            if state.is_given_up {
                return Err(io::Error::other("the copy it should be written from was abandoned"));
            }
            let seen = state.reached;
            let is_still = |state: &mut State| state.reached == seen && !state.is_given_up;
            let waited = self.changed.wait_timeout_while(state, stall_max, is_still);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                let seconds = stall_max.as_secs();
                return Err(io::Error::other(format!(
                    "the copy it is written from comes no further for {seconds} s"
                )));
            }
            state = now;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who makes the copy. Dropped before it is whole, it gives the copy up.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    filled: Arc<Filled>,
}

impl Filling {
    /// What others may read.
    pub(crate) fn filled(&self) -> Arc<Filled> {
        Arc::clone(&self.filled)
    }

    /// All bytes up to here are there.
    pub(crate) fn reached(&self, end: u64) {
        self.filled.state().reached = end;
        self.filled.changed.notify_all();
    }

    /// The copy is whole.
    pub(crate) fn finish(self) {
        self.reached(u64::MAX);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        // Means nothing to who reads a copy that is whole.
        self.filled.state().is_given_up = true;
        self.filled.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_is_faster_than_the_copy_waits_for_it_and_who_is_slower_does_not() {
        let filling = Filling::default();
        let filled = filling.filled();
        thread::scope(|scope| {
            let reader = scope.spawn(|| filled.wait_for(1_000));
            for end in (100..=1_000).step_by(100) {
                assert!(!reader.is_finished());
                filling.reached(end);
            }
            reader.join().unwrap().unwrap();
        });
        filled.wait_within(1_000, Duration::ZERO).unwrap();
        filling.finish();
        filled.wait_within(u64::MAX, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_copy_that_is_given_up_fails_who_waits_for_the_rest_and_nobody_else() {
        let filling = Filling::default();
        let filled = filling.filled();
        filling.reached(1_000);
        thread::scope(|scope| {
            let reader = scope.spawn(|| filled.wait_for(1_001));
            drop(filling);
            assert!(reader.join().unwrap().unwrap_err().to_string().contains("abandoned"));
        });
        filled.wait_for(1_000).unwrap();
    }

    #[test]
    fn a_copy_that_stands_still_is_not_waited_for_for_ever() {
        let filling = Filling::default();
        filling.reached(1_000);
        let stalled = filling.filled().wait_within(1_001, Duration::from_millis(5));
        assert!(stalled.unwrap_err().to_string().contains("no further"));
    }
}
