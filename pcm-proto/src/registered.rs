//! What a program said of itself when it registered its data, and others have to know: processes that join it later,
//! and whoever changes its number of ranks.

use crate::rank_counts::RankCounts;
use serde::{Deserialize, Serialize};

/// Longest text of [`Registered::values`]: values that say how large data is are few and short, and every process that
/// joins gets the text in its environment.
pub const VALUES_BYTES_MAX: usize = 16 * 1024;

/// Most of [`Registered::shared_extents`]: what moves a short one mostly moves a longer one, too.
pub const SHARED_EXTENTS_MAX: usize = 64;

/// The longest extent. An array that the program itself divides unequally counts as that long, so that every other
/// division moves data: how it is divided now is known to its ranks only.
pub const EXTENT_MAX: u64 = i64::MAX as u64;

/// Said by rank 0 when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The values that it registered: a text that only the library reads.
    pub values: String,
    pub counts: RankCounts,
    /// The extents that shares can divide, each once, the longest first: one of each array that follows shares.
    pub shared_extents: Vec<u64>,
    /// Whether it has begun to iterate under the library, so that its number of ranks may change.
    pub has_begun: bool,
    /// Whether it has custom data. What a checkpoint in memory has of that is packed for as many ranks as made it.
    pub has_custom: bool,
}

impl Registered {
    /// Whether it keeps the limits; what a rank sends need not.
    pub fn is_sound(&self) -> bool {
        let extents = &self.shared_extents;
        let has_sound_extents = extents.len() <= SHARED_EXTENTS_MAX && extents.iter().all(|one| *one <= EXTENT_MAX);
        self.values.len() <= VALUES_BYTES_MAX && self.counts.is_sound() && has_sound_extents
    }

    /// Whether an array of its can be divided by shares.
    pub fn follows_shares(&self) -> bool {
        !self.shared_extents.is_empty()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
