//! The unit in which part files are checked and compressed. Pure.

use crc_fast::CrcAlgorithm;
use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Bytes of a block before compression: large enough for full speed of disk and processor, small enough that reading a
/// little of a part does not read much of it, and the checksums of 1 GiB are 1,024 numbers.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// How the blocks of part files are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As they are: part files are plain `.npy` or raw files.
    #[default]
    None,
    /// Each an LZ4 frame of its own: part files end in `.lz4`, and `lz4 -d` makes plain ones of them.
    Lz4,
}

impl Compression {
    /// What part files' names end in.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Lz4 => ".lz4",
        }
    }
}

/// CRC-32 as in zlib, gzip and PNG: in every language's standard library, and at the speed of memory here.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    // The algorithm has 32 bits.
    crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

/// A block as it is stored.
pub(crate) fn encode(compression: Compression, block: &[u8], stored: &mut Vec<u8>) -> io::Result<()> {
    stored.clear();
    match compression {
        Compression::None => stored.extend_from_slice(block),
        Compression::Lz4 => {
            let info = FrameInfo::new().block_size(BlockSize::Max1MB);
            let mut encoder = FrameEncoder::with_frame_info(info, stored);
            encoder.write_all(block)?;
            encoder.finish().map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// The block that was stored so; it has `block.len()` bytes.
pub(crate) fn decode(compression: Compression, stored: &[u8], block: &mut [u8]) -> io::Result<()> {
    match compression {
        Compression::None if stored.len() == block.len() => block.copy_from_slice(stored),
        Compression::None => return Err(io::ErrorKind::UnexpectedEof.into()),
        Compression::Lz4 => {
            let mut decoder = FrameDecoder::new(stored);
            decoder.read_exact(block)?;
            if decoder.read(&mut [0])? > 0 {
                return Err(io::Error::other("the frame has more bytes than the block"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_zlib() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_block_survives_its_storage_and_a_cut_one_is_refused() {
        let block: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in [Compression::None, Compression::Lz4] {
            let (mut stored, mut back) = (Vec::new(), vec![0; block.len()]);
            encode(compression, &block, &mut stored).unwrap();
            decode(compression, &stored, &mut back).unwrap();
            assert_eq!(back, block);
            assert!(decode(compression, &stored[..stored.len() / 2], &mut back).is_err());
            assert!(decode(compression, &stored, &mut back[1..]).is_err());
        }
    }
}
