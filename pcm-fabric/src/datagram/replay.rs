//! Which packets of a session have been seen: a window over their numbers. Pure.

/// Packets that may overtake one another; a full window of packets on a fast network takes longer than any detour.
const WINDOW: u64 = 1024;
const WORDS: usize = 16;

/// The numbers seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    next: u64,
    bits: [u64; WORDS],
}

impl Seen {
    /// Notes a number; false when it was seen before or is too old to tell.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            let skipped = (number - self.next).min(WINDOW);
            for between in number - skipped..number {
                self.clear(between);
            }
            self.set(number);
            self.next = number.saturating_add(1);
            return true;
        }
        if self.next - number > WINDOW || self.is_set(number) {
            return false;
        }
        self.set(number);
        true
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.bits[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.bits[word] &= !bit;
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.bits[word] & bit != 0
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_passes_once_in_any_order() {
        let mut seen = Seen::default();
        let mut model = BTreeSet::new();
        let (mut state, mut top) = (7_u64, 0);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (top + (state >> 33) % 40).saturating_sub((state >> 50) % 30);
            top = top.max(number);
            assert_eq!(seen.insert(number), model.insert(number), "{number}");
        }
    }

    #[test]
    fn what_is_older_than_the_window_is_refused() {
        let mut seen = Seen::default();
        assert!(seen.insert(5000));
        assert!(seen.insert(5000 - WINDOW + 1));
        assert!(!seen.insert(5000 - WINDOW));
        assert!(seen.insert(50_000));
        assert!(!seen.insert(5001));
        assert!(seen.insert(u64::MAX - 1));
    }
}
