//! Compares what changes were predicted to bring with what they brought: how far predictions can be trusted, what a
//! change really costs, how long iterations take with other numbers of ranks, which directions failed. Pure.

use super::proposal::{Direction, Kind, Priced};
use super::tuning::{CostTuning, JudgeTuning};
use std::collections::BTreeMap;

/// Weight of the newest measurement.
const NEWEST: f64 = 0.5;

/// Predictions are never believed less than this, or a job would be stuck after a few bad ones.
const TRUST_MIN: f64 = 0.3;

/// Failed directions remembered, the soonest forgotten first.
const BLOCKS_MAX: usize = 64;

/// Looks over which the time after a change is measured.
const LOOKS: usize = 5;

/// A change whose effect is being measured.
#[derive(Clone, Debug, PartialEq)]
struct Trial {
    direction: Direction,
    before_ms: f64,
    predicted_ms: f64,
    is_forced: bool,
    ended_s: f64,
    after_ms: Vec<f64>,
}

/// What a finished trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// Time of an iteration saved, in milliseconds; negative when lost.
    pub saved_ms: f64,
    /// The part of the prediction that came true.
    pub achieved: f64,
    /// Whether that is too little.
    pub has_failed: bool,
}

/// What was learned about one job.
#[derive(Clone, Debug)]
pub struct Learning {
    trust: BTreeMap<Kind, f64>,
    trial: Option<Trial>,
    blocks: BTreeMap<Direction, f64>,
    fixed_cost_ms: f64,
    megabytes_per_s: f64,
    sizes: BTreeMap<usize, f64>,
}

/// Bytes from which on a change says something about the speed of moving data.
const TELLING_BYTES: f64 = 4e6;

impl Learning {
    /// Nothing learned yet.
    pub fn new(cost: &CostTuning) -> Self {
        Self {
            trust: BTreeMap::new(),
            trial: None,
            blocks: BTreeMap::new(),
            fixed_cost_ms: cost.fixed_ms,
            megabytes_per_s: cost.megabytes_per_s,
            sizes: BTreeMap::new(),
        }
    }

    /// The part of predictions of this kind that comes true.
    pub fn trust(&self, kind: Kind) -> f64 {
        self.trust.get(&kind).copied().unwrap_or(1.0)
    }

    /// Pause of a change without data.
    pub fn fixed_cost_ms(&self) -> f64 {
        self.fixed_cost_ms
    }

    /// Speed of moving data.
    pub fn megabytes_per_s(&self) -> f64 {
        self.megabytes_per_s
    }

    /// Times of an iteration by number of ranks.
    pub fn sizes(&self) -> &BTreeMap<usize, f64> {
        &self.sizes
    }

    /// Whether a direction failed a short time ago.
    pub fn is_blocked(&self, now_s: f64, direction: &Direction) -> bool {
        self.blocks.get(direction).is_some_and(|until| now_s < *until)
    }

    /// Whether a change is still being measured.
    pub fn is_measuring(&self) -> bool {
        self.trial.is_some()
    }

    /// A change was carried out: measure what it brings.
    pub fn begin(&mut self, now_s: f64, direction: Direction, priced: &Priced, size_before: usize) {
        self.sizes.insert(size_before, priced.now_ms);
        self.trial = Some(Trial {
            direction,
            before_ms: priced.now_ms,
            predicted_ms: priced.proposal.then_ms,
            is_forced: priced.proposal.is_forced,
            ended_s: now_s,
            after_ms: Vec::with_capacity(LOOKS),
        });
    }

    /// What a change really cost.
    pub fn on_cost(&mut self, pause_ms: f64, bytes: f64) {
        if bytes < TELLING_BYTES {
            self.fixed_cost_ms += NEWEST * (pause_ms - self.fixed_cost_ms);
            return;
        }
        let moving_s = (pause_ms - self.fixed_cost_ms).max(0.05 * pause_ms) / 1e3;
        let seen = bytes / 1e6 / moving_s.max(1e-6);
        self.megabytes_per_s += NEWEST * (seen - self.megabytes_per_s);
    }

    /// A direction could not be taken: it need not be tried again soon.
    pub fn block(&mut self, until_s: f64, direction: Direction) {
        self.blocks.insert(direction, until_s);
        while self.blocks.len() > BLOCKS_MAX {
            let soonest = self
                .blocks
                .iter()
                .min_by(|a, b| a.1.total_cmp(b.1))
                .map(|(direction, _)| direction.clone());
            let Some(soonest) = soonest else { return };
            self.blocks.remove(&soonest);
        }
    }

    /// Takes in how long iterations take now; answers once for each change, when enough was seen.
    pub fn observe(&mut self, now_s: f64, tuning: &JudgeTuning, iteration_ms: f64, size: usize) -> Option<Shown> {
        let trial = self.trial.as_mut()?;
        if now_s < trial.ended_s + tuning.settle_s {
            return None;
        }
        trial.after_ms.push(iteration_ms);
        if trial.after_ms.len() < LOOKS {
            return None;
        }
        let Trial {
            direction,
            before_ms,
            predicted_ms,
            is_forced,
            mut after_ms,
            ..
        } = self.trial.take()?;
        after_ms.sort_by(f64::total_cmp);
        let after_ms = after_ms[LOOKS / 2];
        self.sizes.insert(size, after_ms);
        let (predicted, saved_ms) = (before_ms - predicted_ms, before_ms - after_ms);
        if is_forced || predicted <= 0.0 {
            return Some(Shown {
                saved_ms,
                achieved: 1.0,
                has_failed: false,
            });
        }
        let achieved = saved_ms / predicted;
        let trust = self.trust.entry(direction.kind).or_insert(1.0);
        *trust = (*trust + NEWEST * (achieved.clamp(0.0, 1.2) - *trust)).clamp(TRUST_MIN, 1.0);
        let has_failed = achieved < tuning.achieved_min;
        if has_failed {
            self.block(now_s + tuning.block_s, direction);
        }
        Some(Shown {
            saved_ms,
            achieved,
            has_failed,
        })
    }

    /// What was measured with another number of ranks does not hold for ever: loads and data change.
    pub fn forget_size(&mut self, size: usize) {
        self.sizes.remove(&size);
    }
}
