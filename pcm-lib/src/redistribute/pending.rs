//! Messages under way and what each is for. Owns their buffers until MPI is done with them.

use super::MoveError;
use crate::mpi::{Completed, Received, Request, RequestSet};
use pcm_core::redistribution::ChunkHeader;

/// Messages of different kinds between the same two processes do not wait for each other.
pub(super) mod tag {
    /// Bytes of chunks; a message without bytes says that no more will come.
    pub(in super::super) const DATA: u32 = 1;
    /// Notes about chunks.
    pub(in super::super) const NOTE: u32 = 2;
    /// Lengths of opaque data.
    pub(in super::super) const LENGTHS: u32 = 3;
}

/// What a message is for. Buffers are vectors, as their bytes stay where they are when the owner moves.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A chunk that leaves, from its place or staged.
    Chunk { stream: usize, staged: Option<Vec<u8>> },
    /// A note that leaves.
    Note(#[allow(dead_code, reason = "owned until it has left")] Vec<u8>),
    /// A chunk that is to arrive.
    ChunkFrom {
        stream: usize,
        number: u64,
        header: ChunkHeader,
        staged: Option<Vec<u8>>,
    },
    /// A note about chunks that is to arrive.
    NoteFrom { stream: usize, buffer: Vec<u8> },
    /// A note about lengths that is to arrive.
    LengthsFrom { stream: usize, buffer: Vec<u8> },
}

/// All messages under way.
#[derive(Debug, Default)]
pub(super) struct Pending {
    set: RequestSet,
    purposes: Vec<Option<Purpose>>,
    completed: Vec<Completed>,
}

impl Pending {
    pub(super) fn add(&mut self, request: Request, purpose: Purpose) {
        let slot = self.set.add(request);
        if slot >= self.purposes.len() {
            self.purposes.resize_with(slot + 1, || None);
        }
        self.purposes[slot] = Some(purpose);
    }

    /// Number of messages under way.
    pub(super) fn count(&self) -> usize {
        self.set.active()
    }

    /// Hands over what is complete by now.
    pub(super) fn test(&mut self, done: &mut Vec<(Purpose, Received)>) -> Result<(), MoveError> {
        self.completed.clear();
        let outcome = self.set.test_some(&mut self.completed);
        for Completed { slot, received } in self.completed.drain(..) {
            if let Some(purpose) = self.purposes[slot].take() {
                done.push((purpose, received));
            }
        }
        outcome.map_err(MoveError::from)
    }

    /// Gives up receives that nothing will match; they complete as if nothing had arrived.
    pub(super) fn cancel(&mut self, is_meant: impl Fn(&Purpose) -> bool) -> Result<(), MoveError> {
        for (slot, purpose) in self.purposes.iter().enumerate() {
            if purpose.as_ref().is_some_and(&is_meant) {
                self.set.cancel(slot)?;
            }
        }
        Ok(())
    }

    /// Leaves the buffers to MPI, which may still use them.
    pub(super) fn abandon(&mut self) {
        self.purposes.drain(..).for_each(std::mem::forget);
    }
}
