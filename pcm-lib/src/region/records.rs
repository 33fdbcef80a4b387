//! Records: pieces of one size, such as particles, each of which belongs to the rank that a function of the program
//! names. The library keeps them, and divides them among any number of ranks.

use super::Element;
use super::HookFailed;
use super::block::Block;
use super::landing::{Landing, NotLanded};
use super::lent::Given;
use super::memory::MemoryError;
use super::moved::{Delivered, Move};
use std::fmt;
use std::ops::Range;
use zerocopy::FromBytes;

/// The rank, of so many, that a record belongs to.
pub type Owner = Box<dyn FnMut(&[u8], u32) -> Result<u32, HookFailed>>;

/// See the file head.
pub struct Records {
    size: usize,
    owner: Owner,
    held: Block,
    /// The owners of the records among the next ranks, from when data is given until it is taken up.
    pass: Option<Runs>,
}

enum Runs {
    /// So many records stay with their rank.
    Stay(usize),
    Owners(Vec<Run>),
}

impl Records {
    pub(super) fn new(size: usize, owner: Owner) -> Self {
        Self {
            size,
            owner,
            held: Block::default(),
            pass: None,
        }
    }

    /// Bytes of one record.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn count(&self) -> usize {
        self.held.bytes().len() / self.size
    }

    /// Makes room for so many records, and keeps those that there are, the first ones; new ones are zeroed.
    pub fn resize(&mut self, count: usize) -> Result<(), MemoryError> {
        self.held.resize_for(count, self.size)
    }

    /// The records; none if their size is another.
    pub fn of<T: Element>(&mut self) -> Option<&mut [T]> {
        let is_so = self.size == size_of::<T>();
        is_so
            .then(|| <[T]>::mut_from_bytes(self.held.bytes_mut()).ok())
            .flatten()
    }

    pub fn bytes(&self) -> &[u8] {
        self.held.bytes()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.held.bytes_mut()
    }

    /// While the number of ranks stays, records stay with their rank; else each may go to any.
    pub(super) fn targets(&mut self, from: u32, by: &Move<'_>) -> Vec<u32> {
        // The first question of a change: what the program said for one that was not made does not count.
        self.pass = None;
        match by.before == by.after {
            true => vec![from],
            false => (0..by.after).collect(),
        }
    }

    /// Gives a rank its records, in their order.
    pub(super) fn give(&mut self, to: u32, by: &Move<'_>) -> Result<Given, HookFailed> {
        self.look(by)?;
        let bytes = self.held.bytes();
        let all = by.is_whole.then_some(0..self.count());
        let of_rank = self.of_rank(to).filter(|_| !by.is_whole);
        let ranges = all.into_iter().chain(of_rank);
        let records = ranges.map(|range| &bytes[range.start * self.size..range.end * self.size]);
        Ok(Given::of(Vec::new(), records))
    }

    /// Asks for the owners among the next ranks, once in a change.
    fn look(&mut self, by: &Move<'_>) -> Result<(), HookFailed> {
        if self.pass.is_some() || by.is_whole {
            return Ok(());
        }
        let records = self.held.bytes().chunks_exact(self.size);
        let runs = match by.before == by.after {
            true => Runs::Stay(records.len()),
            false => Runs::Owners(owners_of(&mut self.owner, records, by.after)?),
        };
        self.pass = Some(runs);
        Ok(())
    }

    /// The records that are to be with a rank.
    fn of_rank(&self, rank: u32) -> impl Iterator<Item = Range<usize>> + Clone {
        let (stay, owners) = match &self.pass {
            Some(Runs::Stay(count)) => (Some(0..*count), &[][..]),
            Some(Runs::Owners(owners)) => (None, &**owners),
            None => (None, &[][..]),
        };
        let runs = owners.iter().scan(0, |end, run| {
            let start = *end;
            *end += run.count as usize;
            Some((run.owner, start..*end))
        });
        let of_rank = runs.filter(move |(owner, _)| *owner == rank).map(|(_, range)| range);
        stay.into_iter().chain(of_rank)
    }

    /// Places for records that come from these ranks; a flag says which one is this.
    pub(super) fn landing(&mut self, from: &[(u32, bool)], by: &Move<'_>) -> Result<Landing, HookFailed> {
        if from.iter().any(|(_, is_own)| *is_own) {
            self.look(by)?;
        }
        let parts = from.iter().map(|(_, is_own)| (None, *is_own));
        Ok(Landing::new(parts, vec![self.size]))
    }

    pub(super) fn land(&mut self, landing: &mut Landing, by: &Move<'_>) -> Result<(), NotLanded> {
        let mut held = [std::mem::take(&mut self.held)];
        let outcome = landing.land(&mut held, self.kept(landing.has_own(), by));
        [self.held] = held;
        outcome
    }

    /// All has come, and nothing has changed.
    pub(super) fn landed(&self, landing: &mut Landing, by: &Move<'_>) {
        let kept = self.kept(landing.has_own(), by);
        landing.copy_kept(std::slice::from_ref(&self.held), kept);
    }

    pub(super) fn take_up(&mut self, landing: Landing, by: &Move<'_>) {
        let mut held = [std::mem::take(&mut self.held)];
        let has_own = landing.has_own();
        landing.commit(&mut held, self.kept(has_own, by));
        [self.held] = held;
        self.pass = None;
    }

    fn kept(&self, has_own: bool, by: &Move<'_>) -> impl Iterator<Item = Range<usize>> + Clone {
        assert!(
            !has_own || self.pass.is_some(),
            "the owners are known until the records are taken up"
        );
        self.of_rank(by.rank).filter(move |_| has_own)
    }

    pub(super) fn leave(&mut self) {
        self.pass = None;
        self.held.leave();
    }

    pub(super) fn settle(&mut self) {
        self.pass = None;
        self.held.settle();
    }

    /// Takes what belongs to this rank.
    pub(super) fn unpack(&mut self, parts: &[Delivered<'_>], by: &Move<'_>) -> Result<(), HookFailed> {
        self.pass = None;
        if parts.iter().any(|part| part.bytes.len() % self.size != 0) {
            return Err(HookFailed::because("a part of the records is cut short"));
        }
        let is_mine = !by.is_whole || by.before == by.after;
        let mut mine = Vec::new();
        for part in parts.iter().filter(|_| !is_mine) {
            let runs = owners_of(&mut self.owner, part.bytes.chunks_exact(self.size), by.after)?;
            let mut rest = part.bytes;
            for run in runs {
                let (records, more) = rest.split_at(run.count as usize * self.size);
                if run.owner == by.rank {
                    mine.push(records);
                }
                rest = more;
            }
        }
        if is_mine {
            mine.extend(parts.iter().map(|part| part.bytes));
        }
        let bytes = mine.iter().map(|bytes| bytes.len()).sum();
        let made = Block::zeroed(bytes);
        self.held = made.map_err(|error| HookFailed::because(error.to_string()))?;
        let mut rest = self.held.bytes_mut();
        for bytes in mine {
            let (filled, more) = rest.split_at_mut(bytes.len());
            filled.copy_from_slice(bytes);
            rest = more;
        }
        Ok(())
    }
}

