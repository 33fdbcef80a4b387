//! Checksums of an image's data, block by block, as the bytes go by.

use crc_fast::{CrcAlgorithm, Digest, checksum};
use pcm_proto::parked::BLOCK_BYTES;

/// The checksum of one block.
pub(super) fn of_block(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// Takes the data in order and cuts it into blocks.
pub(super) struct BlockSums {
    digest: Digest,
    taken: u64,
    sums: Vec<u64>,
}

impl BlockSums {
    pub(super) fn new() -> Self {
        Self {
            digest: Digest::new(CrcAlgorithm::Crc64Nvme),
            taken: 0,
            sums: Vec::new(),
        }
    }

    /// Bytes so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.taken % BLOCK_BYTES;
            let (now, rest) = bytes.split_at(bytes.len().min(room as usize));
            self.digest.update(now);
            self.taken += now.len() as u64;
            if self.taken.is_multiple_of(BLOCK_BYTES) {
                self.cut();
            }
            bytes = rest;
        }
    }

    fn cut(&mut self) {
        self.sums.push(self.digest.finalize());
        self.digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    }

    pub(super) fn finish(mut self) -> Vec<u64> {
        if !self.taken.is_multiple_of(BLOCK_BYTES) {
            self.cut();
        }
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_blocks_however_the_bytes_come() {
        let bytes: Vec<u8> = (0..2 * BLOCK_BYTES + 100).map(|n| (n % 253) as u8).collect();
        let mut sums = BlockSums::new();
        bytes.chunks(9_999).for_each(|chunk| sums.take(chunk));
        let expected: Vec<u64> = bytes.chunks(BLOCK_BYTES as usize).map(of_block).collect();
        assert_eq!(sums.finish(), expected);
    }
}
