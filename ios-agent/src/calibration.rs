//! How fast a CPU of this node is, by a fixed piece of work. Measured in CPU time of this thread, so that others on the
//! CPU do not make it look slow; the median of a few runs, because disturbances add, and clocks of virtual machines
//! stand still for a while. What disturbs all runs (the other half of a core, a host that gives its CPU to others) is
//! over some seconds later: then it is measured again, and the fastest counts.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// Steps of one run: about a millisecond.
const STEPS: u64 = 200_000;

/// Runs; together below ten milliseconds, four times in the life of a daemon.
const RUNS: usize = 5;

/// No CPU does a step in less: each needs the results of the one before.
const STEP_NS_MIN: f64 = 0.2;

/// What one step costs on a CPU of speed 1. Chosen once; only ratios between nodes mean something.
const STEP_NS: f64 = 4.0;

/// Since the agent began. A cluster starts its daemons at once, often on few CPUs.
const AGAIN_AT: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(9)];

/// The speed of a node, as far as it was measured.
#[derive(Debug)]
pub struct NodeSpeed {
    speed: f64,
    /// How often it was measured after the first time.
    again: usize,
}

impl NodeSpeed {
    /// An earlier agent of this node measured it.
    pub fn known(speed: f64) -> Self {
        let again = AGAIN_AT.len();
        Self { speed, again }
    }

    /// Measures it for the first time.
    pub fn measured() -> Self {
        Self {
            speed: speed(),
            again: 0,
        }
    }

    /// What is known of it.
    pub fn value(&self) -> f64 {
        self.speed
    }

    /// Measures it again if it is time to.
    pub fn look(&mut self, since_start: Duration) {
        if AGAIN_AT.get(self.again).is_some_and(|at| since_start >= *at) {
            self.again += 1;
            self.speed = self.speed.max(speed());
        }
    }
}

/// The speed of the CPU this thread is on; 1 if its clock says nothing.
fn speed() -> f64 {
    speed_by((0..RUNS).map(|_| run_ns()))
}

/// The speed that these times of runs show, without times that no CPU can reach.
fn speed_by(runs_ns: impl Iterator<Item = f64>) -> f64 {
    let mut steps: Vec<f64> = runs_ns
        .map(|run| run / STEPS as f64)
        .filter(|step| *step >= STEP_NS_MIN)
        .collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).map_or(1.0, |step| STEP_NS / step)
}

fn run_ns() -> f64 {
    let begun = thread_ns();
    black_box(work(black_box(STEPS)));
    thread_ns() - begun
}

/// Floating-point work that depends on itself, as a stencil's inner loop does, with some integer work between.
fn work(steps: u64) -> f64 {
    let (mut value, mut bits) = (1.0_f64, 0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        value = value * 0.999_999 + (bits & 0xff) as f64 * 1e-9;
    }
    value
}

fn thread_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calibrations_of_one_cpu_agree() {
        let ratio = speed() / speed();
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_node_is_measured_again_three_times_and_the_fastest_counts() {
        let mut slow_at_first = NodeSpeed { speed: 1e-9, again: 0 };
        slow_at_first.look(AGAIN_AT[0] / 2);
        assert_eq!(slow_at_first.value(), 1e-9);
        slow_at_first.look(AGAIN_AT[0]);
        assert!(slow_at_first.value() > 1e-9);
        let mut fast_at_first = NodeSpeed { speed: 1e9, again: 0 };
        for looks in 1..10 {
            fast_at_first.look(AGAIN_AT[2]);
            assert_eq!(fast_at_first.again, AGAIN_AT.len().min(looks));
        }
        assert_eq!(fast_at_first.value(), 1e9);
        let mut known = NodeSpeed::known(0.5);
        known.look(AGAIN_AT[2]);
        assert_eq!(known.value(), 0.5);
    }

    #[test]
    fn a_clock_that_stands_still_makes_no_cpu_fast() {
        let ms = 1e6;
        assert_eq!(speed_by([0.0, 8.0 * ms, 0.0, 4.0 * ms, 9.0 * ms].into_iter()), 0.1);
        assert_eq!(speed_by([0.0; RUNS].into_iter()), 1.0);
    }
}
