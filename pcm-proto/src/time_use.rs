//! How well ranks use their time, in the terms of the POP project: parallel efficiency is load balance times
//! communication efficiency.

use serde::{Deserialize, Serialize};

/// What ranks did in the same stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeUse {
    pub ranks: u32,
    /// Milliseconds that a rank spent outside MPI, on average.
    pub useful_ms: f64,
    /// The same, of the rank that spent most.
    pub longest_ms: f64,
    /// Milliseconds that the ranks had.
    pub whole_ms: f64,
}

impl TimeUse {
    /// Of the time that each rank spent outside and inside MPI; none without time outside.
    pub fn of(ranks: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let mut found = Self::default();
        for (useful, in_mpi) in ranks {
            found.ranks += 1;
            found.useful_ms += useful;
            found.longest_ms = found.longest_ms.max(useful);
            found.whole_ms = found.whole_ms.max(useful + in_mpi);
        }
        found.useful_ms /= f64::from(found.ranks);
        (found.longest_ms > 0.0).then_some(found)
    }

    /// Adds what as many ranks did in another stretch.
    pub fn add(&mut self, other: &Self) {
        self.useful_ms += other.useful_ms;
        self.longest_ms += other.longest_ms;
        self.whole_ms += other.whole_ms;
    }

    /// Mean useful time of the ranks as a part of the longest: 1 at best, as the other two.
    pub fn load_balance(&self) -> f64 {
        self.useful_ms / self.longest_ms
    }

    /// The longest useful time as a part of all: the rest is MPI for every rank.
    pub fn communication(&self) -> f64 {
        self.longest_ms / self.whole_ms
    }

    /// Mean useful time as a part of all.
    pub fn parallel(&self) -> f64 {
        self.useful_ms / self.whole_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[(f64, f64)]) -> TimeUse {
        TimeUse::of(times.iter().copied()).unwrap()
    }

    fn three(time_use: TimeUse) -> (f64, f64, f64) {
        (time_use.load_balance(), time_use.communication(), time_use.parallel())
    }

    #[test]
    fn one_slow_rank_is_bad_balance_and_no_bad_communication() {
        assert_eq!(three(of(&[(8.0, 0.0), (4.0, 4.0)])), (0.75, 1.0, 0.75));
    }

    #[test]
    fn equal_ranks_that_wait_have_bad_communication() {
        assert_eq!(three(of(&[(6.0, 2.0), (6.0, 2.0)])), (1.0, 0.75, 0.75));
    }

    #[test]
    fn parallel_efficiency_is_the_product_of_the_two() {
        let found = of(&[(5.0, 3.0), (3.0, 4.5), (1.0, 7.0)]);
        assert!((found.load_balance() * found.communication() - found.parallel()).abs() < 1e-12);
    }

    #[test]
    fn stretches_count_by_their_length() {
        let mut sum = of(&[(9.0, 0.0), (9.0, 0.0)]);
        sum.add(&of(&[(1.0, 0.0), (0.0, 1.0)]));
        assert_eq!(three(sum), (0.95, 1.0, 0.95));
    }

    #[test]
    fn without_ranks_or_useful_time_there_is_none() {
        assert_eq!(TimeUse::of([].into_iter()), None);
        assert_eq!(TimeUse::of([(0.0, 3.0)].into_iter()), None);
    }
}
