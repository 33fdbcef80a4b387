//! What has arrived of the transfers a process expects. Owns the account of byte ranges; never the bytes. Duplicates,
//! strays and chunks that contradict the plan are refused with a type, so that the executor can count them.

use super::chunk::{ChunkHeader, TransferId};
use pcm_proto::ids::RegionId;
use std::collections::BTreeMap;

/// Account of the expected transfers of one reconfiguration.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    expected: BTreeMap<(RegionId, TransferId), Arrival>,
    incomplete: usize,
    arrived_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Arrival {
    /// None until the first chunk of an opaque transfer tells it.
    total: Option<u64>,
    /// Arrived ranges, start to end; neighbours are joined.
    ranges: BTreeMap<u64, u64>,
    is_complete: bool,
}

/// Why a chunk was not taken; the ledger is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkRefused {
    /// The plan has no such transfer to this process.
    #[error("region {region}: {transfer} is not in this plan")]
    NotExpected {
        /// The region named.
        region: RegionId,
        /// The transfer named.
        transfer: TransferId,
    },
    /// The transfer has another length than planned, or than an earlier chunk of it said.
    #[error("the transfer has {expected} bytes here and {found} at its sender; the plans differ")]
    TotalDiffers {
        expected: u64,
        /// Bytes the chunk says.
        found: u64,
    },
    /// Some of its bytes have arrived before.
    #[error("bytes of {offset}+{length} have arrived before")]
    Duplicate {
        /// Where the chunk begins.
        offset: u64,
        length: u64,
    },
    /// It reaches beyond its transfer.
    #[error("chunk {offset}+{length} reaches beyond its transfer of {total} bytes")]
    OutOfBounds {
        /// Where the chunk begins.
        offset: u64,
        length: u64,
        /// Bytes of the transfer.
        total: u64,
    },
}

impl Ledger {
    /// Adds a transfer to wait for; `total` is none where only its sender knows it.
    pub fn expect(&mut self, region: RegionId, transfer: TransferId, total: Option<u64>) {
        let arrival = Arrival {
            total,
            ..Arrival::default()
        };
        if self.expected.insert((region, transfer), arrival).is_none() {
            self.incomplete += 1;
        }
    }

    /// Notes a chunk that arrived.
    pub fn accept(&mut self, chunk: &ChunkHeader) -> Result<(), ChunkRefused> {
        let key = (chunk.region, chunk.transfer);
        let Some(arrival) = self.expected.get_mut(&key) else {
            return Err(ChunkRefused::NotExpected {
                region: key.0,
                transfer: key.1,
            });
        };
        arrival.add(chunk)?;
        self.arrived_bytes += chunk.length;
        if arrival.is_complete {
            self.incomplete -= 1;
        }
        Ok(())
    }

    /// Whether every byte of every expected transfer has arrived.
    pub fn is_complete(&self) -> bool {
        self.incomplete == 0
    }

    /// Bytes that have arrived.
    pub fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// The transfers that still lack bytes.
    pub fn missing(&self) -> impl Iterator<Item = (RegionId, TransferId)> {
        self.expected
            .iter()
            .filter(|(_, arrival)| !arrival.is_complete)
            .map(|(key, _)| *key)
    }
}

impl Arrival {
    fn add(&mut self, chunk: &ChunkHeader) -> Result<(), ChunkRefused> {
        let (offset, length, found) = (chunk.offset, chunk.length, chunk.total);
        let expected = self.total.unwrap_or(found);
        if expected != found {
            return Err(ChunkRefused::TotalDiffers { expected, found });
        }
        let end = offset.saturating_add(length);
        if end > found {
            return Err(ChunkRefused::OutOfBounds {
                offset,
                length,
                total: found,
            });
        }
        let before = self
            .ranges
            .range(..=offset)
            .next_back()
            .map(|(&start, &end)| (start, end));
        let after = self.ranges.range(offset..).next().map(|(&start, &end)| (start, end));
        let overlaps = before.is_some_and(|(_, end_before)| end_before > offset)
            || after.is_some_and(|(start_after, _)| start_after < end);
        if self.is_complete || overlaps {
            return Err(ChunkRefused::Duplicate { offset, length });
        }
        self.total = Some(found);
        let mut joined = (offset, end);
        if let Some((start, _)) = before.filter(|(_, end_before)| *end_before == offset) {
            joined.0 = start;
        }
        if let Some((start, end_after)) = after.filter(|(start, _)| *start == end && length > 0) {
            self.ranges.remove(&start);
            joined.1 = end_after;
        }
        self.ranges.insert(joined.0, joined.1);
        self.is_complete = joined == (0, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::{Chunks, TransferKind};
    use super::*;
    use pcm_proto::ids::Rank;
    use proptest::prelude::*;

    const TRANSFER: TransferId = TransferId {
        kind: TransferKind::Cells,
        from: Rank(0),
        to: Rank(1),
    };
    const REGION: RegionId = RegionId(5);

    fn ledger(total: Option<u64>) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.expect(REGION, TRANSFER, total);
        ledger
    }

    proptest! {
        #[test]
        fn chunks_in_any_order_complete_a_transfer_and_only_all_of_them(
            total in 0u64..400, chunk_max in 1u64..60, known in any::<bool>(), seed in any::<u64>(),
        ) {
            let mut chunks: Vec<_> = Chunks::new(REGION, TRANSFER, total, chunk_max, 1).collect();
            chunks.sort_by_key(|c| (c.offset + 1).wrapping_mul(seed | 1).rotate_left(17));
            let mut ledger = ledger(known.then_some(total));
            for chunk in &chunks {
                prop_assert!(!ledger.is_complete());
                prop_assert_eq!(ledger.accept(chunk), Ok(()));
                let again = ChunkRefused::Duplicate { offset: chunk.offset, length: chunk.length };
                prop_assert_eq!(ledger.accept(chunk), Err(again));
            }
            prop_assert!(ledger.is_complete());
            prop_assert_eq!(ledger.arrived_bytes(), total);
        }
    }

    #[test]
    fn strays_and_contradictions_are_refused_and_change_nothing() {
        let mut ledger = ledger(Some(10));
        let chunk = ChunkHeader {
            region: REGION,
            transfer: TRANSFER,
            total: 10,
            offset: 0,
            length: 5,
        };
        let stray = ChunkHeader {
            region: RegionId(6),
            ..chunk
        };
        assert_eq!(
            ledger.accept(&stray),
            Err(ChunkRefused::NotExpected {
                region: RegionId(6),
                transfer: TRANSFER
            })
        );
        let other = ChunkHeader { total: 11, ..chunk };
        assert_eq!(
            ledger.accept(&other),
            Err(ChunkRefused::TotalDiffers {
                expected: 10,
                found: 11
            })
        );
        assert_eq!(ledger.accept(&chunk), Ok(()));
        let overlapping = ChunkHeader { offset: 4, ..chunk };
        assert_eq!(
            ledger.accept(&overlapping),
            Err(ChunkRefused::Duplicate { offset: 4, length: 5 })
        );
        assert_eq!(ledger.missing().collect::<Vec<_>>(), [(REGION, TRANSFER)]);
        assert_eq!(ledger.arrived_bytes(), 5);
    }
}
