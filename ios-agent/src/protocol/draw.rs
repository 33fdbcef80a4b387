//! Random numbers from a seed (splitmix64): the same seed gives the same agent. Pure.

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            0
        } else {
            (self.number() % limit as u64) as usize
        }
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Up to `count` different items, each as likely as any other.
    pub fn some<'a, T>(&mut self, items: &[&'a T], count: usize) -> Vec<&'a T> {
        let mut left = items.to_vec();
        let mut chosen = Vec::with_capacity(count.min(left.len()));
        while chosen.len() < count && !left.is_empty() {
            chosen.push(left.swap_remove(self.below(left.len())));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_drawn_twice_and_everybody_may_be() {
        let mut draw = Draw::new(3);
        let items: Vec<u32> = (0..5).collect();
        let all: Vec<&u32> = items.iter().collect();
        let mut seen = [0; 5];
        for _ in 0..200 {
            let chosen = draw.some(&all, 2);
            assert!(chosen.len() == 2 && chosen[0] != chosen[1]);
            chosen.iter().for_each(|item| seen[**item as usize] += 1);
        }
        assert!(seen.iter().all(|count| *count > 40), "{seen:?}");
        assert_eq!(draw.some(&all, 9).len(), 5);
    }
}
