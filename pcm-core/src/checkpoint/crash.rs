//! What follows a crash of a job: another start from the newest checkpoint, when, or the end, and why. Never starts
//! anything, never looks at a checkpoint.

use crate::moment::Moment;
use pcm_proto::ids::Iteration;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Limits of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLimits {
    /// Most restarts in the job's life (`--max-restarts`).
    pub restarts_max: u32,
    /// How often the program itself may crash without getting further than before.
    pub same_iteration_max: u32,
    /// Wait before the second start in a row without progress; doubles with each.
    pub back_off: Duration,
    pub back_off_max: Duration,
}

impl Default for PolicyLimits {
    fn default() -> Self {
        Self {
            // A job of weeks on nodes that fail daily gets through; a loop is ended by the rules below long before.
            restarts_max: 100,
            // Once may be chance (a bit flipped, memory ran out), three times in one place is the program.
            same_iteration_max: 3,
            back_off: Duration::from_millis(500),
            back_off_max: Duration::from_secs(30),
        }
    }
}

/// Whose fault it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// A rank died by itself or by a signal.
    Rank,
    /// A node, its daemon with its ranks, or the way to it was lost.
    Node,
}

/// What is known of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Whose fault it was.
    pub fault: Fault,
    /// The furthest iteration that any rank had begun.
    pub reached: Iteration,
    /// The iteration of the newest complete checkpoint, if there is one.
    pub checkpoint: Option<Iteration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start again from this iteration, not before the moment.
    Restart {
        not_before: Moment,
        from: Iteration,
        /// The number of this restart, from 1.
        restart: u32,
        /// Iterations that will be computed a second time.
        rolled_back: u64,
    },
    /// The job ends: nothing is left to start from.
    NoCheckpoint,
    /// The job ends: it has been started again as often as it may.
    TooManyRestarts { restarts_max: u32 },
    /// The job ends: the program crashes in the same place each time.
    SameIteration { iteration: Iteration, times: u32 },
}

/// See the file head. One per job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashPolicy {
    limits: PolicyLimits,
    restarts: u32,
    /// The furthest crash of the program, and how often it has crashed without getting beyond.
    furthest: Option<(Iteration, u32)>,
    /// Crashes in a row, of whatever cause, that brought no new checkpoint.
    fruitless: u32,
    last_checkpoint: Option<Iteration>,
}

impl CrashPolicy {
    /// A policy for a job that has not crashed.
    pub fn new(limits: PolicyLimits) -> Self {
        Self {
            limits,
            restarts: 0,
            furthest: None,
            fruitless: 0,
            last_checkpoint: None,
        }
    }

    /// How often the job was started again.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The job crashed.
    pub fn on_crash(&mut self, now: Moment, crash: Crash) -> Verdict {
        if crash.fault == Fault::Rank {
            let times = match self.furthest {
                Some((furthest, times)) if crash.reached <= furthest => times + 1,
                _ => 1,
            };
            let furthest = self
                .furthest
                .map_or(crash.reached, |(furthest, _)| furthest.max(crash.reached));
            self.furthest = Some((furthest, times));
            if times >= self.limits.same_iteration_max {
                let iteration = crash.reached;
                return Verdict::SameIteration { iteration, times };
            }
        }
        let Some(from) = crash.checkpoint else {
            return Verdict::NoCheckpoint;
        };
        let restarts_max = self.limits.restarts_max;
        if self.restarts >= restarts_max {
            return Verdict::TooManyRestarts { restarts_max };
        }
        self.restarts += 1;
        let is_new = self.last_checkpoint.is_none_or(|last| from > last);
        self.fruitless = if is_new { 0 } else { self.fruitless.saturating_add(1) };
        self.last_checkpoint = Some(from);
        Verdict::Restart {
            not_before: now.plus(self.wait()),
            from,
            restart: self.restarts,
            rolled_back: crash.reached.0.saturating_sub(from.0),
        }
    }

