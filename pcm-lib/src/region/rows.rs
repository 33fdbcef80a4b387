//! Rows of different lengths, such as those of a sparse matrix: entries of one or more columns, divided as the rows of
//! a registered array are, or by a list of owners. The library keeps them, and divides them among any number of ranks.

use super::Element;
use super::HookFailed;
use super::block::Block;
use super::landing::{Landing, NUMBER_BYTES, NotLanded, damaged};
use super::lent::Given;
use super::memory::MemoryError;
use super::moved::{Delivered, Move};
use super::owners::Owners;
use pcm_core::partition::Partition;
use pcm_proto::ids::RegionId;
use std::cell::RefCell;
use std::fmt::Write;
use std::ops::Range;
use std::rc::Rc;
use zerocopy::FromBytes;

/// What divides rows among the ranks.
#[derive(Clone, Debug)]
pub(super) enum Like {
    /// The first axis of an array.
    Array(RegionId),
    /// A list of owners.
    Owners(RegionId, Rc<RefCell<Owners>>),
}

/// See the file head.
#[derive(Debug)]
pub struct Rows {
    like: Like,
    /// Bytes of an entry in each column.
    sizes: Vec<usize>,
    /// Rows of this rank.
    own: Vec<Range<u64>>,
    /// Where each row begins, in entries; then where the last one ends.
    offsets: Vec<usize>,
    columns: Vec<Block>,
}

impl Rows {
    /// Rows of this rank, all without entries.
    pub(super) fn new(like: Like, sizes: Vec<usize>, own: Vec<Range<u64>>) -> Self {
        Self {
            like,
            offsets: vec![0; count(&own) as usize + 1],
            own,
            columns: sizes.iter().map(|_| Block::default()).collect(),
            sizes,
        }
    }

    pub(crate) fn like(&self) -> RegionId {
        match &self.like {
            Like::Array(id) | Like::Owners(id, _) => *id,
        }
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
        self.take_lengths(lengths.iter().copied())
    }

