//! Checksums of an image that a rank left without them, their verification, and copies that are verified while they are
//! made. Runs beside the loop; trusts nothing in a memory file.

use super::memory_file::Memory;
use pcm_core::parked::Preamble;
use pcm_core::parked::block_checksum;
use pcm_proto::checkpoint::PartTally;
use pcm_proto::ids::Bytes;
use pcm_proto::parked::BLOCK_BYTES;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Blocks that are written at once: few enough to be in a CPU's cache still.
const PIECE_BLOCKS: usize = 8;
const PIECE_BYTES: usize = PIECE_BLOCKS * BLOCK_BYTES as usize;

/// Writes the checksum of each block, then says in the preamble that they are there.
pub(super) fn complete(memory: &Memory) -> io::Result<PartTally> {
    let file = memory.file();
    let preamble = preamble(file, memory.bytes())?;
    let sums = blocks(memory, &preamble)?;
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
pub(super) fn verify(memory: &Memory) -> io::Result<PartTally> {
    let preamble = preamble(memory.file(), memory.bytes())?;
    let sums = blocks(memory, &preamble)?;
    if !preamble.is_summed || stated(memory.file(), &preamble)? != sums {
        return Err(unlike());
    }
    Ok(tally(&preamble, &sums))
}

/// Copies a complete image into a memory file of its length. What is verified is the copy, while it is in the cache:
/// whatever the owner of the image does meanwhile, the copy is whole or an error.
pub(super) fn copy(from: &Memory, into: &mut Memory) -> io::Result<PartTally> {
    let preamble = preamble(from.file(), into.bytes())?;
    if !preamble.is_summed {
        return Err(unlike());
    }
    let stated = stated(from.file(), &preamble)?;
    // Whoever finds it after a crash must not take it for what it held before.
    into.file().write_all_at(&[0; Preamble::BYTES], 0)?;
    if into.take_fresh() {
        // Writing a page that is not there makes and fills it in one go: clearing it first costs as much again.
        let mut buffer = vec![0; PIECE_BYTES];
        for (at, sums) in pieces(&preamble, &stated) {
            let copied = &mut buffer[..(into.bytes() - at).min(PIECE_BYTES as u64) as usize];
            copy_verified(from, at, copied, sums)?;
            into.file().write_all_at(copied, at)?;
        }
    } else {
        into.write(|contents| {
            let places = contents[preamble.data_at() as usize..].chunks_mut(PIECE_BYTES);
            let mut copies = pieces(&preamble, &stated).zip(places);
            copies.try_for_each(|((at, sums), place)| copy_verified(from, at, place, sums))
        })??;
    }
    let mut head_and_sums = vec![0; preamble.data_at() as usize - Preamble::BYTES];
    copy_out(from, Preamble::BYTES as u64, &mut head_and_sums)?;
    into.file().write_all_at(&head_and_sums, Preamble::BYTES as u64)?;
    if self::stated(into.file(), &preamble)? != stated {
        return Err(unlike());
    }
    into.file().write_all_at(&preamble.encode(), 0)?;
    Ok(tally(&preamble, &stated))
}

/// Where each piece of the data begins, and the checksums of its blocks.
fn pieces<'a>(preamble: &Preamble, stated: &'a [u64]) -> impl Iterator<Item = (u64, &'a [u64])> + use<'a> {
    let begins = (preamble.data_at()..).step_by(PIECE_BYTES);
    begins.zip(stated.chunks(PIECE_BLOCKS))
}

fn copy_verified(from: &Memory, at: u64, place: &mut [u8], sums: &[u64]) -> io::Result<()> {
    let places = place.chunks_mut(BLOCK_BYTES as usize);
    let begins = (at..).step_by(BLOCK_BYTES as usize);
    for ((place, at), sum) in places.zip(begins).zip(sums) {
        copy_out(from, at, place)?;
        if block_checksum(place) != *sum {
            return Err(unlike());
        }
    }
    Ok(())
}

fn copy_out(from: &Memory, at: u64, into: &mut [u8]) -> io::Result<()> {
    let is_there = from.map()?.copy_out(at as usize, into);
    is_there
        .then_some(())
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn unlike() -> io::Error {
    io::Error::other("its checksums are not those of its data")
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
    // A file can be as long as it likes without any memory; reading its holes would take the memory it claims.
    let present = rustix::fs::fstat(file)?.st_blocks.cast_unsigned() * 512;
    if present < preamble.data_bytes {
        return Err(io::Error::other(format!(
            "it says that it has {} bytes of data, and {present} bytes are there",
            preamble.data_bytes
        )));
    }
    Ok(preamble)
}

fn blocks(memory: &Memory, preamble: &Preamble) -> io::Result<Vec<u64>> {
    let mut block = vec![0; BLOCK_BYTES as usize];
    let begins = (preamble.data_at()..memory.bytes()).step_by(BLOCK_BYTES as usize);
    let sum = |at: u64| {
        let copied = &mut block[..(memory.bytes() - at).min(BLOCK_BYTES) as usize];
        copy_out(memory, at, copied)?;
        Ok(block_checksum(copied))
    };
    begins.map(sum).collect()
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
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn image(data_bytes: u64) -> Memory {
        let preamble = Preamble {
            head_bytes: 100,
            is_summed: false,
            data_bytes,
        };
        let memory = Memory::new(preamble.image_bytes()).unwrap();
        let file = memory.file();
        file.write_all_at(&preamble.encode(), 0).unwrap();
        file.write_all_at(b"of regions", preamble.head_at()).unwrap();
        file.write_all_at(&vec![0; data_bytes as usize], preamble.data_at())
            .unwrap();
        file.write_all_at(b"something", preamble.data_at() + BLOCK_BYTES - 3)
            .unwrap();
        memory
    }

    #[test]
    fn an_image_is_verified_only_when_complete_and_unchanged() {
        let memory = image(2 * BLOCK_BYTES + 5);
        let bytes = memory.bytes();
        assert!(verify(&memory).is_err());
        assert_eq!(stated_tally(memory.file(), bytes), None);
        let tally = complete(&memory).unwrap();
        assert_eq!(tally.bytes, Bytes(2 * BLOCK_BYTES + 5));
        assert_eq!(verify(&memory).unwrap(), tally);
        assert_eq!(stated_tally(memory.file(), bytes), Some(tally));
        memory.file().write_all_at(b"S", bytes - 1).unwrap();
        assert!(verify(&memory).is_err());
        assert!(preamble(memory.file(), bytes - 1).is_err());
    }

    #[test]
    fn an_image_that_claims_more_data_than_there_is_takes_no_memory() {
        let preamble = Preamble {
            head_bytes: 100,
            is_summed: true,
            data_bytes: 64 << 30,
        };
        let memory = Memory::new(preamble.image_bytes()).unwrap();
        memory.file().write_all_at(&preamble.encode(), 0).unwrap();
        let begun = std::time::Instant::now();
        assert!(verify(&memory).is_err() && complete(&memory).is_err());
        assert_eq!(stated_tally(memory.file(), memory.bytes()), None);
        let mut into = Memory::new(memory.bytes()).unwrap();
        assert!(copy(&memory, &mut into).is_err());
        for memory in [&memory, &into] {
            let present = rustix::fs::fstat(memory.file()).unwrap().st_blocks * 512;
            assert!(present < 1 << 20, "{present} bytes were made");
        }
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_copy_is_the_same_image_also_where_another_was_before() {
        let from = image(2 * PIECE_BYTES as u64 + BLOCK_BYTES + 5);
        let tally = complete(&from).unwrap();
        let mut into = Memory::new(from.bytes()).unwrap();
        assert_eq!(copy(&from, &mut into).unwrap(), tally);
        assert!(from.contents() == into.contents());
        into.write(|contents| contents.fill(7)).unwrap();
        assert_eq!(copy(&from, &mut into).unwrap(), tally);
        assert!(from.contents() == into.contents());
        assert_eq!(verify(&into).unwrap(), tally);
    }

    #[test]
    fn a_copy_of_what_changes_meanwhile_or_is_not_complete_counts_as_nothing() {
        let from = image(2 * BLOCK_BYTES + 5);
        let mut into = Memory::new(from.bytes()).unwrap();
        assert!(copy(&from, &mut into).is_err());
        complete(&from).unwrap();
        copy(&from, &mut into).unwrap();
        from.file().write_all_at(b"S", from.bytes() - 1).unwrap();
        assert!(copy(&from, &mut into).is_err());
        assert_eq!(
            stated_tally(into.file(), into.bytes()),
            None,
            "nor as what was there before"
        );
        let mut other = Memory::new(from.bytes() + BLOCK_BYTES).unwrap();
        assert!(copy(&from, &mut other).is_err());
    }
}
