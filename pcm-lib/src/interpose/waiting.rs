//! How a rank waits inside MPI. A plain MPI polls until what it waits for has come, and so burns a CPU that another rank
//! or another person could use. Here blocking calls become their nonblocking forms, and a wait is a row of tests: polled
//! first, then with pauses that grow, where somebody else has use for the CPU.
//!
//! A collective call does not match its nonblocking form, so all ranks of a job use the same: whether calls are turned
//! is chosen once, by `PCM_WAIT`. What a rank does between two tests is its own business.
#![allow(unsafe_code, reason = "calls MPI's tests with the caller's arguments")]

use crate::clock::monotonic_ns;
use pcm_proto::app::environment;
use std::cell::Cell;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// Polled for so long where the CPU is shared: what comes sooner is not worth giving the CPU away.
const POLL_NS: u64 = 500;

/// Then the CPU is given to whoever wants it, up to this time: ranks that wait for each other pass it on in microseconds.
const YIELD_NS: u64 = 300_000;

/// Somebody who takes the CPU for longer than this computes. After a pause we have it back sooner than after our turn.
const YIELD_DEAR_NS: u64 = 2_000_000;

/// So long after that nothing is given away any more, pauses are made instead.
const DEAR_NS: u64 = 20_000_000;

/// A pause is this part of the time waited so far, so that no wait becomes longer by more than that.
const PAUSE_PART: u64 = 4;

/// Shortest pause; a timer is not much more exact.
const PAUSE_MIN_NS: u64 = 20_000;

/// Longest pause: what comes after a second is seen a thousandth later.
const PAUSE_MAX_NS: u64 = 1_000_000;

/// Between two tests that lie this far apart somebody else had the CPU. A timer interrupt is much shorter.
const GAP_NS: u64 = 200_000;

/// When the CPU is given away to nobody it is back after less than this.
const YIELD_IDLE_NS: u64 = 3_000;

/// So long after somebody else had it the CPU counts as shared. To find out again costs a time slice.
const SHARED_NS: u64 = 4_000_000_000;

/// How blocking calls wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Manner {
    /// As MPI itself does.
    Spin = 0,
    /// With pauses while the CPU is shared.
    Adaptive = 1,
    /// With pauses always.
    Sleep = 2,
}

static MANNER: AtomicU8 = AtomicU8::new(Manner::Spin as u8);

thread_local! {
    static USE: Cell<CpuUse> = const { Cell::new(CpuUse { shared_until: 0, dear_until: 0 }) };
}

impl Manner {
    /// What the environment says; polling where it says nothing.
    pub(crate) fn of_environment() -> Self {
        match std::env::var(environment::WAIT).as_deref() {
            Ok("adaptive") => Self::Adaptive,
            Ok("sleep") => Self::Sleep,
            _ => Self::Spin,
        }
    }

    /// From now on, for the rest of the process's life.
    pub(crate) fn choose(self) {
        MANNER.store(self as u8, Relaxed);
    }
}

/// Whether blocking calls are to be turned into nonblocking ones.
#[inline]
pub(super) fn is_polite() -> bool {
    MANNER.load(Relaxed) != Manner::Spin as u8
}

/// Waits until a test raises its flag or fails; returns MPI's code.
#[inline]
pub(super) fn until(mut test: impl FnMut(&mut c_int) -> c_int) -> c_int {
    let mut flag = 0;
    let code = test(&mut flag);
    if code != 0 || flag != 0 {
        return code;
    }
    until_later(&mut |flag| test(flag))
}

fn until_later(test: &mut dyn FnMut(&mut c_int) -> c_int) -> c_int {
    let began = monotonic_ns();
    let always_pauses = MANNER.load(Relaxed) == Manner::Sleep as u8;
    let mut last = began;
    loop {
        let mut flag = 0;
        let code = test(&mut flag);
        if code != 0 || flag != 0 {
            return code;
        }
        let now = monotonic_ns();
        let mut cpu = USE.get();
        if now.saturating_sub(last) >= GAP_NS {
            cpu.shared_until = now + SHARED_NS;
        }
        last = match cpu.next(now, now - began, always_pauses) {
            Next::Poll => {
                std::hint::spin_loop();
                now
            }
            Next::Yield => {
                std::thread::yield_now();
                let back = monotonic_ns();
                cpu.has_yielded(back, back.saturating_sub(now));
                back
            }
            Next::Pause(pause) => {
                std::thread::sleep(pause);
                monotonic_ns()
            }
        };
        USE.set(cpu);
    }
}

/// What to do between two tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Poll,
    Yield,
    Pause(Duration),
}

/// What a rank knows about others on its CPU.
#[derive(Clone, Copy, Debug)]
struct CpuUse {
    shared_until: u64,
    dear_until: u64,
}

