//! The part of a rank's page that counts its messages on communicators other than the job's own: a row for each
//! communicator and peer. What the job's own communicator carried is the rest of the rows by peer
//! ([`crate::page::Peer`]), so that messages on it cost nothing more. The layout only; nothing here waits or does I/O.
//!
//! A hash table. A row is claimed by exchanging `EMPTY` or `VACATED` for `CLAIMED` and shown by storing its
//! communicator last; two threads that claim rows for the same key both keep theirs, and a reader adds them up. A
//! communicator that ends leaves its counts to [`ENDED`]. What finds no row is counted in `left_out`.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// Stands for all communicators that were freed.
pub const ENDED: u64 = 2;
/// Stands for all communicators whose ranks are not known.
pub const UNKNOWN: u64 = 3;

/// Rows of a rank: 64 peers on each of 16 communicators.
pub const ROWS: usize = 1024;

/// Steps from a key's own row to where it may stand at most.
const PROBES_MAX: usize = 16;
const EMPTY: u64 = 0;
const VACATED: u64 = u64::MAX;
const CLAIMED: u64 = u64::MAX - 1;

/// Messages with one peer on one communicator.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Row {
    communicator: AtomicU64,
    peer: AtomicU64,
    /// Messages sent to it.
    pub messages_sent: AtomicU64,
    /// Bytes sent to it.
    pub bytes_sent: AtomicU64,
    /// Receives posted that name it; where it stands for anybody, those that take from anybody.
    pub receives_posted: AtomicU64,
}

/// See the file head.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct OtherCommunicators {
    claimed: AtomicU64,
    /// Messages and receives that found no row.
    pub left_out: AtomicU64,
    unused: [AtomicU64; 6],
    rows: [Row; ROWS],
}

/// A row as a reader saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSeen {
    /// The communicator's identity, [`ENDED`] or [`UNKNOWN`].
    pub communicator: u64,
    /// Rank in the job, or [`crate::page::ANY`].
    pub peer: i32,
    /// Messages sent to it.
    pub messages_sent: u64,
    /// Bytes sent to it.
    pub bytes_sent: u64,
    /// Receives posted for it.
    pub receives_posted: u64,
}

impl Row {
    fn is_of(&self, communicator: u64, peer: i32) -> bool {
        self.communicator.load(Acquire) == communicator && self.peer.load(Relaxed) == u64::from(peer as u32)
    }

    fn counts(&self) -> [&AtomicU64; 3] {
        [&self.messages_sent, &self.bytes_sent, &self.receives_posted]
    }

    fn clear(&self, communicator: u64) {
        self.counts().into_iter().for_each(|count| count.store(0, Relaxed));
        self.communicator.store(communicator, Release);
    }
}

impl OtherCommunicators {
    /// For the rank: the row of a peer on a communicator, made if there is none yet.
    pub fn row(&self, communicator: u64, peer: i32) -> Option<&Row> {
        let found = self.places(communicator, peer).find_map(|row| {
            let is_end = row.communicator.load(Relaxed) == EMPTY;
            (is_end || row.is_of(communicator, peer)).then_some((row, is_end))
        });
        match found {
            Some((row, false)) => Some(row),
            _ => self.claim(communicator, peer),
        }
    }

