//! How well the ranks of a job use their time, in the terms of the POP project: parallel efficiency is load balance
//! times communication efficiency. Pure.

use pcm_proto::job::RankStatus;

/// Of means over an iteration; each is 1 at best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Efficiency {
    /// Mean useful time of the ranks, as a part of the longest.
    pub(super) load_balance: f64,
    /// The longest useful time, as a part of an iteration: the rest is MPI for every rank.
    pub(super) communication: f64,
    /// Mean useful time, as a part of an iteration.
    pub(super) parallel: f64,
}

impl Efficiency {
    /// None before the ranks have measured an iteration.
    pub(super) fn of(ranks: &[RankStatus]) -> Option<Self> {
        let count = ranks.len() as f64;
        let useful: f64 = ranks.iter().map(|rank| rank.useful_ms).sum::<f64>() / count;
        let longest = ranks.iter().map(|rank| rank.useful_ms).fold(0.0, f64::max);
        let whole = ranks
            .iter()
            .map(|rank| rank.useful_ms + rank.wait_ms)
            .fold(0.0, f64::max);
        (longest > 0.0).then(|| Self {
            load_balance: useful / longest,
            communication: longest / whole,
            parallel: useful / whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::rank;
    use super::*;

    fn of(times: &[(f64, f64)]) -> Option<Efficiency> {
        let ranks = times.iter().map(|&(useful_ms, wait_ms)| RankStatus {
            useful_ms,
            wait_ms,
            ..rank()
        });
        Efficiency::of(&ranks.collect::<Vec<_>>())
    }

    #[test]
    fn one_slow_rank_is_bad_balance_and_no_bad_communication() {
        let found = of(&[(8.0, 0.0), (4.0, 4.0)]).unwrap();
        assert_eq!(
            (found.load_balance, found.communication, found.parallel),
            (0.75, 1.0, 0.75)
        );
    }

    #[test]
    fn equal_ranks_that_wait_have_bad_communication() {
        let found = of(&[(6.0, 2.0), (6.0, 2.0)]).unwrap();
        assert_eq!(
            (found.load_balance, found.communication, found.parallel),
            (1.0, 0.75, 0.75)
        );
    }

    #[test]
    fn parallel_efficiency_is_the_product_of_the_two() {
        let found = of(&[(5.0, 3.0), (3.0, 4.5), (1.0, 7.0)]).unwrap();
        assert!((found.load_balance * found.communication - found.parallel).abs() < 1e-12);
    }

    #[test]
    fn without_ranks_or_iterations_there_is_none() {
        assert_eq!((of(&[]), of(&[(0.0, 0.0)])), (None, None));
    }
}
