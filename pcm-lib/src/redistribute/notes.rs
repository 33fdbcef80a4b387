//! Notes that travel beside the chunks: what each chunk was when it left, and how long opaque data is. A chunk's own
//! message holds nothing but its bytes, so that these can go straight to their place. Never sends anything.

use super::checksum::checksum;
use pcm_core::redistribution::{CHUNK_HEADER_BYTES, ChunkHeader};

/// Chunks told of in one note.
pub(super) const ENTRIES_MAX: usize = 64;

const WORD: usize = 8;
const ENTRY_BYTES: usize = CHUNK_HEADER_BYTES + WORD;

pub(super) const NOTE_BYTES_MAX: usize = 3 * WORD + ENTRIES_MAX * ENTRY_BYTES;

/// What a sender says of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) header: ChunkHeader,
    pub(super) checksum: u64,
}

/// Bytes of a note about chunks; `token` names the move.
pub(super) fn entries_encode(token: u64, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries_bytes(entries.len()));
    bytes.extend_from_slice(&token.to_le_bytes());
    bytes.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for entry in entries {
        bytes.extend_from_slice(&entry.header.encode());
        bytes.extend_from_slice(&entry.checksum.to_le_bytes());
    }
    sealed(bytes)
}

/// Length of a note about so many chunks.
pub(super) fn entries_bytes(count: usize) -> usize {
    3 * WORD + count * ENTRY_BYTES
}

/// Reads a note about chunks.
pub(super) fn entries_decode(token: u64, bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let body = opened(token, bytes)?;
    let (count, entries) = body.split_first_chunk::<WORD>().ok_or("a note without a count")?;
    let count = u64::from_le_bytes(*count);
    if count > ENTRIES_MAX as u64 || entries.len() as u64 != count * ENTRY_BYTES as u64 {
        return Err(format!("a note of {} bytes about {count} chunks", bytes.len()));
    }
    let entry = |bytes: &[u8]| {
        let (header, checksum) = bytes.split_at(CHUNK_HEADER_BYTES);
        let header = header.try_into().expect("the length of a header");
        Ok(Entry {
            header: ChunkHeader::decode(header).map_err(|error| error.to_string())?,
            checksum: u64::from_le_bytes(checksum.try_into().expect("8 bytes")),
        })
    };
    entries.chunks_exact(ENTRY_BYTES).map(entry).collect()
}

/// Bytes of a note about the lengths of opaque data.
pub(super) fn lengths_encode(token: u64, lengths: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lengths_bytes(lengths.len()));
    bytes.extend_from_slice(&token.to_le_bytes());
    lengths
        .iter()
        .for_each(|length| bytes.extend_from_slice(&length.to_le_bytes()));
    sealed(bytes)
}

/// Reads a note about so many lengths.
pub(super) fn lengths_decode(token: u64, count: usize, bytes: &[u8]) -> Result<Vec<u64>, String> {
    let body = opened(token, bytes)?;
    if body.len() != count * WORD {
        return Err(format!("{} lengths where {count} are expected", body.len() / WORD));
    }
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    Ok(body.chunks_exact(WORD).map(word).collect())
}

/// Length of a note about so many lengths.
pub(super) fn lengths_bytes(count: usize) -> usize {
    (count + 2) * WORD
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let seal = checksum(&bytes);
    bytes.extend_from_slice(&seal.to_le_bytes());
    bytes
}

fn opened(token: u64, bytes: &[u8]) -> Result<&[u8], String> {
    let (body, seal) = bytes.split_last_chunk::<WORD>().ok_or("a note without a seal")?;
    if u64::from_le_bytes(*seal) != checksum(body) {
        return Err("a note that arrived damaged".to_owned());
    }
    let (found, body) = body.split_first_chunk::<WORD>().ok_or("a note without a token")?;
    if u64::from_le_bytes(*found) != token {
        return Err("a note of another move".to_owned());
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::redistribution::{Chunks, TransferId, TransferKind};
    use pcm_proto::ids::{Rank, RegionId};

    fn entries(count: u64) -> Vec<Entry> {
        let transfer = TransferId {
            kind: TransferKind::Cells,
            from: Rank(1),
            to: Rank(2),
        };
        Chunks::new(RegionId(3), transfer, count * 8, 8, 8)
            .map(|header| Entry {
                header,
                checksum: header.offset ^ 0xabcd,
            })
            .collect()
    }

    #[test]
    fn notes_survive_their_bytes_and_have_the_stated_length() {
        let full = entries(ENTRIES_MAX as u64);
        let bytes = entries_encode(7, &full);
        assert_eq!(
            (bytes.len(), entries_bytes(ENTRIES_MAX)),
            (NOTE_BYTES_MAX, NOTE_BYTES_MAX)
        );
        assert_eq!(entries_decode(7, &bytes), Ok(full));
        let bytes = lengths_encode(7, &[1, 0, u64::MAX]);
        assert_eq!(bytes.len(), lengths_bytes(3));
        assert_eq!(lengths_decode(7, 3, &bytes), Ok(vec![1, 0, u64::MAX]));
        assert!(lengths_decode(7, 2, &bytes).is_err());
    }

    #[test]
    fn a_note_that_is_damaged_or_of_another_move_is_refused() {
        let bytes = entries_encode(7, &entries(2));
        assert!(
            entries_decode(8, &bytes)
                .expect_err("another move")
                .contains("another move")
        );
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(entries_decode(7, &damaged).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|length| entries_decode(7, &bytes[..length]).is_err()));
    }
}
