//! What a program said of itself when it registered its data, and others have to know: processes that join it later,
//! and whoever changes its number of ranks.

use crate::rank_counts::RankCounts;
use serde::{Deserialize, Serialize};

/// Longest text of [`Registered::values`]: values that say how large data is are few and short, and every process that
/// joins gets the text in its environment.
pub const VALUES_BYTES_MAX: usize = 16 * 1024;

/// Said by rank 0 when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The values that it registered: a text that only the library reads.
    pub values: String,
    pub counts: RankCounts,
    /// Whether an array of its can be divided by shares.
    pub follows_shares: bool,
}

impl Registered {
    /// Whether it keeps the limits; what a rank sends need not.
    pub fn is_sound(&self) -> bool {
        self.values.len() <= VALUES_BYTES_MAX && self.counts.is_sound()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
