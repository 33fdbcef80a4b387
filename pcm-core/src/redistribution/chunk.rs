//! Transfers cut into chunks that carry enough to be received in any order. Owns the header and its bytes. Never
//! computes checksums and never knows epochs: the executor frames the header together with those.

use pcm_proto::ids::{Rank, RegionId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Length of an encoded header.
pub const CHUNK_HEADER_BYTES: usize = 40;

/// What a transfer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TransferKind {
    /// Cells of an array that change their owner.
    Cells,
    /// Copies of cells for the halo of another part.
    Halo,
    /// Opaque bytes: replicated data, a rank's values, what a pack hook made.
    Parcel,
}

/// Names a transfer of one region; both ends find the same one without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransferId {
    /// What it carries.
    pub kind: TransferKind,
    /// The sender's rank before the change.
    pub from: Rank,
    /// The receiver's rank after the change.
    pub to: Rank,
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TransferKind::Cells => "cells",
            TransferKind::Halo => "halo",
            TransferKind::Parcel => "parcel",
        };
        write!(f, "{kind} from old rank {} to new rank {}", self.from, self.to)
    }
}

/// What precedes the bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkHeader {
    /// The region the transfer belongs to.
    pub region: RegionId,
    pub transfer: TransferId,
    /// Bytes of the whole transfer, which a receiver of opaque data learns from here.
    pub total: u64,
    /// Where the chunk begins in the transfer's stream.
    pub offset: u64,
    /// Bytes of the chunk; 0 only where the whole transfer is empty.
    pub length: u64,
}

/// Why bytes are no chunk header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The transfer kind is none of the known ones.
    #[error("chunk of unknown kind {kind}; the sender is of another version")]
    UnknownKind {
        /// The byte found.
        kind: u8,
    },
    /// The chunk reaches beyond the end of its transfer, or is empty although the transfer is not.
    #[error("chunk of {length} bytes at {offset} does not fit its transfer of {total} bytes")]
    OutOfBounds {
        /// Where it begins.
        offset: u64,
        length: u64,
        /// Bytes of the transfer.
        total: u64,
    },
}

impl ChunkHeader {
    /// The header's bytes, little-endian.
    pub fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let kind = match self.transfer.kind {
            TransferKind::Cells => 0u32,
            TransferKind::Halo => 1,
            TransferKind::Parcel => 2,
        };
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        let words = [kind, self.region.0, self.transfer.from.0, self.transfer.to.0];
        let longs = [self.total, self.offset, self.length];
        for (to, word) in bytes[..16].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (to, long) in bytes[16..].chunks_exact_mut(8).zip(longs) {
            to.copy_from_slice(&long.to_le_bytes());
        }
        bytes
    }

    /// Reads and checks a header.
    pub fn decode(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<Self, ChunkError> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[4 * at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[16 + 8 * at + i]));
        let kind = match word(0) {
            0 => TransferKind::Cells,
            1 => TransferKind::Halo,
            2 => TransferKind::Parcel,
            _ => return Err(ChunkError::UnknownKind { kind: bytes[0] }),
        };
        let header = Self {
            region: RegionId(word(1)),
            transfer: TransferId {
                kind,
                from: Rank(word(2)),
                to: Rank(word(3)),
            },
            total: long(0),
            offset: long(1),
            length: long(2),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), ChunkError> {
        let fits = self
            .offset
            .checked_add(self.length)
            .is_some_and(|end| end <= self.total);
        if !fits || (self.length == 0 && self.total > 0) {
            return Err(ChunkError::OutOfBounds {
                offset: self.offset,
                length: self.length,
                total: self.total,
            });
        }
        Ok(())
    }
}

/// Iterator over the chunks of a transfer.
#[derive(Clone, Debug)]
pub struct Chunks {
    next: ChunkHeader,
    step: u64,
    is_done: bool,
}

impl Chunks {
    /// Cuts `total` bytes into pieces of at most `chunk_max` bytes, at multiples of `element_size` where one element
    /// fits. An empty transfer makes one empty chunk, so that its receiver learns of it.
    ///
    /// # Panics
    /// If `chunk_max` is 0.
    pub fn new(region: RegionId, transfer: TransferId, total: u64, chunk_max: u64, element_size: u64) -> Self {
        assert!(chunk_max > 0, "chunks of 0 bytes never end");
        let rest = chunk_max.checked_rem(element_size).unwrap_or(0);
        let step = if rest < chunk_max { chunk_max - rest } else { chunk_max };
        Self {
            next: ChunkHeader {
                region,
                transfer,
                total,
                offset: 0,
                length: step.min(total),
            },
            step,
            is_done: false,
        }
    }
}

impl Iterator for Chunks {
    type Item = ChunkHeader;

    fn next(&mut self) -> Option<ChunkHeader> {
        if self.is_done {
            return None;
        }
        let chunk = self.next;
        self.next.offset += chunk.length;
        self.next.length = self.step.min(chunk.total - self.next.offset);
        self.is_done = self.next.length == 0;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRANSFER: TransferId = TransferId {
        kind: TransferKind::Halo,
        from: Rank(3),
        to: Rank(70_000),
    };

    proptest! {
        #[test]
        fn chunks_tile_their_transfer(total in 0u64..500, chunk_max in 1u64..70, element_size in 1u64..80) {
            let chunks: Vec<_> = Chunks::new(RegionId(1), TRANSFER, total, chunk_max, element_size).collect();
            let mut at = 0;
            for chunk in &chunks {
                prop_assert_eq!(chunk.offset, at);
                prop_assert!(chunk.length <= chunk_max);
                prop_assert!(chunk.length > 0 || total == 0);
                at += chunk.length;
                prop_assert!(at == total || element_size > chunk_max || at.is_multiple_of(element_size));
            }
            prop_assert_eq!(at, total);
            prop_assert!(!chunks.is_empty());
        }
    }

    #[test]
    fn a_header_survives_its_bytes() {
        for header in Chunks::new(RegionId(9), TRANSFER, 1 << 40, (1 << 40) - 5, 8) {
            assert_eq!(ChunkHeader::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn a_header_that_reaches_beyond_its_transfer_is_refused() {
        let header = ChunkHeader {
            region: RegionId(0),
            transfer: TRANSFER,
            total: 10,
            offset: 8,
            length: 3,
        };
        let refused = ChunkError::OutOfBounds {
            offset: 8,
            length: 3,
            total: 10,
        };
        assert_eq!(ChunkHeader::decode(&header.encode()), Err(refused));
        let wrapping = ChunkHeader {
            offset: u64::MAX,
            ..header
        };
        assert!(ChunkHeader::decode(&wrapping.encode()).is_err());
        let mut bytes = header.encode();
        bytes[0] = 7;
        assert_eq!(ChunkHeader::decode(&bytes), Err(ChunkError::UnknownKind { kind: 7 }));
    }
}