    fn take_lengths(&mut self, lengths: impl Iterator<Item = usize>) -> Result<(), MemoryError> {
        let offsets = offsets_of(lengths).ok_or(MemoryError::NotAddressable { wanted: u64::MAX })?;
        let entries = offsets[offsets.len() - 1];
        let made = self.sizes.iter().map(|size| Block::zeroed_for(entries, *size));
        let columns = made.collect::<Result<Vec<Block>, MemoryError>>()?;
        (self.offsets, self.columns) = (offsets, columns);
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

    /// The ranks that get rows of an old rank. One without rows packs nothing, for one rank. Where a list says the
    /// owners, a rank that joins does not know them yet: any rank may get rows of any.
    pub(super) fn targets(&self, from: u32, by: &Move<'_>) -> Vec<u32> {
        let targets: Vec<u32> = match (&self.like, by.division) {
            (Like::Owners(..), _) if by.before != by.after => (0..by.after).collect(),
            (Like::Array(_), Some([before, after])) => {
                let rows = interval(before, from);
                let gets = |to: &u32| !overlap(&rows, &interval(after, *to)).is_empty();
                (0..by.after).filter(gets).collect()
            }
            _ => Vec::new(),
        };
        match targets.is_empty() {
            true => vec![from.min(by.after.saturating_sub(1))],
            false => targets,
        }
    }

    /// The rows that go to a rank; all of them where that is worked out later.
    fn rows_for(&self, to: u32, by: &Move<'_>) -> Result<Vec<Range<u64>>, HookFailed> {
        let mut rows = match (&self.like, by.division) {
            (Like::Owners(_, owners), _) if !by.is_whole => owners.borrow_mut().next_of(to, by)?,
            (Like::Array(_), Some([_, after])) if !by.is_whole => {
                let to = interval(after, to);
                self.own.iter().map(|own| overlap(own, &to)).collect()
            }
            _ => self.own.clone(),
        };
        rows.retain(|run| !run.is_empty());
        Ok(rows)
    }

    /// Gives a rank its rows: their numbers and lengths, and then each column's entries.
    pub(super) fn give(&self, to: u32, by: &Move<'_>) -> Result<Given, HookFailed> {
        let runs = self.rows_for(to, by)?;
        let places = places_of(&self.own, &runs);
        let columns = self.columns.iter().zip(&self.sizes);
        let entries = columns.flat_map(|(column, size)| {
            let entries = places.iter().map(|place| self.entries_of(place));
            entries.map(move |entries| &column.bytes()[entries.start * size..entries.end * size])
        });
        Ok(Given::of(self.head(&runs, &places), entries))
    }

    /// The entries of some of the rows that this rank has.
    fn entries_of(&self, place: &Range<usize>) -> Range<usize> {
        self.offsets[place.start]..self.offsets[place.end]
    }

    /// The runs of the rows' numbers, and their lengths.
    fn head(&self, runs: &[Range<u64>], places: &[Range<usize>]) -> Vec<u8> {
        let numbers = 1 + 2 * runs.len() + count(runs) as usize;
        let mut head = Vec::with_capacity(numbers * NUMBER_BYTES);
        let mut put = |number: u64| head.extend_from_slice(&number.to_le_bytes());
        put(runs.len() as u64);
        for run in runs {
            put(run.start);
            put(run.end - run.start);
        }
        for place in places {
            let offsets = &self.offsets[place.start..=place.end];
            offsets.windows(2).for_each(|pair| put((pair[1] - pair[0]) as u64));
        }
        head
    }

    /// What a pack of all rows begins with; the columns follow it.
    pub(super) fn whole(&self) -> (Vec<u8>, impl Iterator<Item = &[u8]>) {
        let mut runs = self.own.clone();
        runs.retain(|run| !run.is_empty());
        let head = self.head(&runs, &places_of(&self.own, &runs));
        (head, self.columns.iter().map(Block::bytes))
    }

    /// Places for rows that come from these ranks; a flag says which one is this. None where their order is in the
    /// rows' numbers alone.
    pub(super) fn landing(&self, from: &[(u32, bool)], by: &Move<'_>) -> Option<Landing> {
        let (Like::Array(_), Some([before, after])) = (&self.like, by.division) else {
            return None;
        };
        let wanted = interval(after, by.rank);
        let rows = |from: u32| overlap(&interval(before, from), &wanted);
        let mut next = wanted.start;
        for (from, _) in from {
            let rows = rows(*from);
            if !rows.is_empty() && rows.start != next {
                return None;
            }
            next = next.max(rows.end);
        }
        let parts = from.iter().map(|(from, is_own)| (Some(rows(*from)), *is_own));
        (next == wanted.end).then(|| Landing::new(parts, self.sizes.clone()))
    }

    /// The rows that this rank keeps, by their places.
    fn kept(&self, landing: &Landing, by: &Move<'_>) -> Option<Range<usize>> {
        let [_, after] = by.division.filter(|_| landing.has_own())?;
        let kept = overlap(self.own.first()?, &interval(after, by.rank));
        let is_some = !kept.is_empty();
        is_some.then(|| places_of(&self.own, &[kept]).pop()).flatten()
    }

    pub(super) fn land(&mut self, landing: &mut Landing, by: &Move<'_>) -> Result<(), NotLanded> {
        let kept = self.kept(landing, by).map(|rows| self.entries_of(&rows));
        landing.land(&mut self.columns, kept.into_iter())
    }

    /// All has come: what can fail is done, and nothing has changed. Where each row will begin.
    pub(super) fn landed(&self, landing: &mut Landing, by: &Move<'_>) -> Result<Vec<usize>, HookFailed> {
        let kept = self.kept(landing, by).unwrap_or_default();
        let own = self.offsets[kept.start..=kept.end]
            .windows(2)
            .map(|pair| pair[1] - pair[0]);
        let offsets = offsets_of(landing.lengths(own)?.into_iter()).ok_or_else(damaged)?;
        landing.copy_kept(&self.columns, std::iter::once(self.entries_of(&kept)));
        Ok(offsets)
    }

    pub(super) fn take_up(&mut self, landing: Landing, offsets: Vec<usize>, by: &Move<'_>) {
        let kept = self.kept(&landing, by).map(|rows| self.entries_of(&rows));
        landing.commit(&mut self.columns, kept.into_iter());
        self.offsets = offsets;
        self.own = by.division.iter().map(|[_, after]| interval(after, by.rank)).collect();
    }

    pub(super) fn leave(&mut self) {
        self.columns.iter_mut().for_each(Block::leave);
    }

    pub(super) fn settle(&mut self) {
        self.columns.iter_mut().for_each(Block::settle);
    }

    /// Takes the rows of this rank, which must all be there.
    pub(super) fn unpack(&mut self, parts: &[Delivered<'_>], by: &Move<'_>) -> Result<(), HookFailed> {
        let own = match (&self.like, by.division) {
            (Like::Owners(_, owners), _) => owners.borrow().own(),
            (Like::Array(_), Some([_, after])) => vec![interval(after, by.rank)],
            (Like::Array(_), None) => Vec::new(),
        };
        let parts = parts.iter().map(|part| Packed::read(part.bytes, &self.sizes));
        let parts = parts.collect::<Option<Vec<Packed<'_>>>>().ok_or_else(damaged)?;
        let pieces = pieces_of(&own, &parts)?;
        let lengths = pieces.iter().flat_map(|(part, rows)| parts[*part].lengths_of(rows));
        let made = self.take_lengths(lengths);
        made.map_err(|error| HookFailed::because(error.to_string()))?;
        self.own = own;
        for (n, (column, size)) in self.columns.iter_mut().zip(&self.sizes).enumerate() {
            let mut rest = column.bytes_mut();
            for (part, rows) in &pieces {
                let bytes = parts[*part].entries_of(rows, n, *size);
                let (filled, more) = rest.split_at_mut(bytes.len());
                filled.copy_from_slice(bytes);
                rest = more;
            }
        }
        Ok(())
    }
}

/// Rows that one rank packed.
struct Packed<'a> {
    runs: Vec<Range<u64>>,
    /// Where each begins, in entries, and where the last one ends.
    offsets: Vec<usize>,
    columns: Vec<&'a [u8]>,
}

impl<'a> Packed<'a> {
    /// None if the bytes are not what was packed.
    fn read(bytes: &'a [u8], sizes: &[usize]) -> Option<Self> {
        let (count, bytes) = numbers(bytes, 1)?;
        let (bounds, bytes) = numbers(bytes, count[0].checked_mul(2)?)?;
        let runs: Option<Vec<Range<u64>>> = bounds
            .as_chunks()
            .0
            .iter()
            .map(|[start, length]| Some(*start..start.checked_add(*length)?))
            .collect();
        let runs = runs?;
        let rows = runs
            .iter()
            .try_fold(0_u64, |sum, run| sum.checked_add(run.end - run.start))?;
        let (lengths, mut rest) = numbers(bytes, rows)?;
        let offsets = offsets_of(
            lengths
                .into_iter()
                .map(|length| usize::try_from(length).unwrap_or(usize::MAX)),
        )?;
        let end = offsets[offsets.len() - 1];
        let mut columns = Vec::new();
        for size in sizes {
            let (column, more) = rest.split_at_checked(end.checked_mul(*size)?)?;
            columns.push(column);
            rest = more;
        }
        rest.is_empty().then_some(Self { runs, offsets, columns })
    }

