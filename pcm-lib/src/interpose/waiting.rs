//! How a rank waits inside MPI. MPICH polls, and between two looks that found nothing it gives its CPU away by
//! `sched_yield`: that function is ours here. A rank that is to spin does nothing in it; one that is to be polite
//! sleeps in it when it has waited for long and its CPU is shared. The calls themselves stay as they are. Outside of
//! MPI, and in threads other than MPI's, the function does what that of libc does.
//!
//! How soon and how long a rank may sleep depends on what else runs on its node, which the daemon writes on the shared
//! page: some kernels give a CPU to a scheduling group for seconds when one of its processes sleeps often and another
//! never (decision 20).
//!
//! A collective of MPICH that polls words in shared memory yields never. Where ranks outnumber CPUs, or a polite manner
//! is asked for, the daemon tells MPICH to make it of messages (`pcm-core`, `mpi_settings`).
#![allow(unsafe_code, reason = "defines a function of libc")]
#![allow(unreachable_pub, reason = "a symbol for the linker")]
#![allow(missing_docs, reason = "the name and meaning are those of libc")]

use super::recorder;
use crate::clock::monotonic_ns;
use pcm_proto::{app::environment, page::Orders, waiting::Waiting};
use std::{
    cell::Cell,
    os::raw::c_int,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
    time::Duration,
};

/// Up to this time the CPU is given to whoever wants it: ranks that wait for each other pass it on in microseconds.
const YIELD_NS: u64 = 1_000_000;

/// Somebody who takes the CPU for longer than this computes. After a pause we have it back sooner than after our turn.
const YIELD_DEAR_NS: u64 = 2_000_000;

/// So long after that nothing is given away any more, pauses are made instead.
const DEAR_NS: u64 = 20_000_000;

/// A pause is this part of the time waited so far, so that no wait becomes longer by more than that.
const PAUSE_PART: u64 = 8;

/// Shortest pause; a timer is not much more exact.
const PAUSE_MIN_NS: u64 = 20_000;

/// Longest pause: what comes after a second is seen a thousandth later.
const PAUSE_MAX_NS: u64 = 1_000_000;

/// Where processes outnumber CPUs yields hand these on, and who has waited for less than this makes no pause.
const CROWDED_YIELD_NS: u64 = 250_000_000;

/// How long a pause is there.
const CROWDED_PAUSE_NS: u64 = 16_000_000;

/// Looks between two pauses. MPICH needs several to take in one message, and more for each step of a collective.
const LOOKS: u32 = 8;

/// When looks lie this far apart, so many times in a row, MPI moves data: what it waits for has begun to come. Once may
/// be a cold cache.
const WORK_NS: u64 = 10_000;
const WORK_LOOKS: u32 = 3;

/// And this far apart, somebody else had the CPU. A timer interrupt is much shorter.
const GAP_NS: u64 = 200_000;

/// When the CPU is given away to nobody it is back after less than this.
const YIELD_IDLE_NS: u64 = 3_000;

/// After so many yields in a row that gave it to nobody, most looks go without one.
const IDLE_YIELDS: u32 = 16;

/// For this time then: that long somebody who comes to want the CPU waits for it.
const SPARED_NS: u64 = 100_000;

/// Looks that go without at most; one takes less than a tenth of a microsecond in shared memory, and several where it
/// asks the system.
const SPARED_LOOKS: u64 = 2000;

/// So long after somebody else had it the CPU counts as shared. To find out again costs a time slice.
const SHARED_NS: u64 = 4_000_000_000;

static MANNER: AtomicU8 = AtomicU8::new(Waiting::AsMpi as u8);

thread_local! {
    /// Looks that may still go by without anything done, not even asking what time it is.
    static SPARED: Cell<u32> = const { Cell::new(0) };
    static WAIT: Cell<Wait> = const { Cell::new(Wait::NONE) };
}

/// What the environment says; nobody needs to say that a CPU which others want is theirs, too.
pub(crate) fn of_environment() -> Waiting {
    let told = std::env::var(environment::WAIT).ok();
    told.and_then(|word| word.parse().ok()).unwrap_or(Waiting::Adaptive)
}

/// From now on, for the rest of the process's life.
pub(crate) fn choose(manner: Waiting) {
    MANNER.store(manner as u8, Relaxed);
}

