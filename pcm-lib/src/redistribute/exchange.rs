//! All messages of one move: posts what may be posted, takes what has come. Never waits and never decides.

use super::{
    MoveError,
    inbound::Inbound,
    outbound::Outbound,
    pending::{Pending, Purpose},
};
use crate::mpi::{Received, Transport};
use pcm_proto::reconfiguration::Tally;

/// Both directions of a move.
#[derive(Debug)]
pub(super) struct Exchange {
    outbound: Outbound,
    inbound: Inbound,
    pending: Pending,
    done: Vec<(Purpose, Received)>,
}

impl Exchange {
    pub(super) fn new(outbound: Outbound, inbound: Inbound) -> Self {
        Self {
            outbound,
            inbound,
            pending: Pending::default(),
            done: Vec::new(),
        }
    }

    /// Goes on as far as possible without waiting; says whether anything happened. After an error everything that had
    /// come was taken all the same.
    pub(super) fn step(&mut self, transfer: &dyn Transport) -> Result<bool, MoveError> {
        // Receives first: a message that finds its place costs no copy.
        let mut has_happened = self.inbound.post(transfer, &mut self.pending)?;
        has_happened |= self.outbound.post(transfer, &mut self.pending)?;
        let mut outcome = self.pending.test(&mut self.done);
        has_happened |= !self.done.is_empty();
        for (purpose, received) in self.done.drain(..) {
            let taken = match purpose {
                Purpose::Chunk { stream, staged } => {
                    self.outbound.on_sent(stream, staged);
                    Ok(())
                }
                Purpose::Note(_) => Ok(()),
                Purpose::ChunkFrom {
                    stream,
                    number,
                    header,
                    staged,
                } => self.inbound.on_chunk(stream, number, header, staged, received),
                Purpose::NoteFrom { stream, buffer } => self.inbound.on_note(stream, &buffer, received),
                Purpose::LengthsFrom { stream, buffer } => self.inbound.on_lengths(stream, &buffer, received),
            };
            outcome = outcome.and(taken);
        }
        outcome.map(|()| has_happened)
    }

    /// Whether everything has left and everything has come.
    pub(super) fn is_complete(&self) -> bool {
        self.outbound.is_complete() && self.inbound.is_complete() && self.pending.count() == 0
    }

    /// What left and what came.
    pub(super) fn tallies(&self) -> (Tally, Tally) {
        (self.outbound.tally(), self.inbound.tally())
    }

    /// Sends no more, and forgets what still comes.
    pub(super) fn stop(&mut self, transfer: &dyn Transport) -> Result<(), MoveError> {
        self.inbound.drain();
        self.outbound.stop(transfer, &mut self.pending)
    }

    /// After [`Exchange::stop`]: as [`Exchange::step`].
    pub(super) fn drain(&mut self, transfer: &dyn Transport) -> Result<bool, MoveError> {
        self.inbound.cancel_stopped(&mut self.pending)?;
        self.step(transfer)
    }

    /// Number of messages under way.
    pub(super) fn under_way(&self) -> usize {
        self.pending.count()
    }

    /// Leaves to MPI all memory that messages under way may still use: the buffers, and what the legs hold.
    pub(super) fn abandon(mut self) {
        self.pending.abandon();
        std::mem::forget(self);
    }

    /// What arrived as opaque data.
    pub(super) fn into_inbound(self) -> Inbound {
        self.inbound
    }
}
