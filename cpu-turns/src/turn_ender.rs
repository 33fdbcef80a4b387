//! Ends the turns of threads that spin. The kernel looks whose turn it is when its timer ticks, every few milliseconds, and when
//! somebody wakes, however short the turns are that a thread asked for; so a thread wakes ten times in a millisecond.
#![allow(unsafe_code, reason = "a system call that no library wraps")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// As long as the shortest turn.
const WAKES_EVERY: Duration = Duration::from_micros(100);

/// While it lives, turns on the CPUs of this process's threads end when they are over.
#[derive(Debug)]
pub struct TurnEnder {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TurnEnder {
    /// Begins. Where there is no thread to be had, nothing changes.
    pub fn begin() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let of_thread = Arc::clone(&is_over);
        let wake = move || {
            // SAFETY: sets a number of this thread alone. Its wakes would come half as late again.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            while !of_thread.load(Relaxed) {
                thread::sleep(WAKES_EVERY);
            }
        };
        let thread = thread::Builder::new().name("pcm-turns".to_owned()).spawn(wake);
        Self {
            is_over,
            thread: thread.ok(),
        }
    }
}

impl Drop for TurnEnder {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // It panics nowhere.
        _ = self.thread.take().map(JoinHandle::join);
    }
}