#[cfg_attr(not(miri), unsafe(no_mangle))]
pub extern "C" fn sched_yield() -> c_int {
    let manner = MANNER.load(Relaxed);
    if manner == Waiting::AsMpi as u8 {
        return give_away();
    }
    let caller = recorder::active().and_then(|recorder| Some((recorder, recorder.call_of_this_thread()?)));
    match caller {
        Some(_) if manner == Waiting::Spin as u8 || is_spared() => 0,
        Some((recorder, call)) => {
            let orders = &recorder.page().head.orders;
            look_again_later(call, orders, manner == Waiting::Sleep as u8)
        }
        None => give_away(),
    }
}

fn is_spared() -> bool {
    let left = SPARED.try_with(Cell::get).unwrap_or(0);
    if left > 0 {
        _ = SPARED.try_with(|spared| spared.set(left - 1));
    }
    left > 0
}

/// What libc's function does.
fn give_away() -> c_int {
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_sched_yield) as c_int }
}

fn look_again_later(call: u64, orders: &Orders, is_eager: bool) -> c_int {
    // A thread that ends has no more variables, and waits for nobody.
    let Ok(mut wait) = WAIT.try_with(Cell::get) else {
        return give_away();
    };
    let now = monotonic_ns();
    let mut code = 0;
    match wait.looked(call, now, Pauses::allowed(orders, now, is_eager)) {
        Next::Look => wait.last = now,
        Next::Yield => {
            code = give_away();
            wait.yielded(now, monotonic_ns());
            _ = SPARED.try_with(|spared| spared.set(wait.spared));
        }
        Next::Pause(pause) => {
            if wait.pauses == 1 {
                wake_exactly();
            }
            std::thread::sleep(pause);
            wait.last = monotonic_ns();
        }
    }
    _ = WAIT.try_with(|kept| kept.set(wait));
    code
}

/// A thread's timers ring 50 us late by default, which is more than most waits last.
fn wake_exactly() {
    const SLACK_NS: libc::c_ulong = 1;
    // SAFETY: changes how exact this thread's timers are, nothing else. Where it fails pauses are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
}

/// When a rank may sleep between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pauses {
    /// At once, whether or not its CPU is shared.
    Always,
    /// After a while, on a CPU that is shared.
    WhereShared,
    /// There, but late, and then for long.
    Seldom,
    Never,
}

impl Pauses {
    fn allowed(orders: &Orders, now: u64, is_eager: bool) -> Self {
        if now < orders.starting_until.load(Relaxed) {
            Self::Never
        } else if is_eager {
            Self::Always
        } else if orders.is_crowded.load(Relaxed) != 0 {
            Self::Seldom
        } else {
            Self::WhereShared
        }
    }
}

/// What to do between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Look,
    Yield,
    Pause(Duration),
}

/// A thread's wait, the one it is in or the last, and what it knows about others on its CPU. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Wait {
    call: u64,
    began: u64,
    last: u64,
    looks: u32,
    work: u32,
    pauses: u64,
    idle_yields: u32,
    /// How long a look takes.
    look_ns: u64,
    /// Looks that go without a yield after the last one.
    spared: u32,
    shared_until: u64,
    dear_until: u64,
}

impl Wait {
    const NONE: Self = Self {
        call: 0,
        began: 0,
        last: 0,
        looks: 0,
        work: 0,
        pauses: 0,
        idle_yields: 0,
        look_ns: 0,
        spared: 0,
        shared_until: 0,
        dear_until: 0,
    };

    /// MPI has looked once more in this call, after the looks that were spared, and found nothing.
    fn looked(&mut self, call: u64, now: u64, pauses: Pauses) -> Next {
        let away = now.saturating_sub(self.last);
        let spared = u64::from(std::mem::take(&mut self.spared));
        let expected = spared * self.look_ns;
        if self.call != call {
            (self.call, self.began, self.looks, self.work) = (call, now, 0, 0);
        } else if away >= GAP_NS + expected {
            // Who keeps it will show at the next yield; of a gap, nobody here may be the cause.
            self.taken(now);
        } else {
            let is_work = away >= WORK_NS + 2 * expected;
            self.look_ns = away / (spared + 1);
            self.work = if is_work { self.work + 1 } else { 0 };
            if self.work >= WORK_LOOKS {
                (self.began, self.looks) = (now, 0);
            }
        }
        let waited = now - self.began;
        let is_shared = now < self.shared_until;
        let is_long = match pauses {
            Pauses::Always => true,
            Pauses::WhereShared => is_shared && (waited >= YIELD_NS || now < self.dear_until),
            Pauses::Seldom => is_shared && waited >= CROWDED_YIELD_NS,
            Pauses::Never => false,
        };
        if !is_long {
            return Next::Yield;
        }
        if self.looks < LOOKS {
            self.looks += 1;
            return Next::Look;
        }
        self.looks = 0;
        self.pauses += 1;
        let pause = match pauses {
            Pauses::Seldom => CROWDED_PAUSE_NS,
            _ => (waited / PAUSE_PART).clamp(PAUSE_MIN_NS, PAUSE_MAX_NS),
        };
        Next::Pause(Duration::from_nanos(pause))
    }