    fn lengths_of(&self, rows: &Range<usize>) -> impl Iterator<Item = usize> {
        let offsets = &self.offsets[rows.start..=rows.end];
        offsets.windows(2).map(|pair| pair[1] - pair[0])
    }

    fn entries_of(&self, rows: &Range<usize>, column: usize, size: usize) -> &'a [u8] {
        &self.columns[column][self.offsets[rows.start] * size..self.offsets[rows.end] * size]
    }
}

/// The places, among the rows that a rank has, of some of them.
fn places_of(own: &[Range<u64>], runs: &[Range<u64>]) -> Vec<Range<usize>> {
    let mut places = Vec::with_capacity(runs.len());
    let (mut at, mut before) = (0, 0);
    for run in runs {
        while own[at].end <= run.start {
            before += own[at].end - own[at].start;
            at += 1;
        }
        let first = (before + run.start - own[at].start) as usize;
        places.push(first..first + (run.end - run.start) as usize);
    }
    places
}

/// Where the rows of a rank are, in their order: in which part, and which of its rows. Each must be there once.
fn pieces_of(own: &[Range<u64>], parts: &[Packed<'_>]) -> Result<Vec<(usize, Range<usize>)>, HookFailed> {
    let mut there: Vec<(Range<u64>, usize, usize)> = Vec::new();
    for (part, packed) in parts.iter().enumerate() {
        let mut place = 0;
        for run in packed.runs.iter().filter(|run| !run.is_empty()) {
            there.push((run.clone(), part, place));
            place += (run.end - run.start) as usize;
        }
    }
    there.sort_unstable_by_key(|(run, ..)| run.start);
    if there.windows(2).any(|pair| pair[0].0.end > pair[1].0.start) {
        return Err(HookFailed::because("rows are there twice"));
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    for run in own.iter().filter(|run| !run.is_empty()) {
        let mut next = run.start;
        while next < run.end {
            while there.get(at).is_some_and(|(known, ..)| known.end <= next) {
                at += 1;
            }
            let Some((known, part, place)) = there.get(at).filter(|(known, ..)| known.start <= next) else {
                return Err(HookFailed::because(format!("row {next} is missing")));
            };
            let end = known.end.min(run.end);
            let first = place + (next - known.start) as usize;
            pieces.push((*part, first..first + (end - next) as usize));
            next = end;
        }
    }
    Ok(pieces)
}

/// So many numbers, and what follows them.
fn numbers(bytes: &[u8], count: u64) -> Option<(Vec<u64>, &[u8])> {
    let length = usize::try_from(count).ok()?.checked_mul(NUMBER_BYTES)?;
    let (numbers, rest) = bytes.split_at_checked(length)?;
    let numbers = numbers.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    Some((numbers.collect(), rest))
}

/// Where rows of these lengths begin, and where the last one ends.
fn offsets_of(lengths: impl Iterator<Item = usize>) -> Option<Vec<usize>> {
    let mut offsets = Vec::with_capacity(lengths.size_hint().0 + 1);
    let mut end = 0_usize;
    offsets.push(end);
    for length in lengths {
        end = end.checked_add(length)?;
        offsets.push(end);
    }
    Some(offsets)
}

fn count(runs: &[Range<u64>]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
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
