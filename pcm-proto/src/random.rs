//! Numbers that look random and follow from a seed (splitmix64): for agents, simulations and tests. Never for keys.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed, the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    /// From `from` to before `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    /// The place of one of `count` items; 0 when there is none.
    pub fn index(&mut self, count: usize) -> usize {
        if count == 0 {
            0
        } else {
            self.below(count as u64) as usize
        }
    }

    /// From 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True in this share of all draws.
    pub fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of the items, unless there is none.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let chosen = (!items.is_empty()).then(|| self.index(items.len()));
        chosen.map(|chosen| items[chosen].clone())
    }

    /// Up to `count` different items, each as likely as any other.
    pub fn some<'a, T>(&mut self, items: &[&'a T], count: usize) -> Vec<&'a T> {
        let mut left = items.to_vec();
        let mut chosen = Vec::with_capacity(count.min(left.len()));
        while chosen.len() < count && !left.is_empty() {
            chosen.push(left.swap_remove(self.index(left.len())));
        }
        chosen
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

/// A bijection that spreads every bit over all others.
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_are_those_of_splitmix64() {
        let mut random = Random::new(0);
        let numbers = [(); 3].map(|()| random.number());
        assert_eq!(
            numbers,
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]
        );
    }

    #[test]
    fn no_item_is_chosen_twice_and_each_may_be() {
        let mut random = Random::new(3);
        let items: Vec<u32> = (0..5).collect();
        let all: Vec<&u32> = items.iter().collect();
        let mut seen = [0; 5];
        for _ in 0..200 {
            let chosen = random.some(&all, 2);
            assert!(chosen.len() == 2 && chosen[0] != chosen[1]);
            chosen.iter().for_each(|item| seen[**item as usize] += 1);
        }
        assert!(seen.iter().all(|count| *count > 40), "{seen:?}");
        assert_eq!(random.some(&all, 9).len(), 5);
    }
}
