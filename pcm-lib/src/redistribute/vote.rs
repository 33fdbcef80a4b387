//! Whether every process can take part, asked before any data travels: a failure of one is then known to all while
//! nothing has to be taken back.
#![allow(unsafe_code, reason = "memory under way in MPI")]

use super::MoveError;
use crate::mpi::{Request, Transport, are_complete};

/// For it, and has all constant data that it needs.
const HAS_ALL: u64 = u64::MAX;
/// For it, but constant data must still travel.
const FOR: u64 = u64::MAX - 1;

/// What a process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// It cannot take part.
    Against,
    /// It takes part.
    For,
    /// It takes part, and needs no constant data any more.
    HasAll,
}

/// What all said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This rank, the lowest of those, cannot take part.
    Against(u32),
    /// All take part.
    For,
    /// All take part, and nobody needs constant data any more.
    HaveAll,
}

/// A vote under way.
#[derive(Debug)]
pub(super) struct Vote {
    /// The own number, and the least of each side: boxed, as they stay where they are when the vote moves.
    numbers: (Box<u64>, Box<[u64; 2]>),
    requests: Vec<Request>,
    outcome: Option<u64>,
}

impl Vote {
    pub(super) fn begin(transfer: &dyn Transport, rank: u32, voice: Voice) -> Result<Self, MoveError> {
        let own = Box::new(match voice {
            Voice::Against => u64::from(rank),
            Voice::For => FOR,
            Voice::HasAll => HAS_ALL,
        });
        let mut least = Box::new([HAS_ALL; 2]);
        // SAFETY: both numbers stay where they are; they are forgotten if the request is not complete.
        let requests = unsafe { transfer.iallreduce_min(&own, &mut least)? };
        Ok(Self {
            numbers: (own, least),
            requests,
            outcome: None,
        })
    }

    /// Once all have voted, the verdict.
    pub(super) fn test(&mut self) -> Result<Option<Verdict>, MoveError> {
        if self.outcome.is_none() && are_complete(&mut self.requests)? {
            let [one, other] = *self.numbers.1;
            self.outcome = Some(one.min(other));
        }
        Ok(self.outcome.map(|least| match u32::try_from(least) {
            Ok(rank) => Verdict::Against(rank),
            Err(_) if least == HAS_ALL => Verdict::HaveAll,
            Err(_) => Verdict::For,
        }))
    }

    /// Leaves the memory of a vote that is not over to MPI, which may still write to it.
    pub(super) fn abandon(self) {
        if self.outcome.is_none() {
            std::mem::forget(self.numbers);
        }
    }
}
