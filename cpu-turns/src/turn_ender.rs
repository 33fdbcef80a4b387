//! Ends the turns of a thread that spins. The kernel looks whose turn it is when its timer ticks, every few
//! milliseconds, and when somebody wakes, however short the turns are that a thread asked for; so a timer interrupts
//! the thread ten times in a millisecond, and it yields. The interrupt is a signal that nobody else uses; calls of the
//! kernel go on after it.
#![allow(unsafe_code, reason = "a timer that interrupts one thread, which no library wraps")]

use rustix::thread::gettid;
use std::{io, marker::PhantomData, mem::MaybeUninit, ptr};

/// As long as the shortest turn.
const INTERRUPTS_EVERY_NS: libc::c_long = 100_000;

/// While it lives, turns of the thread that made it end when they are over. Not for a thread that sleeps meanwhile: its
/// sleep is interrupted, and may never end where what it has left is told with the slack of its timers.
#[derive(Debug)]
pub struct TurnEnder {
    timer: Option<libc::timer_t>,
    /// The timer is this thread's.
    _of_this_thread: PhantomData<*const ()>,
}

impl TurnEnder {
    /// Begins. Where there is no signal or no timer to be had, nothing changes.
    pub fn begin() -> Self {
        Self {
            timer: signal().and_then(|signal| timer(signal).ok()),
            _of_this_thread: PhantomData,
        }
    }
}

impl Drop for TurnEnder {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            // SAFETY: made by us, and deleted once.
            unsafe { libc::timer_delete(timer) };
        }
    }
}

extern "C" fn give_away(_signal: libc::c_int) {
    // SAFETY: a system call without arguments, which may be made in a handler and leaves `errno` alone.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

/// A signal that gives the CPU away, from now on. It stays so: one that is still on its way harms nobody.
fn signal() -> Option<libc::c_int> {
    // UCX and others begin with the lowest.
    let free = (libc::SIGRTMIN() + 1..=libc::SIGRTMAX())
        .rev()
        .find(|signal| is_free(*signal))?;
    // SAFETY: zero is a valid value of each field.
    let mut wanted: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    wanted.sa_sigaction = give_away as extern "C" fn(libc::c_int) as libc::sighandler_t;
    wanted.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler only makes a system call; the set holds one signal.
    let is_set = unsafe {
        let mut mask = wanted.sa_mask;
        libc::sigemptyset(&raw mut mask);
        libc::sigaddset(&raw mut mask, free);
        libc::sigaction(free, &raw const wanted, ptr::null_mut()) == 0
            && libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const mask, ptr::null_mut()) == 0
    };
    is_set.then_some(free)
}

/// Whether nobody has given it a meaning, or we have.
fn is_free(signal: libc::c_int) -> bool {
    // SAFETY: zero is a valid value of each field, and the kernel overwrites what it is asked for.
    unsafe {
        let mut found: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let ours = give_away as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(signal, ptr::null(), &raw mut found) == 0 && [libc::SIG_DFL, ours].contains(&found.sa_sigaction)
    }
}

fn timer(signal: libc::c_int) -> io::Result<libc::timer_t> {
    // SAFETY: zero is a valid value of each field.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both are there, and the thread is this one.
    if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let every = libc::timespec {
        tv_sec: 0,
        tv_nsec: INTERRUPTS_EVERY_NS,
    };
    let times = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the timer was made above.
    if unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: made above, and deleted once.
        unsafe { libc::timer_delete(timer) };
        return Err(error);
    }
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShortTurns;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use rustix::time::{ClockId, clock_gettime};
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicU32, Ordering::SeqCst},
        },
        thread,
        time::Duration,
    };

    const PASSES: u32 = 40;

    /// The signals are the process's.
    static SIGNALS: Mutex<()> = Mutex::new(());

    /// Two threads on one CPU that spin for each other: the time they spin, however long others have that CPU.
    fn pass_to_and_fro(ends_turns: bool) -> Duration {
        let passed = AtomicU32::new(0);
        let play = |turn: u32| {
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            let _short = ShortTurns::begin();
            let _ender = ends_turns.then(TurnEnder::begin);
            while passed.load(SeqCst) < PASSES {
                let seen = passed.load(SeqCst);
                if seen % 2 == turn {
                    _ = passed.compare_exchange(seen, seen + 1, SeqCst, SeqCst);
                }
            }
            Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
        };
        thread::scope(|scope| {
            let players = [0, 1].map(|turn| scope.spawn(move || play(turn)));
            players.into_iter().map(|player| player.join().unwrap()).sum()
        })
    }

    #[test]
    fn threads_on_one_cpu_that_spin_for_each_other_pass_it_on_sooner() {
        let _signals = SIGNALS.lock().unwrap();
        let without = pass_to_and_fro(false);
        let with = pass_to_and_fro(true);
        assert!(with < without / 2, "{with:?} with, {without:?} without");
    }

    #[test]
    fn signals_that_have_a_meaning_are_left_alone_and_the_timer_ends_with_it() {
        let _signals = SIGNALS.lock().unwrap();
        let ender = TurnEnder::begin();
        assert!(ender.timer.is_some());
        let chosen = (1..=libc::SIGRTMAX()).rev().find(|signal| is_free(*signal)).unwrap();
        drop(ender);
        assert_eq!(signal(), Some(chosen), "the same one again");
        // SAFETY: ignoring a signal that only we use.
        unsafe { libc::signal(chosen, libc::SIG_IGN) };
        assert_eq!(signal(), Some(chosen - 1));
        // SAFETY: as before.
        unsafe { libc::signal(chosen, libc::SIG_DFL) };
    }
}
