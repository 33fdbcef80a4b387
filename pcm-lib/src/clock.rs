//! Time as cheap as the machine gives it: the time stamp counter where it runs at one rate, else CLOCK_MONOTONIC.
//!
//! Calibrated once, between two points of the start-up that lie far enough apart; never waits longer than
//! [`SPAN_MIN_NS`].
#![allow(unsafe_code, reason = "reads the time stamp counter")]

use rustix::time::{ClockId, clock_gettime};

/// Shortest span between the two points: with 100 ns of doubt at each end the rate is right to 0.1 %. `MPI_Init`
/// lies between them and takes 30 ms or more, which makes it 10 ppm.
const SPAN_MIN_NS: u64 = 200_000;

/// A source of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The time stamp counter.
    Counter,
    /// Nanoseconds of CLOCK_MONOTONIC.
    Monotonic,
}

/// A moment on both scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ticks: u64,
    pub(crate) monotonic_ns: u64,
}

impl Clock {
    /// The best clock of this machine.
    pub(crate) fn choose() -> Self {
        if counter_is_steady() {
            Self::Counter
        } else {
            Self::Monotonic
        }
    }

    /// Now, in ticks.
    #[inline]
    pub(crate) fn ticks(self) -> u64 {
        match self {
            Self::Counter => counter(),
            Self::Monotonic => monotonic_ns(),
        }
    }

    /// Now, on both scales.
    pub(crate) fn moment(self) -> Moment {
        // Of a few tries the one that was interrupted least.
        let tries = (0..5).map(|_| {
            let before = self.ticks();
            let monotonic_ns = monotonic_ns();
            let after = self.ticks();
            (
                after.wrapping_sub(before),
                Moment {
                    ticks: before + (after.wrapping_sub(before)) / 2,
                    monotonic_ns,
                },
            )
        });
        tries.min_by_key(|(doubt, _)| *doubt).map_or(
            Moment {
                ticks: 0,
                monotonic_ns: 0,
            },
            |(_, moment)| moment,
        )
    }

    /// Nanoseconds per tick times 2^32, from a moment some time ago.
    pub(crate) fn scale_since(self, start: Moment) -> u64 {
        if self == Self::Monotonic {
            return 1 << 32;
        }
        while monotonic_ns().wrapping_sub(start.monotonic_ns) < SPAN_MIN_NS {
            std::hint::spin_loop();
        }
        let end = self.moment();
        let ns = u128::from(end.monotonic_ns.wrapping_sub(start.monotonic_ns));
        let ticks = u128::from(end.ticks.wrapping_sub(start.ticks)).max(1);
        u64::try_from((ns << 32) / ticks).unwrap_or(u64::MAX)
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    // "Invariant TSC": it runs at one rate in all states and alike on all cores.
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & (1 << 8) != 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_steady() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn ticks_translate_to_the_time_that_passed() {
        for clock in [Clock::choose(), Clock::Monotonic] {
            let start = clock.moment();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let scale = clock.scale_since(start);
            // An interruption between two readings makes them differ; not in each of some tries.
            let mut tries = (0..10).map(|_| {
                let (from, other) = (clock.ticks(), Instant::now());
                while other.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                let (ticks, passed) = (clock.ticks() - from, other.elapsed().as_nanos());
                (((u128::from(ticks) * u128::from(scale)) >> 32), passed)
            });
            assert!(
                tries.any(|(ns, passed)| ns.abs_diff(passed) < passed / 20),
                "{clock:?} with scale {scale}"
            );
        }
    }
}