    /// None before the first of a row: whoever lost a node wants to go on at once.
    fn wait(&self) -> Duration {
        match self.fruitless {
            0 => Duration::ZERO,
            n => {
                let doubled = self.limits.back_off.saturating_mul(1 << (n - 1).min(16));
                doubled.min(self.limits.back_off_max)
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart {
                from,
                restart,
                rolled_back,
                ..
            } => write!(
                f,
                "restart {restart} from the checkpoint at iteration {from}; {rolled_back} iterations are computed \
                 again, and what they print is printed again"
            ),
            Self::NoCheckpoint => write!(
                f,
                "no complete checkpoint is left to start from: none was made (run it with --checkpoint-every to have \
                 some), or their copies were lost with their nodes"
            ),
            Self::TooManyRestarts { restarts_max } => write!(
                f,
                "the job was started again {restarts_max} times; see 'pcmctl events' for the causes, --max-restarts \
                 allows more"
            ),
            Self::SameIteration { iteration, times } => write!(
                f,
                "the program crashed {times} times without getting beyond iteration {iteration}: the fault is likely \
                 its own; its checkpoint is kept, restart it with 'pcmctl restart' when it is mended"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(fault: Fault, reached: u64, checkpoint: Option<u64>) -> Crash {
        Crash {
            fault,
            reached: Iteration(reached),
            checkpoint: checkpoint.map(Iteration),
        }
    }

    fn waited(verdict: Verdict, now: Moment) -> Duration {
        match verdict {
            Verdict::Restart { not_before, .. } => not_before.since(now),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_first_restart_is_at_once_and_says_what_is_computed_again() {
        let mut policy = CrashPolicy::new(PolicyLimits::default());
        let verdict = policy.on_crash(Moment(7), crash(Fault::Rank, 130, Some(100)));
        let expected = Verdict::Restart {
            not_before: Moment(7),
            from: Iteration(100),
            restart: 1,
            rolled_back: 30,
        };
        assert_eq!(verdict, expected);
    }

    #[test]
    fn a_program_that_crashes_in_the_same_place_ends_clearly() {
        let mut policy = CrashPolicy::new(PolicyLimits::default());
        for _ in 0..2 {
            let verdict = policy.on_crash(Moment(0), crash(Fault::Rank, 130, Some(100)));
            assert!(matches!(verdict, Verdict::Restart { .. }), "{verdict}");
        }
        let verdict = policy.on_crash(Moment(0), crash(Fault::Rank, 130, Some(100)));
        let (iteration, times) = (Iteration(130), 3);
        assert_eq!(verdict, Verdict::SameIteration { iteration, times });
    }

    #[test]
    fn a_program_that_gets_further_each_time_goes_on() {
        let mut policy = CrashPolicy::new(PolicyLimits::default());
        for n in 0..50 {
            let verdict = policy.on_crash(Moment(0), crash(Fault::Rank, 100 * n + 30, Some(100 * n)));
            assert_eq!(waited(verdict, Moment(0)), Duration::ZERO);
        }
    }

    #[test]
    fn lost_nodes_are_not_the_program_s_fault_but_back_off_without_progress() {
        let mut policy = CrashPolicy::new(PolicyLimits::default());
        let waits: Vec<u128> = (0..9)
            .map(|_| {
                waited(
                    policy.on_crash(Moment(0), crash(Fault::Node, 130, Some(100))),
                    Moment(0),
                )
                .as_millis()
            })
            .collect();
        assert_eq!(waits, [0, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        let verdict = policy.on_crash(Moment(0), crash(Fault::Node, 300, Some(200)));
        assert_eq!(waited(verdict, Moment(0)), Duration::ZERO);
    }

    #[test]
    fn there_is_an_end_to_restarts_and_none_without_a_checkpoint() {
        let limits = PolicyLimits {
            restarts_max: 1,
            ..PolicyLimits::default()
        };
        let mut policy = CrashPolicy::new(limits);
        assert_eq!(
            policy.on_crash(Moment(0), crash(Fault::Node, 1, None)),
            Verdict::NoCheckpoint
        );
        assert!(matches!(
            policy.on_crash(Moment(0), crash(Fault::Node, 1, Some(0))),
            Verdict::Restart { restart: 1, .. }
        ));
        let verdict = policy.on_crash(Moment(0), crash(Fault::Node, 2, Some(1)));
        assert_eq!(verdict, Verdict::TooManyRestarts { restarts_max: 1 });
        assert_eq!(policy.restarts(), 1);
    }
}
