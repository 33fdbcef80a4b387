//! Rows of different lengths, such as those of a sparse matrix: entries of one or more columns, divided as the rows of
//! a registered array are. The library keeps them, and divides them among any number of ranks.

use super::Element;
use super::HookFailed;
use super::block::Block;
use super::custom::{Delivered, Move};
use super::memory::MemoryError;
use pcm_core::partition::Partition;
use pcm_proto::ids::RegionId;
use std::fmt::Write;
use std::ops::Range;
use zerocopy::FromBytes;

/// Bytes of a number in what is packed.
const NUMBER_BYTES: usize = size_of::<u64>();

/// See the file head.
#[derive(Debug)]
pub struct Rows {
    /// The array whose first axis divides them.
    like: RegionId,
    /// Bytes of an entry in each column.
    sizes: Vec<usize>,
    /// Rows of this rank.
    own: Range<u64>,
    /// Where each row begins, in entries; then where the last one ends.
    offsets: Vec<usize>,
    columns: Vec<Block>,
}

impl Rows {
    /// Rows of this rank, all without entries.
    pub(super) fn new(like: RegionId, sizes: Vec<usize>, own: Range<u64>) -> Self {
        let rows = (own.end - own.start) as usize;
        Self {
            like,
            own,
            offsets: vec![0; rows + 1],
            columns: sizes.iter().map(|_| Block::default()).collect(),
            sizes,
        }
    }

    pub(crate) fn like(&self) -> RegionId {
        self.like
    }

    /// Where each row begins, in entries, and where the last one ends.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Rows of this rank.
    pub fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The entries of a column; none if there is no such column.
    pub fn column(&mut self, column: usize) -> Option<&mut [u8]> {
        self.columns.get_mut(column).map(Block::bytes_mut)
    }

    /// The entries of a column, one row after the other; none if there is no such column or its entries are of another
    /// size.
    pub fn entries<T: Element>(&mut self, column: usize) -> Option<&mut [T]> {
        let is_so = self.sizes.get(column) == Some(&size_of::<T>());
        let bytes = self.column(column).filter(|_| is_so)?;
        <[T]>::mut_from_bytes(bytes).ok()
    }

    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.bytes().len()).sum()
    }

    /// Gives this rank's rows these lengths, in entries. What was in them is gone: all entries are zero.
    ///
    /// # Panics
    /// If there is not one length for each row.
    pub fn set_lengths(&mut self, lengths: &[usize]) -> Result<(), MemoryError> {
        assert_eq!(lengths.len(), self.count(), "a length for each row");
        self.take_lengths(self.own.clone(), lengths.iter().copied())
    }

    fn take_lengths(&mut self, own: Range<u64>, lengths: impl Iterator<Item = usize>) -> Result<(), MemoryError> {
        let mut offsets = vec![0_usize];
        let mut entries = 0_usize;
        for length in lengths {
            let end = entries.checked_add(length);
            entries = end.ok_or(MemoryError::NotAddressable { wanted: u64::MAX })?;
            offsets.push(entries);
        }
        let made = self.sizes.iter().map(|size| {
            let mut column = Block::default();
            column.resize_for(entries, *size).map(|()| column)
        });
        let columns = made.collect::<Result<Vec<Block>, MemoryError>>()?;
        (self.own, self.offsets, self.columns) = (own, offsets, columns);
        Ok(())
    }

    /// For comparison between processes.
    pub(super) fn text(&self, like: &str) -> String {
        let mut text = format!("rows of different lengths divided as {like:?}, entries of");
        for size in &self.sizes {
            _ = write!(text, " {size}");
        }
        text + " bytes"
    }

    /// The ranks that get rows of an old rank. One without rows packs nothing, for one rank.
    pub(super) fn targets(&self, from: u32, by: &Move<'_>) -> Vec<u32> {
        let Some([before, after]) = by.division else {
            return vec![from.min(by.after.saturating_sub(1))];
        };
        let rows = interval(before, from);
        let gets = |to: &u32| !overlap(&rows, &interval(after, *to)).is_empty();
        let targets: Vec<u32> = (0..by.after).filter(gets).collect();
        match targets.is_empty() {
            true => vec![from.min(by.after.saturating_sub(1))],
            false => targets,
        }
    }

    /// Packs the rows that go to a rank; all of them where that is worked out later.
    pub(super) fn pack(&self, to: Option<(u32, &Partition)>, out: &mut Vec<u8>) {
        let rows = to.map_or(self.own.clone(), |(to, after)| overlap(&self.own, &interval(after, to)));
        let first = (rows.start - self.own.start) as usize;
        let offsets = &self.offsets[first..=first + (rows.end - rows.start) as usize];
        let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u64);
        for number in [rows.start, rows.end - rows.start].into_iter().chain(lengths) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let entries = offsets[0]..offsets[offsets.len() - 1];
        for (column, size) in self.columns.iter().zip(&self.sizes) {
            out.extend_from_slice(&column.bytes()[entries.start * size..entries.end * size]);
        }
    }

    /// Takes the rows of this rank, which must all be there.
    pub(super) fn unpack(&mut self, parts: &[Delivered<'_>], by: &Move<'_>) -> Result<(), HookFailed> {
        let own = by.division.map_or(0..0, |[_, after]| interval(after, by.rank));
        let parts = parts.iter().map(|part| Packed::read(part.bytes, &self.sizes));
        let mut parts = parts.collect::<Option<Vec<Packed<'_>>>>().ok_or_else(damaged)?;
        parts.sort_by_key(|part| part.rows.start);
        let mut lengths = Vec::new();
        for part in &parts {
            let rows = overlap(&part.rows, &own);
            let is_next = rows.is_empty() || rows.start == own.start + lengths.len() as u64;
            if !is_next {
                return Err(HookFailed::because("rows are missing, or there twice"));
            }
            lengths.extend(part.lengths_of(&rows));
        }
        if lengths.len() as u64 != own.end - own.start {
            return Err(HookFailed::because("rows are missing"));
        }
        let made = self.take_lengths(own.clone(), lengths.into_iter());
        made.map_err(|error| HookFailed::because(error.to_string()))?;
        let mut filled = vec![0; self.sizes.len()];
        for part in &parts {
            let rows = overlap(&part.rows, &own);
            for (column, filled) in filled.iter_mut().enumerate() {
                let bytes = part.entries_of(&rows, column, &self.sizes);
                self.columns[column].bytes_mut()[*filled..][..bytes.len()].copy_from_slice(bytes);
                *filled += bytes.len();
            }
        }
        Ok(())
    }
}

