//! What happens next: an order of time, and of arrival where the time is the same.

use super::happening::Happening;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

struct Entry {
    at: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The clock of a history, in microseconds, and everything that is still to happen.
#[derive(Default)]
pub(super) struct Queue {
    now: u64,
    order: u64,
    heap: BinaryHeap<Reverse<Entry>>,
}

impl Queue {
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn after(&mut self, span: u64, what: Happening) {
        self.at(self.now + span, what);
    }

    pub(super) fn at(&mut self, at: u64, what: Happening) {
        self.order += 1;
        let at = at.max(self.now);
        self.heap.push(Reverse(Entry {
            at,
            order: self.order,
            what,
        }));
    }

    /// Goes on to the next that happens.
    pub(super) fn pop(&mut self) -> Option<Happening> {
        let Reverse(Entry { at, what, .. }) = self.heap.pop()?;
        self.now = at;
        Some(what)
    }
}
