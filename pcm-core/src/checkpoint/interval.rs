//! How often a checkpoint pays: the interval that loses least, by Young's and Daly's estimate. Pure arithmetic.

use std::time::Duration;

/// What was measured of a job and its nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// How long one checkpoint holds the application.
    pub cost: Duration,
    /// Mean time between failures that a checkpoint helps against.
    pub between_failures: Duration,
}

/// Bounds of the interval. Below the first, checkpoints would cost more than a hundredth of the run time whatever is
/// gained; above the last, nobody would call a job protected.
const COST_TIMES_MIN: u32 = 100;
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// The time between the end of one checkpoint and the beginning of the next that makes lost work and time spent on
/// checkpoints smallest (J. T. Daly, 2006: the higher-order estimate; its first term is Young's √2δM).
pub fn best_interval(measured: Measured) -> Duration {
    let (cost, mean) = (measured.cost.as_secs_f64(), measured.between_failures.as_secs_f64());
    let best = if cost < mean / 2.0 {
        let ratio = cost / (2.0 * mean);
        (2.0 * cost * mean).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost
    } else {
        mean
    };
    let least = INTERVAL_MIN.max(measured.cost.saturating_mul(COST_TIMES_MIN));
    let best = Duration::try_from_secs_f64(best).unwrap_or(INTERVAL_MAX);
    best.max(least).min(INTERVAL_MAX.max(measured.cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(cost: f64, mean: f64) -> f64 {
        let measured = Measured {
            cost: Duration::from_secs_f64(cost),
            between_failures: Duration::from_secs_f64(mean),
        };
        best_interval(measured).as_secs_f64()
    }

    /// Expected time per second of progress with checkpoints every `interval`, failures being exponential (Daly's
    /// complete model without restart time).
    fn expected(interval: f64, cost: f64, mean: f64) -> f64 {
        mean * ((interval + cost) / mean).exp_m1() / interval
    }

    #[test]
    fn no_other_interval_loses_noticeably_less() {
        for (cost, mean) in [(0.02, 3600.0), (0.2, 7200.0), (1.0, 86_400.0), (5.0, 40_000.0)] {
            let chosen = best(cost, mean);
            let of_chosen = expected(chosen, cost, mean) - 1.0;
            for times in [0.5, 0.8, 1.25, 2.0] {
                let other = expected(chosen * times, cost, mean) - 1.0;
                assert!(
                    of_chosen <= other * 1.001,
                    "{cost} {mean} {chosen} × {times}: {of_chosen} > {other}"
                );
            }
        }
    }

    #[test]
    fn checkpoints_never_cost_more_than_a_hundredth_and_are_made_once_an_hour() {
        assert_eq!(best(2.0, 60.0), 200.0);
        assert_eq!(best(0.0, 60.0), 1.0);
        assert_eq!(best(1.0, 1e12), 3600.0);
        assert_eq!(best(7200.0, 1.0), 7200.0);
    }
}