    /// The CPU was given away at one time and is back at the other.
    fn yielded(&mut self, given: u64, back: u64) {
        let away = back.saturating_sub(given);
        if away >= YIELD_IDLE_NS {
            self.taken(back);
            if away >= YIELD_DEAR_NS {
                self.dear_until = back + DEAR_NS;
            }
        } else {
            self.idle_yields = self.idle_yields.saturating_add(1);
            if self.idle_yields >= IDLE_YIELDS {
                self.spared = (SPARED_NS / self.look_ns.max(1)).min(SPARED_LOOKS) as u32;
            }
        }
        self.last = back;
    }

    /// Somebody else had the CPU.
    fn taken(&mut self, now: u64) {
        self.idle_yields = 0;
        self.shared_until = now + SHARED_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED_CPU: Wait = Wait {
        shared_until: u64::MAX,
        ..Wait::NONE
    };
    const SHARED: Pauses = Pauses::WhereShared;

    /// What comes after looks at these times, each a little after the one before.
    fn last_of(mut wait: Wait, until: u64, pauses: Pauses) -> Next {
        let mut next = wait.looked(1, 5, pauses);
        for now in (5..=until).step_by(1000) {
            wait.last = now;
            next = wait.looked(1, now, pauses);
        }
        next
    }

    #[test]
    fn a_rank_alone_on_its_cpu_waits_as_mpi_does() {
        assert_eq!(last_of(Wait::NONE, 50 * YIELD_NS, SHARED), Next::Yield);
    }

    #[test]
    fn a_rank_that_shares_yields_then_pauses_for_a_part_of_what_it_waited() {
        assert_eq!(last_of(SHARED_CPU, YIELD_NS / 2, SHARED), Next::Yield);
        let mut wait = SHARED_CPU;
        wait.looked(1, 5, SHARED);
        wait.last = 5 + YIELD_NS;
        let nexts: Vec<Next> = (0..=LOOKS).map(|_| wait.looked(1, 5 + YIELD_NS, SHARED)).collect();
        assert!(
            nexts[..LOOKS as usize].iter().all(|next| *next == Next::Look),
            "{nexts:?}"
        );
        assert_eq!(
            nexts[LOOKS as usize],
            Next::Pause(Duration::from_nanos(YIELD_NS / PAUSE_PART))
        );
        wait.last = 1 << 60;
        wait.looks = LOOKS;
        wait.shared_until = u64::MAX;
        assert_eq!(
            wait.looked(1, 1 << 60, SHARED),
            Next::Pause(Duration::from_nanos(PAUSE_MAX_NS))
        );
    }

    /// Looks that go without a yield when each takes so long and nobody wants the CPU, and what knows that.
    fn spared_when_a_look_takes(look_ns: u64) -> Wait {
        let (mut wait, mut now) = (Wait::NONE, 5);
        for _ in 0..3 * IDLE_YIELDS {
            assert_eq!(wait.looked(1, now, SHARED), Next::Yield);
            wait.yielded(now, now + 1);
            now += 1 + look_ns * u64::from(wait.spared + 1);
        }
        wait
    }

    #[test]
    fn yields_that_give_the_cpu_to_nobody_become_rare_until_one_is_taken() {
        assert_eq!(u64::from(spared_when_a_look_takes(10).spared), SPARED_LOOKS);
        assert_eq!(u64::from(spared_when_a_look_takes(5_000).spared), SPARED_NS / 5_000);
        let mut wait = spared_when_a_look_takes(100);
        assert_eq!(u64::from(wait.spared), SPARED_NS / 100);
        let now = wait.last + 2;
        wait.looked(2, now, SHARED);
        wait.yielded(now, now + 1);
        assert_eq!(u64::from(wait.spared), SPARED_NS / 100, "another call knows it, too");
        wait.looked(2, now + 2, SHARED);
        wait.yielded(now + 2, now + 2 + YIELD_IDLE_NS);
        assert_eq!(wait.spared, 0);
        wait.yielded(now + 2, now + 3);
        assert_eq!(wait.spared, 0);
    }

    #[test]
    fn where_processes_outnumber_cpus_pauses_are_few_and_long() {
        let mut wait = SHARED_CPU;
        wait.looked(1, 5, Pauses::Seldom);
        wait.last = CROWDED_YIELD_NS;
        assert_eq!(wait.looked(1, CROWDED_YIELD_NS, Pauses::Seldom), Next::Yield);
        wait.began = 0;
        wait.looks = LOOKS;
        wait.last = CROWDED_YIELD_NS;
        assert_eq!(
            wait.looked(1, CROWDED_YIELD_NS, Pauses::Seldom),
            Next::Pause(Duration::from_nanos(CROWDED_PAUSE_NS))
        );
    }

    #[test]
    fn while_a_process_starts_nobody_sleeps() {
        assert_eq!(last_of(SHARED_CPU, 3 * YIELD_NS, Pauses::Never), Next::Yield);
        let orders = &Orders::default();
        assert_eq!(Pauses::allowed(orders, 7, false), Pauses::WhereShared);
        assert_eq!(Pauses::allowed(orders, 7, true), Pauses::Always);
        orders.is_crowded.store(1, Relaxed);
        assert_eq!(Pauses::allowed(orders, 7, false), Pauses::Seldom);
        assert_eq!(Pauses::allowed(orders, 7, true), Pauses::Always);
        orders.starting_until.store(8, Relaxed);
        for is_eager in [false, true] {
            assert_eq!(Pauses::allowed(orders, 7, is_eager), Pauses::Never);
            assert_ne!(Pauses::allowed(orders, 8, is_eager), Pauses::Never);
        }
    }

    #[test]
    fn each_call_waits_anew_and_so_does_one_whose_data_has_begun_to_come() {
        let mut wait = SHARED_CPU;
        wait.looked(1, 5, SHARED);
        wait.last = 5 + YIELD_NS;
        assert_eq!(wait.looked(2, 5 + YIELD_NS, SHARED), Next::Yield);
        let mut now = 5 + 3 * YIELD_NS;
        for look in 1..=WORK_LOOKS {
            wait.last = now;
            now += WORK_NS;
            let next = wait.looked(2, now, SHARED);
            assert_eq!(next == Next::Yield, look == WORK_LOOKS, "{look}");
        }
        assert_eq!(wait.began, now);
    }

    #[test]
    fn nothing_is_given_to_somebody_who_keeps_it() {
        let mut wait = Wait::NONE;
        assert_eq!(wait.looked(1, 5, SHARED), Next::Yield);
        wait.yielded(5, 5 + YIELD_DEAR_NS);
        let mut look = |now| {
            wait.looks = LOOKS;
            wait.last = now;
            wait.looked(1, now, SHARED)
        };
        assert!(matches!(look(5 + YIELD_DEAR_NS), Next::Pause(_)));
        wait.call = 0;
        assert_eq!(wait.looked(1, 5 + YIELD_DEAR_NS + DEAR_NS, SHARED), Next::Yield);
    }

    #[test]
    fn a_cpu_that_comes_back_at_once_is_not_shared() {
        let mut wait = Wait::NONE;
        wait.yielded(1000, 1000 + YIELD_IDLE_NS - 1);
        assert_eq!(wait.shared_until, 0);
        wait.yielded(1000, 1000 + YIELD_IDLE_NS);
        assert!(wait.shared_until > 0);
        let mut wait = Wait::NONE;
        wait.looked(1, 5, SHARED);
        wait.looked(1, 5 + GAP_NS, SHARED);
        assert!(wait.shared_until > 0, "somebody took it between two looks");
    }

    #[test]
    fn outside_of_mpi_the_function_does_what_that_of_libc_does() {
        choose(Waiting::Sleep);
        assert_eq!(sched_yield(), 0);
        assert_eq!(WAIT.get().pauses, 0);
        choose(Waiting::AsMpi);
    }
}