/// Rows that one rank packed.
struct Packed<'a> {
    rows: Range<u64>,
    /// Where each begins, in entries, and where the last one ends.
    offsets: Vec<usize>,
    columns: Vec<&'a [u8]>,
}

impl<'a> Packed<'a> {
    /// None if the bytes are not what was packed.
    fn read(bytes: &'a [u8], sizes: &[usize]) -> Option<Self> {
        let (head, bytes) = bytes.split_at_checked(2 * NUMBER_BYTES)?;
        let [start, count] = [number(head, 0)?, number(head, 1)?];
        let rows = start..start.checked_add(count)?;
        let lengths_bytes = usize::try_from(count).ok()?.checked_mul(NUMBER_BYTES)?;
        let (lengths, mut rest) = bytes.split_at_checked(lengths_bytes)?;
        let mut offsets = vec![0_usize];
        for row in 0..count as usize {
            let length = usize::try_from(number(lengths, row)?).ok()?;
            offsets.push(offsets[row].checked_add(length)?);
        }
        let mut columns = Vec::new();
        for size in sizes {
            let (column, more) = rest.split_at_checked(offsets[count as usize].checked_mul(*size)?)?;
            columns.push(column);
            rest = more;
        }
        rest.is_empty().then_some(Self { rows, offsets, columns })
    }

    fn offsets_of(&self, rows: &Range<u64>) -> &[usize] {
        if rows.is_empty() {
            return &self.offsets[..1];
        }
        let first = (rows.start - self.rows.start) as usize;
        &self.offsets[first..=first + (rows.end - rows.start) as usize]
    }

    fn lengths_of(&self, rows: &Range<u64>) -> impl Iterator<Item = usize> {
        self.offsets_of(rows).windows(2).map(|pair| pair[1] - pair[0])
    }

    fn entries_of(&self, rows: &Range<u64>, column: usize, sizes: &[usize]) -> &'a [u8] {
        let offsets = self.offsets_of(rows);
        let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
        &self.columns[column][start * sizes[column]..end * sizes[column]]
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at * NUMBER_BYTES..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn damaged() -> HookFailed {
    HookFailed::because("what was packed of the rows is damaged")
}

/// The rows of a rank. That they are an interval was looked at when they were registered.
fn interval(partition: &Partition, rank: u32) -> Range<u64> {
    partition
        .owned_interval(rank, 0)
        .map_or(0..0, |(start, end)| start..end)
}

/// Empty, and inside of the first, where they do not overlap.
fn overlap(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = one.start.max(other.start).min(one.end);
    start..one.end.min(other.end).max(start)
}

#[cfg(test)]
mod tests;
