//! Checksums of an image that a rank left without them, and their verification in a copy. Runs beside the loop; reads and
//! writes one memory file and trusts nothing in it.

use super::fetch::block_checksum;
use pcm_core::parked::Preamble;
use pcm_proto::checkpoint::PartTally;
use pcm_proto::ids::Bytes;
use pcm_proto::parked::BLOCK_BYTES;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Writes the checksum of each block, then says in the preamble that they are there.
pub(super) fn complete(file: &File, bytes: u64) -> io::Result<PartTally> {
    let preamble = preamble(file, bytes)?;
    let sums = blocks(file, &preamble)?;
    let written: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    file.write_all_at(&written, preamble.sums_at())?;
    let complete = Preamble {
        is_summed: true,
        ..preamble
    };
    file.write_all_at(&complete.encode(), 0)?;
    Ok(tally(&preamble, &sums))
}

/// Reads everything and compares.
pub(super) fn verify(file: &File, bytes: u64) -> io::Result<PartTally> {
    let preamble = preamble(file, bytes)?;
    let sums = blocks(file, &preamble)?;
    let stated = stated(file, &preamble)?;
    if !preamble.is_summed || stated != sums {
        return Err(io::Error::other("its checksums are not those of its data"));
    }
    Ok(tally(&preamble, &sums))
}

/// What a complete image says of itself, without reading its data; `None` if it is not complete.
pub(super) fn stated_tally(file: &File, bytes: u64) -> Option<PartTally> {
    let preamble = preamble(file, bytes).ok().filter(|preamble| preamble.is_summed)?;
    Some(tally(&preamble, &stated(file, &preamble).ok()?))
}

fn preamble(file: &File, bytes: u64) -> io::Result<Preamble> {
    let mut beginning = [0; Preamble::BYTES];
    file.read_exact_at(&mut beginning, 0)?;
    let preamble = Preamble::decode(&beginning).map_err(io::Error::other)?;
    if preamble.image_bytes() != bytes {
        return Err(io::Error::other("its length is not what it says"));
    }
    Ok(preamble)
}

fn blocks(file: &File, preamble: &Preamble) -> io::Result<Vec<u64>> {
    let mut block = vec![0; BLOCK_BYTES as usize];
    let (mut at, end) = (preamble.data_at(), preamble.image_bytes());
    let mut sums = Vec::with_capacity(preamble.sums() as usize);
    while at < end {
        let part = &mut block[..(end - at).min(BLOCK_BYTES) as usize];
        file.read_exact_at(part, at)?;
        sums.push(block_checksum(part));
        at += BLOCK_BYTES;
    }
    Ok(sums)
}

fn stated(file: &File, preamble: &Preamble) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; 8 * preamble.sums() as usize];
    file.read_exact_at(&mut bytes, preamble.sums_at())?;
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .collect())
}

fn tally(preamble: &Preamble, sums: &[u64]) -> PartTally {
    PartTally {
        bytes: Bytes(preamble.data_bytes),
        checksum: sums.iter().fold(0, |all, sum| all.rotate_left(1) ^ sum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    fn image(data_bytes: u64) -> (File, u64) {
        let preamble = Preamble {
            head_bytes: 100,
            is_summed: false,
            data_bytes,
        };
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(preamble.image_bytes()).unwrap();
        file.write_all_at(&preamble.encode(), 0).unwrap();
        file.write_all_at(b"something", preamble.data_at() + BLOCK_BYTES - 3)
            .unwrap();
        (file, preamble.image_bytes())
    }

    #[test]
    fn an_image_is_verified_only_when_complete_and_unchanged() {
        let (file, bytes) = image(2 * BLOCK_BYTES + 5);
        assert!(verify(&file, bytes).is_err());
        assert_eq!(stated_tally(&file, bytes), None);
        let tally = complete(&file, bytes).unwrap();
        assert_eq!(tally.bytes, Bytes(2 * BLOCK_BYTES + 5));
        assert_eq!(verify(&file, bytes).unwrap(), tally);
        assert_eq!(stated_tally(&file, bytes), Some(tally));
        file.write_all_at(b"S", bytes - 1).unwrap();
        assert!(verify(&file, bytes).is_err());
        assert!(complete(&file, bytes - 1).is_err());
    }
}
