//! The part of a rank's page from which a stuck job can be explained: the last messages it sent, the last collective
//! operations it began, and which ranks its communicators have. The layout only; nothing here waits or does I/O.
//!
//! The rank writes, with plain stores; the daemon reads. Every list is a ring: entry `i` of `n` that were written
//! stands in slot `i % length`. An entry is written just after the word of its call (see [`crate::page`]), so of a rank
//! that is seen twice in the same call the second look is whole. A rank that is not held up may be read torn; nothing
//! may be concluded from such a look, and nothing is, because its number of calls grows.
//!
//! # Identity of a communicator
//!
//! Handles differ between processes. An identity is made of what all members know without asking each other: the ranks
//! of the job that are in it, and how many communicators of the same ranks were made before it. [`JOB`] is the job's
//! own; 0 stands for one whose ranks are not known (it reaches outside of the job, or was made in the background).

use crate::job::RANKS_MAX;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// Identity of the job's own communicator.
pub const JOB: u64 = 1;
/// Collectives kept: a rank that is not synchronised with its mates (a root that broadcasts) runs ahead of them until
/// MPI's own buffers are full, which is sooner as a rule.
pub const COLLECTIVES_MAX: usize = 64;
pub const SENDS_MAX: usize = 32;
/// Communicators kept; a program with more of them is explained by those it made last.
pub const COMMUNICATORS_MAX: usize = 16;

const MEMBER_WORDS: usize = RANKS_MAX as usize / 64;
const FUNCTION_BITS: u32 = 16;

/// One collective operation that was begun.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
struct CollectiveSlot {
    communicator: AtomicU64,
    /// Its number on that communicator, from 1, above the function's number.
    sequence_function: AtomicU64,
    root: AtomicU64,
    bytes: AtomicU64,
}

/// One message that was sent.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
struct SendSlot {
    communicator: AtomicU64,
    peer_tag: AtomicU64,
    bytes: AtomicU64,
}

/// The ranks of one communicator, a bit for each rank of the job.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Members {
    identity: AtomicU64,
    ranks: [AtomicU64; MEMBER_WORDS],
}

/// See the file head.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Record {
    collectives_begun: AtomicU64,
    sends_begun: AtomicU64,
    communicators_made: AtomicU64,
    /// Receives posted that take a message from anybody.
    pub from_anybody: AtomicU64,
    unused: [AtomicU64; 4],
    collectives: [CollectiveSlot; COLLECTIVES_MAX],
    sends: [SendSlot; SENDS_MAX],
    communicators: [Members; COMMUNICATORS_MAX],
}

/// A collective operation as a reader saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveSeen {
    /// The communicator's identity.
    pub communicator: u64,
    /// Its number on that communicator, from 1.
    pub sequence: u64,
    /// The function's number, for [`crate::page::Page::function_name`].
    pub function: u16,
    /// Rank of its root in the job, [`crate::page::NOT_ONE`] where it has none.
    pub root: i32,
    /// Bytes this rank was to give or take.
    pub bytes: u64,
}

/// A message as a reader saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendSeen {
    /// The communicator's identity.
    pub communicator: u64,
    /// Rank in the job it goes to.
    pub peer: i32,
    pub tag: i32,
    pub bytes: u64,
}

impl Record {
    /// For the rank: it begins a collective operation.
    #[inline]
    pub fn collective_begun(&self, seen: &CollectiveSeen) {
        let begun = self.collectives_begun.load(Relaxed);
        let slot = &self.collectives[begun as usize % COLLECTIVES_MAX];
        slot.communicator.store(seen.communicator, Relaxed);
        slot.sequence_function
            .store(seen.sequence << FUNCTION_BITS | u64::from(seen.function), Relaxed);
        slot.root.store(u64::from(seen.root as u32), Relaxed);
        slot.bytes.store(seen.bytes, Relaxed);
        self.collectives_begun.store(begun + 1, Release);
    }

    /// For the rank: it begins to send a message.
    #[inline]
    pub fn send_begun(&self, seen: &SendSeen) {
        let begun = self.sends_begun.load(Relaxed);
        let slot = &self.sends[begun as usize % SENDS_MAX];
        slot.communicator.store(seen.communicator, Relaxed);
        slot.peer_tag
            .store(u64::from(seen.peer as u32) << 32 | u64::from(seen.tag as u32), Relaxed);
        slot.bytes.store(seen.bytes, Relaxed);
        self.sends_begun.store(begun + 1, Release);
    }

