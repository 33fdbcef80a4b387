//! The part of a rank's page that records its calls while somebody traces the job, and what is sent of it.
//!
//! A ring: entry `i` of `n` that were written stands in slot `i % SLOTS`. The rank writes a slot with plain stores and
//! then `written` with `Release`; a reader loads `written` with `Acquire`, copies, and after an `Acquire` fence loads
//! it again: entries the rank may have begun to write over meanwhile are lost, and counted. Nobody waits for anybody.
//!
//! Recording ends by itself: the rank records only while its ticks are below `until`, which the daemon moves on as long
//! as somebody asks. So a trace whose reader was killed costs nothing after a few seconds.
//!
//! The slots are memory of the page, but a system that gives memory when it is first touched has none to give for ranks
//! that were never traced.

use crate::ids::{NodeName, ProcessId, Rank};
use crate::page::NOT_ONE;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// Entries a rank keeps: at 10,000 calls a second a reader may be late by 0.8 s.
pub const SLOTS: usize = 8192;

/// Function of an entry that marks the beginning of an iteration; its number stands in `bytes`.
pub const ITERATION: u16 = 0;

/// Function of an entry that tells how long the library held the program at the top of an iteration.
pub const HELD: u16 = u16::MAX;

const FUNCTION_BITS: u32 = 16;

/// Room for one entry.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Slot {
    begin: AtomicU64,
    ticks_function: AtomicU64,
    peer_tag: AtomicU64,
    bytes: AtomicU64,
}

/// See the file head.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Ring {
    /// For the daemon: the rank records while its ticks are below; 0 while nobody traces.
    pub until: AtomicU64,
    unused: [AtomicU64; 7],
    written: AtomicU64,
    unused_too: [AtomicU64; 7],
    slots: [Slot; SLOTS],
}

/// An entry, times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it began.
    pub begin: u64,
    /// How long it took.
    pub ticks: u64,
    /// The function's number, [`ITERATION`] or [`HELD`].
    pub function: u16,
    /// The peer above the tag, as [`crate::page::Call`] has them.
    pub peer_tag: u64,
    /// Bytes it was given to carry.
    pub bytes: u64,
}

/// What was read of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub entries: Vec<Entry>,
    /// Where to go on.
    pub next: u64,
    /// Entries before `next` that were written over.
    pub lost: u64,
    /// Whether more was there.
    pub has_more: bool,
}

impl Ring {
    /// For the rank: whether somebody may be tracing.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.until.load(Relaxed) != 0
    }

    /// For the rank: whether to record what ends now.
    #[inline]
    pub fn is_on(&self, now: u64) -> bool {
        now < self.until.load(Relaxed)
    }

    /// For the rank: records one entry.
    #[inline]
    pub fn write(&self, entry: &Entry) {
        let written = self.written.load(Relaxed);
        let slot = &self.slots[written as usize % SLOTS];
        // A reader that sees a store of this entry sees `written` of the one before, which says that the slot is in
        // use.
        fence(Release);
        slot.begin.store(entry.begin, Relaxed);
        slot.ticks_function
            .store(entry.ticks << FUNCTION_BITS | u64::from(entry.function), Relaxed);
        slot.peer_tag.store(entry.peer_tag, Relaxed);
        slot.bytes.store(entry.bytes, Relaxed);
        self.written.store(written.wrapping_add(1), Release);
    }

    /// Entries written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Up to `max` entries from number `from` on.
    pub fn read(&self, from: u64, max: usize) -> Read {
        let written = self.written();
        // The slot of the entry that is being written now holds none.
        let oldest = |written: u64| (written + 1).saturating_sub(SLOTS as u64);
        // A number beyond is of another process, or the application wrote nonsense.
        let first = if from > written {
            written
        } else {
            from.max(oldest(written))
        };
        let end = written.min(first + max as u64);
        let mut entries: Vec<Entry> = (first..end).map(|number| self.entry(number)).collect();
        fence(Acquire);
        let late = oldest(self.written.load(Relaxed)).saturating_sub(first);
        entries.drain(..entries.len().min(late as usize));
        Read {
            lost: (end - from.min(end)) - entries.len() as u64,
            entries,
            next: end,
            has_more: end < written,
        }
    }

    fn entry(&self, number: u64) -> Entry {
        let slot = &self.slots[number as usize % SLOTS];
        let word = slot.ticks_function.load(Relaxed);
        Entry {
            begin: slot.begin.load(Relaxed),
            ticks: word >> FUNCTION_BITS,
            function: word as u16,
            peer_tag: slot.peer_tag.load(Relaxed),
            bytes: slot.bytes.load(Relaxed),
        }
    }
}

