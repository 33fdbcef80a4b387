//! The only source of chance in a simulation. Must never draw from anything but its seed.

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed, the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `from..to`.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from).max(1)
    }

    /// Evenly from `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % (count as u64).max(1)) as usize
    }

    /// True once in `1 / share` draws.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && ((self.next() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() {
            None
        } else {
            Some(items[self.below(items.len())].clone())
        }
    }
}
