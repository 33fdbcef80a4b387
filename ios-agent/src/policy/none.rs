//! The policy that never changes anything. Pure.

use super::interface::Policy;
use crate::decide::proposal::Proposal;
use crate::decide::tuning::Tuning;
use crate::decide::view::View;

/// Leaves every job as it is.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Policy for Nothing {
    fn name(&self) -> &'static str {
        "none"
    }

    fn propose(&self, _: &View, _: &Tuning, _: u64) -> Vec<Proposal> {
        Vec::new()
    }
}