/// Records side by side with one owner.
#[derive(Clone, Copy, Debug)]
struct Run {
    owner: u32,
    count: u32,
}

fn owners_of<'a>(
    owner: &mut Owner,
    records: impl Iterator<Item = &'a [u8]>,
    ranks: u32,
) -> Result<Vec<Run>, HookFailed> {
    let mut runs: Vec<Run> = Vec::new();
    for record in records {
        let owner = owner_of(owner, record, ranks)?;
        match runs.last_mut() {
            Some(run) if run.owner == owner && run.count < u32::MAX => run.count += 1,
            _ => runs.push(Run { owner, count: 1 }),
        }
    }
    Ok(runs)
}

fn owner_of(owner: &mut Owner, record: &[u8], ranks: u32) -> Result<u32, HookFailed> {
    match owner(record, ranks)? {
        rank if rank < ranks => Ok(rank),
        _ => Err(HookFailed::because("the owner of a record is no rank")),
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records of {} bytes", self.count(), self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of two bytes, which belong to the rank of their first byte.
    fn records(held: &[[u8; 2]]) -> Records {
        let owner = |record: &[u8], ranks: u32| Ok(u32::from(record[0]) % ranks);
        let mut records = Records::new(2, Box::new(owner));
        records.resize(held.len()).unwrap();
        records.bytes_mut().copy_from_slice(held.as_flattened());
        records
    }

    /// All records of ranks after a move, rank by rank; packed for each, or whole.
    fn moved(old: &[Vec<[u8; 2]>], after: u32, is_whole: bool) -> Vec<Vec<u8>> {
        let before = old.len() as u32;
        let mut ranks: Vec<Records> = old.iter().map(|held| records(held)).collect();
        let to = |rank: u32| {
            let by = Move::among((before, after), rank).whole(is_whole);
            let mut parts = Vec::new();
            for (from, held) in (0..).zip(&mut ranks) {
                if held.targets(from, &by).contains(&rank) {
                    parts.push((from, held.give(rank, &by).unwrap().bytes()));
                }
            }
            let delivered = parts.iter().map(|(from, bytes)| Delivered { from: *from, bytes });
            let mut got = records(&[]);
            got.unpack(&delivered.collect::<Vec<_>>(), &by).unwrap();
            got.bytes().to_vec()
        };
        (0..after).map(to).collect()
    }

    #[test]
    fn each_record_goes_to_its_owner_and_stays_where_it_is_while_the_number_of_ranks_does() {
        let old = vec![vec![[0, 1], [1, 2], [5, 3]], vec![], vec![[7, 4], [0, 5]]];
        for is_whole in [false, true] {
            let stays: Vec<Vec<u8>> = old.iter().map(|held| held.as_flattened().to_vec()).collect();
            assert_eq!(moved(&old, 3, is_whole), stays);
            assert_eq!(moved(&old, 1, is_whole), [vec![0, 1, 1, 2, 5, 3, 7, 4, 0, 5]]);
            assert_eq!(moved(&old, 2, is_whole), [vec![0, 1, 0, 5], vec![1, 2, 5, 3, 7, 4]]);
        }
    }

    #[test]
    fn an_owner_that_is_no_rank_and_a_record_cut_short_are_refused() {
        let mut wrong = Records::new(2, Box::new(|_, ranks| Ok(ranks)));
        wrong.resize(1).unwrap();
        let by = Move::among((1, 2), 0);
        let refused = wrong.give(0, &by).unwrap_err();
        assert!(refused.text.contains("no rank"), "{refused}");
        let part = Delivered {
            from: 0,
            bytes: &[1, 2, 3],
        };
        assert!(records(&[]).unpack(&[part], &by).is_err());
        assert!(records(&[]).resize(usize::MAX).is_err());
    }

    #[test]
    fn a_pass_that_was_given_up_does_not_count_for_the_next_one() {
        let mut held = records(&[[0, 1], [1, 2]]);
        let by = Move::among((1, 2), 0);
        held.give(0, &by).unwrap();
        held.resize(3).unwrap();
        held.targets(0, &by);
        assert_eq!(held.give(0, &by).unwrap().bytes(), [0, 1, 0, 0]);
    }
}
