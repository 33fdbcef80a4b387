//! The operations of a communicator in the order in which all its ranks call them, and the tags of each. Few tags are
//! there, so they come again: an operation waits for those of this rank that had its tags before. As messages between
//! two ranks do not overtake each other, one that was sent earlier is received earlier, too.

use std::collections::BTreeSet;
use std::os::raw::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tags of one operation.
const TAGS: u64 = 1 << 15;

/// The number of an operation on its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

/// How many operations may be under way, each with tags of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots(u64);

impl Slots {
    /// `highest` is the highest tag that MPI takes.
    pub(super) fn new(highest: c_int) -> Self {
        let tags = u64::try_from(highest).unwrap_or(0) + 1;
        Self((tags / TAGS).max(1))
    }

    /// The tag of a message of an operation; None where it has more messages than tags.
    pub(super) fn tag(self, turn: Turn, key: u32) -> Option<c_int> {
        let key = Some(u64::from(key)).filter(|key| *key < TAGS)?;
        c_int::try_from(turn.0 % self.0 * TAGS + key).ok()
    }
}

/// The operations of a communicator.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Those that are not over on this rank.
    open: BTreeSet<Turn>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next operation.
    pub(super) fn take(&self) -> Turn {
        let mut state = self.lock();
        let turn = Turn(state.next);
        state.next += 1;
        state.open.insert(turn);
        turn
    }

    /// Whether no earlier operation still uses the tags of this one.
    pub(super) fn may_begin(&self, turn: Turn, slots: Slots) -> bool {
        let state = self.lock();
        state.open.first().is_none_or(|first| first.0 + slots.0 > turn.0)
    }

    /// An operation is over on this rank.
    pub(super) fn over(&self, turn: Turn) {
        self.lock().open.remove(&turn);
    }
}

#[cfg(test)]
mod tests {
    use super::{Slots, Turns};

    #[test]
    fn an_operation_waits_for_the_one_that_has_its_tags() {
        let (turns, slots) = (Turns::default(), Slots::new(3 * 32_768 - 1));
        let all: Vec<_> = (0..5).map(|_| turns.take()).collect();
        let may = |turns: &Turns| all.iter().map(|turn| turns.may_begin(*turn, slots)).collect::<Vec<_>>();
        assert_eq!(may(&turns), [true, true, true, false, false]);
        turns.over(all[1]);
        assert_eq!(may(&turns), [true, true, true, false, false]);
        turns.over(all[0]);
        assert_eq!(may(&turns), [true, true, true, true, true]);
        assert_eq!(slots.tag(all[0], 7), slots.tag(all[3], 7));
        assert_ne!(slots.tag(all[0], 7), slots.tag(all[1], 7));
        assert_eq!(slots.tag(all[2], 32_767), Some(3 * 32_768 - 1));
        assert_eq!(slots.tag(all[0], 32_768), None);
    }

    /// The fewest tags that MPI may have are those of one operation.
    #[test]
    fn operations_go_one_after_the_other_where_tags_are_few() {
        let (turns, slots) = (Turns::default(), Slots::new(32_767));
        let (first, second) = (turns.take(), turns.take());
        assert!(turns.may_begin(first, slots) && !turns.may_begin(second, slots));
        turns.over(first);
        assert!(turns.may_begin(second, slots));
    }
}
