//! Bytes in several places of memory that are one sequence: what a rank gives of its data without copying it, or where
//! what it gets belongs.
#![allow(unsafe_code, reason = "collects bytes of other owners")]

use std::ptr::NonNull;

/// Pieces of memory, one after the other. Says where bytes are, and does not own them.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<Piece>);

#[derive(Clone, Copy, Debug)]
struct Piece {
    first: NonNull<u8>,
    length: usize,
    /// Where it ends in the sequence.
    end: u64,
}

impl Pieces {
    /// Bytes of a place for one piece.
    const PIECE_BYTES: usize = size_of::<Piece>();

    /// Adds a piece to the end.
    pub(crate) fn add(&mut self, first: NonNull<u8>, length: usize) {
        if length > 0 {
            let end = self.length() + length as u64;
            self.0.push(Piece { first, length, end });
        }
    }

    /// Adds others to the end.
    pub(crate) fn append(&mut self, others: Self) {
        self.0.reserve_exact(others.0.len());
        others.0.iter().for_each(|piece| self.add(piece.first, piece.length));
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut pieces = Self::default();
        pieces.add(NonNull::from(bytes).cast(), bytes.len());
        pieces
    }

    /// Bytes of all pieces.
    pub(crate) fn length(&self) -> u64 {
        self.0.last().map_or(0, |last| last.end)
    }

    /// What some bytes of the sequence are in, piece by piece.
    pub(crate) fn of_bytes(&self, offset: u64, length: u64) -> impl Iterator<Item = (NonNull<u8>, usize)> {
        let begin = self.0.partition_point(|piece| piece.end <= offset);
        let until = offset + length;
        let all = self.0[begin..].iter();
        let meant = all.take_while(move |piece| piece.end - (piece.length as u64) < until);
        meant.map(move |piece| {
            let start = piece.end - piece.length as u64;
            let skipped = offset.saturating_sub(start) as usize;
            let end = (until.min(piece.end) - start) as usize;
            // SAFETY: what is skipped is less than the piece.
            (unsafe { piece.first.add(skipped) }, end - skipped)
        })
    }
}

/// What one rank gives another: bytes made for it, then bytes in their place.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) made: Vec<u8>,
    pub(crate) lent: Pieces,
}

impl Given {
    /// These bytes, and then those of others that are lent, or copied if they are scattered too finely.
    pub(crate) fn of<'a>(mut made: Vec<u8>, others: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let (mut count, mut length) = (0_usize, 0);
        for bytes in others.clone().filter(|bytes| !bytes.is_empty()) {
            (count, length) = (count + 1, length + bytes.len());
        }
        let mut lent = Pieces::default();
        if count * 2 * Pieces::PIECE_BYTES > length {
            made.reserve_exact(length);
            others.for_each(|bytes| made.extend_from_slice(bytes));
        } else {
            lent.0.reserve_exact(count);
            others.for_each(|bytes| lent.add(NonNull::from(bytes).cast(), bytes.len()));
        }
        Self { made, lent }
    }

    /// A copy of all of it behind other bytes.
    ///
    /// # Safety
    /// What is lent is there, and nothing writes to it.
    pub(crate) unsafe fn copy_to(&self, out: &mut Vec<u8>) {
        let length = self.lent.length();
        out.reserve_exact(self.made.len() + length as usize);
        out.extend_from_slice(&self.made);
        for (first, length) in self.lent.of_bytes(0, length) {
            // SAFETY: the caller's word.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(first.as_ptr(), length) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Given {
        /// A copy, while its owner is there.
        pub(crate) fn bytes(&self) -> Vec<u8> {
            let mut all = Vec::new();
            // SAFETY: tests of one thread, which write to nothing that they have lent.
            unsafe { self.copy_to(&mut all) };
            all
        }
    }

    #[test]
    fn every_range_of_the_sequence_is_found_in_its_pieces() {
        let all: Vec<u8> = (0..20).collect();
        let mut pieces = Pieces::default();
        for range in [3..4, 0..0, 7..12, 15..20] {
            pieces.add(NonNull::from(&all[range.clone()]).cast(), range.len());
        }
        let wanted = [3, 7, 8, 9, 10, 11, 15, 16, 17, 18, 19];
        assert_eq!(pieces.length(), 11);
        for (from, to) in (0..12).flat_map(|from| (from..12).map(move |to| (from, to))) {
            let mut got = Vec::new();
            for (first, length) in pieces.of_bytes(from as u64, (to - from) as u64) {
                // SAFETY: pieces of the vector above.
                got.extend_from_slice(unsafe { std::slice::from_raw_parts(first.as_ptr(), length) });
            }
            assert_eq!(got, wanted[from..to]);
        }
    }
}
