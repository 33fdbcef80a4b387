//! Chooses the rank of each process after a reconfiguration so that as few bytes as possible (or as cheap ones) move.
//! Never decides who takes part: that is the plan of the reconfiguration.

mod assignment;
mod chain;
mod greedy;
mod order;
mod overlap;
#[cfg(test)]
mod properties;

pub use order::{Method, OrderError, Price, RANKS_EXACT_MAX, RankOrder, rank_order};
pub use overlap::{OVERLAP_ENTRIES_MAX, Overlap, OverlapError};