/// An entry on its way to who traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// CLOCK_MONOTONIC of the node at its beginning.
    pub begin_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// The function's number, [`ITERATION`] or [`HELD`].
    pub function: u16,
    /// Rank in the job's communicator it sends to or receives from, or the root; [`NOT_ONE`] for none.
    pub peer: i32,
    /// Its tag; [`NOT_ONE`] for none.
    pub tag: i32,
    /// Bytes it was given to carry; of [`ITERATION`] its number.
    pub bytes: u64,
}

impl TraceEntry {
    /// The peer, if there is one.
    pub fn peer(&self) -> Option<i32> {
        (self.peer != NOT_ONE).then_some(self.peer)
    }

    /// The tag, if there is one.
    pub fn tag(&self) -> Option<i32> {
        (self.tag != NOT_ONE).then_some(self.tag)
    }
}

/// What one process recorded since it was asked last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceChunk {
    pub process: ProcessId,
    /// Its rank now.
    pub rank: Rank,
    pub node: NodeName,
    /// Where to go on.
    pub next: u64,
    /// Entries that were written over before anybody asked.
    pub lost: u64,
    /// Whether more was there than fits into an answer.
    pub has_more: bool,
    /// To be added to `begin_ns` for nanoseconds since 1970.
    pub epoch_offset_ns: i64,
    /// Names of the functions among the entries, without `MPI_`.
    pub names: Vec<(u16, String)>,
    pub entries: Vec<TraceEntry>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use zerocopy::FromZeros;

    fn entry(number: u64) -> Entry {
        Entry {
            begin: number,
            ticks: number,
            function: number as u16,
            peer_tag: number,
            bytes: number,
        }
    }

    #[test]
    fn entries_are_read_in_order_and_once() {
        let ring = Box::new(Ring::new_zeroed());
        (0..10).for_each(|number| ring.write(&entry(number)));
        let read = ring.read(0, 4);
        assert_eq!((read.next, read.lost, read.has_more), (4, 0, true));
        let read = ring.read(read.next, 100);
        assert_eq!(read.entries, (4..10).map(entry).collect::<Vec<_>>());
        assert_eq!((read.next, read.lost, read.has_more), (10, 0, false));
        assert!(ring.read(10, 100).entries.is_empty());
    }

    #[test]
    fn entries_that_were_written_over_are_counted_as_lost() {
        let ring = Box::new(Ring::new_zeroed());
        let all = SLOTS as u64 + 100;
        (0..all).for_each(|number| ring.write(&entry(number)));
        let read = ring.read(0, usize::MAX / 2);
        assert_eq!((read.next, read.lost), (all, 101));
        assert_eq!(read.entries.first().map(|first| first.begin), Some(101));
    }

    #[test]
    fn a_ring_records_only_below_its_limit() {
        let ring = Box::new(Ring::new_zeroed());
        assert!(!ring.is_wanted() && !ring.is_on(0));
        ring.until.store(100, Relaxed);
        assert!(ring.is_wanted() && ring.is_on(99) && !ring.is_on(100));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the readers and writers of shared memory are threads here"
    )]
    fn a_reader_never_takes_an_entry_that_is_being_written_over() {
        let ring = Box::new(Ring::new_zeroed());
        let is_enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The bound is minutes of work.
            scope.spawn(|| {
                for number in 0..1_000_000_000 {
                    if is_enough.load(Relaxed) {
                        return;
                    }
                    ring.write(&entry(number));
                }
            });
            let (mut from, mut taken) = (0, 0);
            while taken < 200_000 {
                let read = ring.read(from, 1000);
                for (place, got) in read.entries.iter().enumerate() {
                    let number = read.next - read.entries.len() as u64 + place as u64;
                    assert_eq!(*got, entry(number));
                }
                taken += read.entries.len();
                from = read.next;
            }
            is_enough.store(true, Relaxed);
        });
    }
}
