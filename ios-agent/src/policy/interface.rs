//! What every policy implements. Pure.

use crate::decide::proposal::Proposal;
use crate::decide::tuning::Tuning;
use crate::decide::view::View;

/// Proposes changes of a job. The same view, tuning and draw give the same proposals.
pub trait Policy: Send + Sync {
    /// The name by which `--policy` chooses it.
    fn name(&self) -> &'static str;

    /// Changes that may be worth it; the judge decides. `draw` is a random number, new at each look.
    fn propose(&self, view: &View, tuning: &Tuning, draw: u64) -> Vec<Proposal>;
}
