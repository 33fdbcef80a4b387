//! What goes from one process to another for one array: its pieces in the order of the stream. Never holds the bytes.

use super::chunk::{ChunkHeader, TransferId};
use super::region::Piece;
use super::runs::{ByteRun, LocalRuns};
use pcm_proto::ids::ProcessId;

/// All that goes from one process to another for one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    id: TransferId,
    peer: ProcessId,
    pieces: Vec<Piece>,
    /// Where each piece begins in the stream, and the end of the last.
    starts: Vec<u64>,
}

impl Transfer {
    pub(super) fn new(id: TransferId, peer: ProcessId, pieces: Vec<Piece>) -> Self {
        let mut starts = Vec::with_capacity(pieces.len() + 1);
        let mut at = 0;
        starts.push(0);
        for piece in &pieces {
            at += piece.bytes();
            starts.push(at);
        }
        Self {
            id,
            peer,
            pieces,
            starts,
        }
    }

    /// Its name, the same at both ends.
    pub fn id(&self) -> TransferId {
        self.id
    }

    /// The process at the other end.
    pub fn peer(&self) -> ProcessId {
        self.peer
    }

    /// Number of bytes; never 0.
    pub fn bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The pieces, in the order of the stream.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Where the sender has the bytes of a chunk, in the order of the stream.
    pub fn source_runs(&self, chunk: &ChunkHeader) -> impl Iterator<Item = ByteRun> + '_ {
        self.slice(chunk.offset, chunk.length, |piece| &piece.source)
    }

    /// Where the receiver puts the bytes of a chunk, in the order of the stream.
    pub fn target_runs(&self, chunk: &ChunkHeader) -> impl Iterator<Item = ByteRun> + '_ {
        self.slice(chunk.offset, chunk.length, |piece| &piece.target)
    }

    fn slice<'a>(
        &'a self,
        from: u64,
        length: u64,
        side: impl Fn(&'a Piece) -> &'a LocalRuns + 'a,
    ) -> impl Iterator<Item = ByteRun> + 'a {
        let to = from.saturating_add(length).min(self.bytes());
        let first = self.starts[1..].partition_point(|&end| end <= from);
        std::iter::zip(&self.pieces[first..], &self.starts[first..])
            .take_while(move |(_, start)| **start < to)
            .flat_map(move |(piece, start)| side(piece).slice(from.saturating_sub(*start), to - *start))
    }
}
