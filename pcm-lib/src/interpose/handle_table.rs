//! What is known about MPI handles: a table from a handle to one number, read on every call without a lock.
//!
//! An entry stays where it is until its handle ends, and MPI forbids to use a handle while it is being freed. So a
//! reader that finds its own handle finds the number that belongs to it. A table that is full forgets nothing and
//! learns nothing: what it does not know is counted less exactly, never wrongly.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Steps from a handle's own slot to where it may stand at most.
const PROBES_MAX: usize = 16;
const EMPTY: u64 = u64::MAX;
const ENDED: u64 = u64::MAX - 1;

#[derive(Debug)]
struct Slot {
    handle: AtomicU64,
    value: AtomicU64,
}

/// See the file head.
#[derive(Debug)]
pub(super) struct HandleTable {
    slots: Box<[Slot]>,
    writers: Mutex<()>,
}

impl HandleTable {
    /// A table with `slots` places, a power of two.
    pub(super) fn new(slots: usize) -> Self {
        let slot = || Slot {
            handle: AtomicU64::new(EMPTY),
            value: AtomicU64::new(0),
        };
        Self {
            slots: (0..slots.next_power_of_two()).map(|_| slot()).collect(),
            writers: Mutex::new(()),
        }
    }

    #[inline]
    fn slot_for(&self, handle: u64) -> impl Iterator<Item = &Slot> {
        // The multiplication spreads handles that differ in few bits (Fibonacci hashing).
        let start = (handle.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..PROBES_MAX).map(move |step| &self.slots[(start + step) & (self.slots.len() - 1)])
    }

    #[inline]
    fn find(&self, handle: u64) -> Option<&Slot> {
        for slot in self.slot_for(handle) {
            match slot.handle.load(Acquire) {
                found if found == handle => return Some(slot),
                EMPTY => return None,
                _ => {}
            }
        }
        None
    }

    /// The number that belongs to a handle.
    #[inline]
    pub(super) fn value(&self, handle: u64) -> Option<u64> {
        self.find(handle).map(|slot| slot.value.load(Acquire))
    }

    /// Learns or changes a handle's number; returns the one it had. `None` also when the table has no room.
    pub(super) fn set(&self, handle: u64, value: u64) -> Option<u64> {
        let _writer = self.lock();
        if let Some(slot) = self.find(handle) {
            return Some(slot.value.swap(value, Release));
        }
        let free = self.slot_for(handle).find(|slot| slot.handle.load(Relaxed) >= ENDED)?;
        free.value.store(value, Relaxed);
        free.handle.store(handle, Release);
        None
    }

    /// Forgets a handle; returns the number it had.
    pub(super) fn remove(&self, handle: u64) -> Option<u64> {
        let _writer = self.lock();
        let slot = self.find(handle)?;
        slot.handle.store(ENDED, Release);
        Some(slot.value.load(Relaxed))
    }

    /// Sets every number to 0; returns those that were another.
    pub(super) fn values_clear(&self) -> Vec<u64> {
        let _writer = self.lock();
        let known = self.slots.iter().filter(|slot| slot.handle.load(Relaxed) < ENDED);
        known
            .map(|slot| slot.value.swap(0, Release))
            .filter(|value| *value != 0)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data of its own, so a poisoned one is as good.
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_keeps_its_number_until_it_ends() {
        let table = HandleTable::new(64);
        for handle in 0..40 {
            table.set(handle * 8, handle);
        }
        let known = (0..40)
            .filter(|handle| table.value(handle * 8) == Some(*handle))
            .count();
        assert_eq!(known, 40);
        assert_eq!(table.remove(80), Some(10));
        assert_eq!((table.value(80), table.remove(80)), (None, None));
        table.set(80, 99);
        assert_eq!((table.value(80), table.value(88)), (Some(99), Some(11)));
    }

    #[test]
    fn a_full_table_learns_nothing_and_forgets_nothing() {
        let table = HandleTable::new(PROBES_MAX);
        for handle in 0..100 {
            table.set(handle, handle + 1);
        }
        let known: Vec<u64> = (0..100).filter(|handle| table.value(*handle).is_some()).collect();
        assert_eq!(known, (0..PROBES_MAX as u64).collect::<Vec<_>>());
        assert!(known.iter().all(|handle| table.value(*handle) == Some(handle + 1)));
    }

    #[test]
    fn places_of_ended_handles_are_used_again() {
        let table = HandleTable::new(PROBES_MAX);
        for handle in 0..10_000 {
            table.set(handle, handle);
            assert_eq!(table.remove(handle), Some(handle));
        }
        table.set(7, 8);
        assert_eq!(table.value(7), Some(8));
    }
}
