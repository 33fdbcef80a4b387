//! How much a job may spend on changes: a part of its run time, what changes have really brought, and a little at once.
//! So a load that keeps turning against every decision costs a bounded part of the run. Pure.

use super::tuning::JudgeTuning;

/// Part of what changes have brought that may be spent again.
const REINVESTED: f64 = 0.5;

/// The account of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    spent_s: f64,
    gained_s: f64,
}

impl Budget {
    /// Takes note of what a change cost.
    pub fn spend(&mut self, cost_s: f64) {
        self.spent_s += cost_s.max(0.0);
    }

    /// Takes note of what a change brought; a loss takes from what there was.
    pub fn gain(&mut self, gained_s: f64) {
        self.gained_s = (self.gained_s + gained_s).max(0.0);
    }

    /// Whether a change at this price is affordable after `run_s` seconds of the job.
    pub fn allows(&self, tuning: &JudgeTuning, run_s: f64, cost_s: f64) -> bool {
        let means = tuning.spend_burst_s + tuning.spend * run_s + REINVESTED * self.gained_s;
        self.spent_s + cost_s <= means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_for_nothing_stays_a_small_part_of_the_run() {
        let tuning = JudgeTuning::default();
        let mut budget = Budget::default();
        let mut spent = 0.0;
        for second in 0..10_000 {
            while budget.allows(&tuning, f64::from(second), 0.2) {
                budget.spend(0.2);
                spent += 0.2;
            }
        }
        assert!(
            spent <= tuning.spend_burst_s + tuning.spend * 10_000.0 && spent > 100.0,
            "{spent}"
        );
    }

    #[test]
    fn what_a_change_brought_can_be_spent_again() {
        let tuning = JudgeTuning::default();
        let mut budget = Budget::default();
        budget.spend(1.0);
        assert!(!budget.allows(&tuning, 0.0, 4.0));
        budget.gain(10.0);
        assert!(budget.allows(&tuning, 0.0, 4.0));
        budget.gain(-100.0);
        assert!(!budget.allows(&tuning, 0.0, 0.1));
    }
}
