//! Whether every process can take part, asked before any data travels: a failure of one is then known to all while
//! nothing has to be taken back.
#![allow(unsafe_code, reason = "memory under way in MPI")]

use super::MoveError;
use crate::mpi::{Communicator, Request};

/// Nobody is against.
const NOBODY: u64 = u64::MAX;

/// A vote under way.
#[derive(Debug)]
pub(super) struct Vote {
    /// The own number, and the least of all: vectors, as their bytes stay where they are when the vote moves.
    numbers: [Vec<u64>; 2],
    request: Request,
    outcome: Option<u64>,
}

impl Vote {
    pub(super) fn begin(transfer: &Communicator, rank: u32, is_for: bool) -> Result<Self, MoveError> {
        let own = vec![if is_for { NOBODY } else { u64::from(rank) }];
        let mut least = vec![NOBODY];
        // SAFETY: both numbers stay where they are; they are forgotten if the request is not complete.
        let request = unsafe { transfer.iallreduce_min(&own[0], &mut least[0])? };
        Ok(Self {
            numbers: [own, least],
            request,
            outcome: None,
        })
    }

    /// Once all have voted: the lowest rank that is against, if any.
    pub(super) fn test(&mut self) -> Result<Option<Option<u32>>, MoveError> {
        if self.outcome.is_none() && self.request.test()?.is_some() {
            self.outcome = Some(self.numbers[1][0]);
        }
        Ok(self
            .outcome
            .map(|least| u32::try_from(least).ok().filter(|_| least != NOBODY)))
    }

    /// Leaves the memory of a vote that is not over to MPI, which may still write to it.
    pub(super) fn abandon(self) {
        if self.outcome.is_none() {
            std::mem::forget(self.numbers);
        }
    }
}
