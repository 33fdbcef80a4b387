//! Random numbers of tests. They depend on nothing but a seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Repeatable random numbers (splitmix64).
#[derive(Debug)]
pub(super) struct Dice(AtomicU64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