    /// For the rank: it has a communicator of these ranks of the job.
    pub fn communicator_made(&self, identity: u64, ranks: &[i32]) {
        let made = self.communicators_made.load(Relaxed);
        let slot = &self.communicators[made as usize % COMMUNICATORS_MAX];
        slot.identity.store(0, Relaxed);
        let mut words = [0_u64; MEMBER_WORDS];
        for rank in ranks.iter().filter_map(|rank| usize::try_from(*rank).ok()) {
            if let Some(word) = words.get_mut(rank / 64) {
                *word |= 1 << (rank % 64);
            }
        }
        for (word, value) in slot.ranks.iter().zip(words) {
            word.store(value, Relaxed);
        }
        slot.identity.store(identity, Release);
        self.communicators_made.store(made + 1, Release);
    }

    /// For the rank: the job has another communicator, all that was before means nothing any more.
    pub fn clear(&self) {
        for slot in &self.collectives {
            slot.communicator.store(0, Relaxed);
        }
        for slot in &self.communicators {
            slot.identity.store(0, Relaxed);
        }
        for count in [
            &self.collectives_begun,
            &self.sends_begun,
            &self.communicators_made,
            &self.from_anybody,
        ] {
            count.store(0, Release);
        }
    }

    /// The collectives kept, oldest first.
    pub fn collectives(&self) -> Vec<CollectiveSeen> {
        let slots = newest(self.collectives_begun.load(Relaxed), COLLECTIVES_MAX);
        let seen = slots.map(|slot| &self.collectives[slot]).map(|slot| {
            let word = slot.sequence_function.load(Relaxed);
            CollectiveSeen {
                communicator: slot.communicator.load(Relaxed),
                sequence: word >> FUNCTION_BITS,
                function: word as u16,
                root: slot.root.load(Relaxed) as u32 as i32,
                bytes: slot.bytes.load(Relaxed),
            }
        });
        seen.filter(|seen| seen.communicator != 0).collect()
    }

    /// The messages kept, oldest first.
    pub fn sends(&self) -> Vec<SendSeen> {
        let slots = newest(self.sends_begun.load(Relaxed), SENDS_MAX);
        let seen = slots.map(|slot| &self.sends[slot]).map(|slot| {
            let peer_tag = slot.peer_tag.load(Relaxed);
            SendSeen {
                communicator: slot.communicator.load(Relaxed),
                peer: (peer_tag >> 32) as u32 as i32,
                tag: peer_tag as u32 as i32,
                bytes: slot.bytes.load(Relaxed),
            }
        });
        seen.collect()
    }

    /// The communicators kept with their ranks in the job.
    pub fn communicators(&self) -> Vec<(u64, Vec<u32>)> {
        let slots = newest(self.communicators_made.load(Relaxed), COMMUNICATORS_MAX);
        let seen = slots.map(|slot| &self.communicators[slot]).map(|slot| {
            let words = slot.ranks.iter().map(|word| word.load(Relaxed));
            let ranks = words.zip(0_u32..).flat_map(|(word, place)| {
                (0..64).filter_map(move |bit| (word >> bit & 1 == 1).then_some(place * 64 + bit))
            });
            (slot.identity.load(Relaxed), ranks.collect())
        });
        seen.filter(|(identity, _)| *identity != 0).collect()
    }
}

/// Slots of the newest entries, oldest first.
fn newest(written: u64, length: usize) -> impl Iterator<Item = usize> {
    let oldest = written.saturating_sub(length as u64);
    (oldest..written).map(move |number| number as usize % length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn collective(sequence: u64) -> CollectiveSeen {
        CollectiveSeen {
            communicator: JOB,
            sequence,
            function: 9,
            root: -3,
            bytes: 80,
        }
    }

    #[test]
    fn a_ring_keeps_the_newest_in_order() {
        let record = Record::new_zeroed();
        for sequence in 1..=100 {
            record.collective_begun(&collective(sequence));
        }
        let seen = record.collectives();
        assert_eq!(seen.len(), COLLECTIVES_MAX);
        assert_eq!((seen[0], seen[63]), (collective(37), collective(100)));
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let record = Record::new_zeroed();
        let seen = SendSeen {
            communicator: 77,
            peer: 4095,
            tag: -2,
            bytes: 1 << 40,
        };
        record.send_begun(&seen);
        assert_eq!(record.sends(), [seen]);
    }

    #[test]
    fn ranks_of_a_communicator_are_those_it_was_made_of() {
        let record = Record::new_zeroed();
        record.communicator_made(5, &[0, 63, 64, 4095, 4096, -1]);
        assert_eq!(record.communicators(), [(5, vec![0, 63, 64, 4095])]);
        record.clear();
        assert!(record.communicators().is_empty());
    }
}
