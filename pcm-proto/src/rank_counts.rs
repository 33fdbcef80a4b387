//! The numbers of ranks on which a program can run, as the program says. Must never be empty of every number.

use crate::job::RANKS_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most runs of numbers that are kept: the cubes up to [`RANKS_MAX`] take sixteen, the primes more than this.
const RUNS_MAX: usize = 256;

/// Numbers at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    first: u32,
    last: u32,
    step: u32,
}

/// Ascending runs; none: any number will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankCounts(Vec<Run>);

/// Why a program's numbers cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRankCounts {
    #[error("no number of ranks from 1 to {RANKS_MAX} is possible")]
    None,
    #[error("the possible numbers of ranks make more than {RUNS_MAX} runs of equal distances")]
    TooMany,
}

impl RankCounts {
    /// Those for which `is_possible`.
    ///
    /// # Errors
    /// When there is none, or they follow no rule.
    pub fn of(is_possible: impl FnMut(u32) -> bool) -> Result<Self, BadRankCounts> {
        let mut is_possible = is_possible;
        let mut runs: Vec<Run> = Vec::new();
        for count in (1..=RANKS_MAX).filter(|count| is_possible(*count)) {
            match runs.last_mut() {
                Some(run) if run.first == run.last => (run.step, run.last) = (count - run.last, count),
                Some(run) if count - run.last == run.step => run.last = count,
                _ => runs.push(Run {
                    first: count,
                    last: count,
                    step: 1,
                }),
            }
        }
        match runs.len() {
            0 => Err(BadRankCounts::None),
            1..=RUNS_MAX => Ok(Self(runs)),
            _ => Err(BadRankCounts::TooMany),
        }
    }

    /// Whether any number will do.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether [`RankCounts::of`] can have made it; what another process sent need not be sound.
    pub fn is_sound(&self) -> bool {
        self.0.len() <= RUNS_MAX && self.0.iter().all(Run::is_sound)
    }

    /// The possible numbers nearest to one that is not, as words.
    pub fn near_words(&self, count: u32) -> String {
        let near: Vec<String> = self.near(count).iter().flatten().map(u32::to_string).collect();
        near.join(" or ")
    }

    /// Whether the program can run on so many ranks.
    pub fn allow(&self, count: u32) -> bool {
        self.is_any() || self.0.iter().any(|run| run.has(count))
    }

    /// The possible numbers nearest to one that is not: below and above it.
    fn near(&self, count: u32) -> [Option<u32>; 2] {
        let below = (1..count.min(RANKS_MAX + 1)).rev().find(|below| self.allow(*below));
        let above = (count.saturating_add(1)..=RANKS_MAX).find(|above| self.allow(*above));
        [below, above]
    }
}

impl Run {
    fn is_sound(&self) -> bool {
        self.first > 0 && self.first <= self.last && self.last <= RANKS_MAX && self.step > 0
    }

    fn has(&self, count: u32) -> bool {
        (self.first..=self.last).contains(&count) && (count - self.first).is_multiple_of(self.step)
    }
}

impl fmt::Display for RankCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match (run.first == run.last, run.step) {
                (true, _) => write!(f, "{}", run.first)?,
                (false, 1) => write!(f, "{} to {}", run.first, run.last)?,
                (false, step) if run.first.saturating_add(step) == run.last => {
                    write!(f, "{}, {}", run.first, run.last)?
                }
                (false, step) => write!(f, "{}, {} to {}", run.first, run.first.saturating_add(step), run.last)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(is_possible: fn(u32) -> bool) -> RankCounts {
        RankCounts::of(is_possible).unwrap()
    }

    fn is_cube(count: u32) -> bool {
        (1..=16_u32).any(|side| side.pow(3) == count)
    }

    #[test]
    fn what_a_function_says_is_what_is_allowed() {
        for is_possible in [
            is_cube,
            |n: u32| n.is_multiple_of(4),
            |n: u32| n.is_power_of_two(),
            |n| n == 6,
            |_| true,
        ] {
            let counts = of(is_possible);
            assert!(
                (1..=RANKS_MAX).all(|count| counts.allow(count) == is_possible(count)),
                "{counts}"
            );
        }
        assert!((1..=RANKS_MAX).all(|count| RankCounts::default().allow(count)));
    }

    #[test]
    fn numbers_that_no_program_can_have_said_are_not_sound() {
        assert!(RankCounts::default().is_sound() && of(is_cube).is_sound());
        for (first, last, step) in [(0, 4, 1), (5, 4, 1), (4, RANKS_MAX + 1, 1), (4, 8, 0)] {
            assert!(!RankCounts(vec![Run { first, last, step }]).is_sound());
        }
        let run = Run {
            first: 1,
            last: 1,
            step: 1,
        };
        assert!(!RankCounts(vec![run; RUNS_MAX + 1]).is_sound());
    }

    #[test]
    fn numbers_without_a_rule_and_none_at_all_are_refused() {
        let is_prime = |n: u32| n > 1 && (2..n).all(|by| !n.is_multiple_of(by));
        assert_eq!(RankCounts::of(is_prime), Err(BadRankCounts::TooMany));
        assert_eq!(RankCounts::of(|_| false), Err(BadRankCounts::None));
    }

    #[test]
    fn the_nearest_and_the_words_are_those_a_person_expects() {
        let fours = of(|n: u32| n.is_multiple_of(4));
        assert_eq!(fours.near(6), [Some(4), Some(8)]);
        assert_eq!(fours.near(3), [None, Some(4)]);
        assert_eq!(fours.near(RANKS_MAX + 1), [Some(RANKS_MAX), None]);
        assert_eq!(fours.to_string(), "4, 8 to 4096");
        assert_eq!(of(|n| n <= 3).to_string(), "1 to 3");
        assert_eq!(of(|n| [1, 8, 27].contains(&n)).to_string(), "1, 8, 27");
    }
}