impl CpuUse {
    fn next(&self, now: u64, waited: u64, always_pauses: bool) -> Next {
        let is_shared = always_pauses || now < self.shared_until;
        if !is_shared || waited < POLL_NS {
            return Next::Poll;
        }
        if !always_pauses && waited < YIELD_NS && now >= self.dear_until {
            return Next::Yield;
        }
        let pause = (waited / PAUSE_PART).clamp(PAUSE_MIN_NS, PAUSE_MAX_NS);
        Next::Pause(Duration::from_nanos(pause))
    }

    /// The CPU was given away and is back after so long.
    fn has_yielded(&mut self, now: u64, away: u64) {
        if away >= YIELD_IDLE_NS {
            self.shared_until = now + SHARED_NS;
        }
        if away >= YIELD_DEAR_NS {
            self.dear_until = now + DEAR_NS;
        }
    }
}

/// Ends a request that a turned call made: as `MPI_Wait`.
///
/// # Safety
/// As for `MPI_Wait`.
pub(super) unsafe fn finish(mut request: mpi_sys::MPI_Request, status: *mut mpi_sys::MPI_Status) -> c_int {
    // SAFETY: the caller's contract; the request is ours until it ends.
    until(|flag| unsafe { mpi_sys::PMPI_Test(&mut request, flag, status) })
}

/// A receive and a send at once: as `MPI_Sendrecv`. Each closure begins one of them.
pub(super) fn exchange(
    receive: impl FnOnce(*mut mpi_sys::MPI_Request) -> c_int,
    send: impl FnOnce(*mut mpi_sys::MPI_Request) -> c_int,
    status: *mut mpi_sys::MPI_Status,
) -> c_int {
    // SAFETY: constants of the MPI library.
    let (null, ignored) = unsafe { (mpi_sys::RSMPI_REQUEST_NULL, mpi_sys::RSMPI_STATUS_IGNORE) };
    let (mut received, mut sent) = (null, null);
    let code = receive(&mut received);
    if code != 0 {
        return code;
    }
    let code = send(&mut sent);
    if code != 0 {
        // SAFETY: a receive of ours that nobody waits for.
        unsafe {
            mpi_sys::PMPI_Cancel(&mut received);
            mpi_sys::PMPI_Request_free(&mut received);
        }
        return code;
    }
    // SAFETY: two requests of ours, and the caller's status, which is MPI's to check.
    unsafe {
        let of_receive = finish(received, status);
        let of_send = finish(sent, ignored);
        if of_receive != 0 { of_receive } else { of_send }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: CpuUse = CpuUse {
        shared_until: 0,
        dear_until: 0,
    };
    const SHARED: CpuUse = CpuUse {
        shared_until: u64::MAX,
        dear_until: 0,
    };

    #[test]
    fn a_rank_alone_on_its_cpu_only_polls() {
        assert_eq!(ALONE.next(5, 10_000_000_000, false), Next::Poll);
    }

    #[test]
    fn a_rank_that_shares_polls_then_yields_then_pauses_ever_longer() {
        let next = |waited| SHARED.next(5, waited, false);
        assert_eq!(next(POLL_NS - 1), Next::Poll);
        assert_eq!(next(POLL_NS), Next::Yield);
        assert_eq!(next(YIELD_NS), Next::Pause(Duration::from_nanos(YIELD_NS / PAUSE_PART)));
        assert_eq!(next(1 << 60), Next::Pause(Duration::from_nanos(PAUSE_MAX_NS)));
    }

    #[test]
    fn nothing_is_given_to_somebody_who_keeps_it() {
        let mut cpu = SHARED;
        cpu.has_yielded(1000, YIELD_DEAR_NS);
        assert_eq!(
            cpu.next(1000, POLL_NS, false),
            Next::Pause(Duration::from_nanos(PAUSE_MIN_NS))
        );
        assert_eq!(cpu.next(1000 + DEAR_NS, POLL_NS, false), Next::Yield);
    }

    #[test]
    fn a_cpu_that_comes_back_at_once_is_not_shared() {
        let mut cpu = ALONE;
        cpu.has_yielded(1000, YIELD_IDLE_NS - 1);
        assert_eq!(cpu.next(1001, POLL_NS, false), Next::Poll);
        cpu.has_yielded(1000, YIELD_IDLE_NS);
        assert_eq!(cpu.next(1001, POLL_NS, false), Next::Yield);
    }

    #[test]
    fn a_test_that_fails_ends_the_wait_with_its_code() {
        let mut looks = 0;
        let code = until(|_| {
            looks += 1;
            if looks == 3 { 17 } else { 0 }
        });
        assert_eq!((code, looks), (17, 3));
    }
}
