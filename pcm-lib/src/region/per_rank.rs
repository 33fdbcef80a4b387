//! A per-rank value: each rank has its own; it moves with its rank, and hooks of the application decide what becomes
//! of the values of ranks that end and what ranks that are new begin with.

use super::{HookFailed, Value};
use std::fmt;

/// Adds the value of a rank that is no more to the value of the rank that takes its place.
pub type Merge = dyn FnMut(&mut [u8], &[u8]) -> Result<(), HookFailed>;

/// Cuts a share for a new rank off a value; the number says how many ranks are still to get one, this one included.
pub type Split = dyn FnMut(&mut [u8], &mut [u8], u32) -> Result<(), HookFailed>;

/// What to do when the number of ranks changes.
#[derive(Default)]
pub struct PerRankHooks {
    /// None: a job that registered it cannot shrink, as the value of an ending rank would be lost.
    pub merge: Option<Box<Merge>>,
    /// None: a new rank keeps the value it registered.
    pub split: Option<Box<Split>>,
}

impl fmt::Debug for PerRankHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRankHooks")
            .field("merge", &self.merge.is_some())
            .field("split", &self.split.is_some())
            .finish()
    }
}

/// A registered per-rank value.
#[derive(Debug)]
pub struct PerRankRegion {
    pub value: Value,
    pub hooks: PerRankHooks,
}