    fn places(&self, communicator: u64, peer: i32) -> impl Iterator<Item = &Row> {
        // The multiplication spreads keys that differ in few bits (Fibonacci hashing).
        let key = communicator ^ u64::from(peer as u32);
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..PROBES_MAX).map(move |step| &self.rows[(start + step) % ROWS])
    }

    fn claim(&self, communicator: u64, peer: i32) -> Option<&Row> {
        let claims = |row: &&Row, old| {
            let claimed = row.communicator.compare_exchange(old, CLAIMED, AcqRel, Relaxed);
            claimed.is_ok()
        };
        let mut places = self.places(communicator, peer);
        let Some(row) = places.find(|row| claims(row, EMPTY) || claims(row, VACATED)) else {
            self.left_out.fetch_add(1, Relaxed);
            return None;
        };
        self.claimed.fetch_add(1, Relaxed);
        row.peer.store(u64::from(peer as u32), Relaxed);
        row.communicator.store(communicator, Release);
        Some(row)
    }

    /// For the rank: a communicator is freed.
    pub fn ended(&self, communicator: u64) {
        if self.claimed.load(Relaxed) == 0 {
            return;
        }
        let own = self.rows.iter();
        for row in own.filter(|row| row.communicator.load(Acquire) == communicator) {
            let peer = row.peer.load(Relaxed) as u32 as i32;
            if let Some(ended) = self.row(ENDED, peer) {
                for (sum, count) in ended.counts().into_iter().zip(row.counts()) {
                    sum.fetch_add(count.load(Relaxed), Relaxed);
                }
            }
            row.clear(VACATED);
        }
    }

    /// For the rank: nothing was counted yet.
    pub fn clear(&self) {
        if self.claimed.swap(0, Relaxed) != 0 {
            self.rows.iter().for_each(|row| row.clear(EMPTY));
        }
        self.left_out.store(0, Relaxed);
    }

    /// All rows, in no order.
    pub fn seen(&self) -> Vec<RowSeen> {
        if self.claimed.load(Relaxed) == 0 {
            return Vec::new();
        }
        let shown = self.rows.iter().filter_map(|row| {
            let communicator = row.communicator.load(Acquire);
            let is_shown = !matches!(communicator, EMPTY | VACATED | CLAIMED);
            is_shown.then(|| RowSeen {
                communicator,
                peer: row.peer.load(Relaxed) as u32 as i32,
                messages_sent: row.messages_sent.load(Relaxed),
                bytes_sent: row.bytes_sent.load(Relaxed),
                receives_posted: row.receives_posted.load(Relaxed),
            })
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn send(others: &OtherCommunicators, communicator: u64, peer: i32, bytes: u64) {
        if let Some(row) = others.row(communicator, peer) {
            row.messages_sent.fetch_add(1, Relaxed);
            row.bytes_sent.fetch_add(bytes, Relaxed);
        }
    }

    #[test]
    fn messages_are_counted_by_communicator_and_peer() {
        let others = OtherCommunicators::new_zeroed();
        assert!(others.seen().is_empty());
        for (communicator, peer) in [(70, 1), (70, 1), (70, 2), (71, 1)] {
            send(&others, communicator, peer, 10);
        }
        let mut seen = others.seen();
        seen.sort_by_key(|row| (row.communicator, row.peer));
        let sums: Vec<_> = seen
            .iter()
            .map(|row| (row.communicator, row.peer, row.bytes_sent))
            .collect();
        assert_eq!(sums, [(70, 1, 20), (70, 2, 10), (71, 1, 10)]);
        others.clear();
        assert!(others.seen().is_empty());
    }

    #[test]
    fn a_program_that_makes_and_frees_communicators_for_ever_needs_no_more_rows() {
        let others = OtherCommunicators::new_zeroed();
        for communicator in 1_000..100_000 {
            send(&others, communicator, 3, 1);
            others.ended(communicator);
        }
        let seen = others.seen();
        assert_eq!(
            (seen.len(), seen[0].communicator, seen[0].messages_sent),
            (1, ENDED, 99_000)
        );
        assert_eq!(others.left_out.load(Relaxed), 0);
    }

    #[test]
    fn what_finds_no_row_is_said() {
        let others = OtherCommunicators::new_zeroed();
        for peer in 0..5_000 {
            send(&others, 70, peer, 1);
        }
        let left_out = others.left_out.load(Relaxed);
        assert!(left_out > 0);
        let counted: u64 = others.seen().iter().map(|row| row.messages_sent).sum();
        assert_eq!(counted + left_out, 5_000);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the readers and writers of shared memory are threads here"
    )]
    fn threads_that_send_at_once_lose_no_message() {
        let others = OtherCommunicators::new_zeroed();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|number| send(&others, 70 + number % 7, (number % 5) as i32, 1)));
            }
        });
        let counted: u64 = others.seen().iter().map(|row| row.messages_sent).sum();
        assert_eq!(counted, 40_000);
    }
}
