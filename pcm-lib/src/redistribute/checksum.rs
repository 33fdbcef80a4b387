//! The checksum of a chunk: CRC-64, which finds every error burst of up to 64 bits, at the speed of memory on
//! processors with carry-less multiplication.

use crc_fast::CrcAlgorithm;

pub(super) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(checksum(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    #[test]
    fn one_flipped_bit_changes_it() {
        let mut bytes = vec![7_u8; 100_000];
        let whole = checksum(&bytes);
        bytes[65_432] ^= 0x10;
        assert_ne!(checksum(&bytes), whole);
    }
}
