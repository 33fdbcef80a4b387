//! The tree over a list of nodes along which orders and barriers travel: entry 0 is the root, entry `i` has the
//! children `4 i + 1 … 4 i + 4`. Pure arithmetic on positions.

use crate::peer::TREE_FANOUT;
use std::ops::Range;

/// Positions of the children of entry `index` in a list of `count` entries.
pub fn children(index: usize, count: usize) -> Range<usize> {
    let first = (index * TREE_FANOUT + 1).min(count);
    first..(first + TREE_FANOUT).min(count)
}

/// Position of the parent of entry `index`; the root has none.
pub fn parent(index: usize) -> Option<usize> {
    (index > 0).then(|| (index - 1) / TREE_FANOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_but_the_root_is_the_child_of_its_parent_and_of_no_other() {
        for count in 1..200 {
            let mut seen = vec![0; count];
            for index in 0..count {
                for child in children(index, count) {
                    seen[child] += 1;
                    assert_eq!(parent(child), Some(index));
                }
            }
            assert_eq!(seen[0], 0);
            assert!(seen[1..].iter().all(|times| *times == 1), "{count}: {seen:?}");
        }
    }
}
