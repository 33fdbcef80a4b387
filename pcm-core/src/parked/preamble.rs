//! The beginning of an image: where everything else in it lies. Never trusts what it decodes.

use pcm_proto::parked::{BLOCK_BYTES, IMAGE_BYTES_MAX};

/// First word of an image ("PCM park" in memory order).
pub const MAGIC: u64 = u64::from_le_bytes(*b"PCM park");

/// Longest head: 1,024 regions with names, descriptions, counts for many ranks.
const HEAD_BYTES_MAX: u64 = 64 << 20;

/// The first bytes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Bytes of the head.
    pub head_bytes: u64,
    /// Whether the checksums were taken.
    pub is_summed: bool,
    /// Bytes of data.
    pub data_bytes: u64,
}

/// Why some bytes are not the beginning of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// They begin otherwise.
    #[error("parked data does not begin as it should; are all ranks of one version of libpcm?")]
    Magic,
    /// Its numbers cannot be.
    #[error("parked data claims an impossible size; it is damaged")]
    Numbers,
}

impl Preamble {
    /// Its bytes at the beginning of the image.
    pub const BYTES: usize = 40;

    /// As it stands in the image.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let words = [
            MAGIC,
            self.head_bytes,
            u64::from(self.is_summed),
            self.data_bytes,
            BLOCK_BYTES,
        ];
        let mut bytes = [0; Self::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, PreambleError> {
        let mut words = bytes
            .chunks_exact(8)
            .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        let mut next = || words.next().ok_or(PreambleError::Magic);
        let (magic, head_bytes, is_summed, data_bytes, block) = (next()?, next()?, next()?, next()?, next()?);
        if magic != MAGIC || block != BLOCK_BYTES {
            return Err(PreambleError::Magic);
        }
        if head_bytes > HEAD_BYTES_MAX || data_bytes > IMAGE_BYTES_MAX || is_summed > 1 {
            return Err(PreambleError::Numbers);
        }
        Ok(Self {
            head_bytes,
            is_summed: is_summed == 1,
            data_bytes,
        })
    }

    /// Where the head begins.
    pub fn head_at(&self) -> u64 {
        Self::BYTES as u64
    }

    /// Where the checksums begin.
    pub fn sums_at(&self) -> u64 {
        (self.head_at() + self.head_bytes).next_multiple_of(8)
    }

    /// Number of checksums, one for each block of data.
    pub fn sums(&self) -> u64 {
        self.data_bytes.div_ceil(BLOCK_BYTES)
    }

    /// Where the data begins.
    pub fn data_at(&self) -> u64 {
        (self.sums_at() + 8 * self.sums()).next_multiple_of(BLOCK_BYTES)
    }

    /// Bytes of the whole image.
    pub fn image_bytes(&self) -> u64 {
        self.data_at() + self.data_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_begins_behind_head_and_checksums_at_a_block() {
        let preamble = Preamble {
            head_bytes: 1001,
            is_summed: true,
            data_bytes: BLOCK_BYTES * 9000 + 1,
        };
        assert_eq!(Preamble::decode(&preamble.encode()), Ok(preamble));
        assert_eq!((preamble.sums_at(), preamble.sums()), (1048, 9001));
        assert_eq!(preamble.data_at(), 2 * BLOCK_BYTES);
        assert_eq!(preamble.image_bytes(), 9002 * BLOCK_BYTES + 1);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let preamble = Preamble {
            head_bytes: 1,
            is_summed: false,
            data_bytes: 0,
        };
        let mut bytes = preamble.encode();
        assert_eq!(Preamble::decode(&bytes[..39]), Err(PreambleError::Magic));
        bytes[30] = 0xff;
        assert_eq!(Preamble::decode(&bytes), Err(PreambleError::Numbers));
        bytes[0] = 0;
        assert_eq!(Preamble::decode(&bytes), Err(PreambleError::Magic));
    }
}
