//! The checksum of a block of an image.

/// The checksum that goes with a block.
pub fn block_checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}
