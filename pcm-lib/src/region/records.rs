//! Records: pieces of one size, such as particles, each of which belongs to the rank that a function of the program
//! names. The library keeps them, and divides them among any number of ranks.

use super::Element;
use super::HookFailed;
use super::block::Block;
use super::memory::MemoryError;
use super::moved::{Delivered, Move};
use std::fmt;
use zerocopy::FromBytes;

/// The rank, of so many, that a record belongs to.
pub type Owner = Box<dyn FnMut(&[u8], u32) -> Result<u32, HookFailed>>;

/// See the file head.
pub struct Records {
    size: usize,
    owner: Owner,
    held: Block,
    /// The owners of the records among the next ranks, while data is packed for one of these after the other.
    pass: Option<Pass>,
}

struct Pass {
    ranks: u32,
    last: u32,
    owners: Vec<u32>,
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
    pub(super) fn targets(&self, from: u32, by: &Move<'_>) -> Vec<u32> {
        match by.before == by.after {
            true => vec![from],
            false => (0..by.after).collect(),
        }
    }

    pub(super) fn pack(&mut self, to: u32, by: &Move<'_>, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        if by.is_whole || by.before == by.after {
            out.extend_from_slice(self.held.bytes());
            return Ok(());
        }
        let known = self.pass.take();
        let known = known.filter(|pass| pass.ranks == by.after && pass.last < to);
        let owners = match known {
            Some(pass) => pass.owners,
            None => self.owners(by.after)?,
        };
        copy_owned(self.held.bytes(), &owners, to, out);
        self.pass = Some(Pass {
            ranks: by.after,
            last: to,
            owners,
        });
        Ok(())
    }

    fn owners(&mut self, ranks: u32) -> Result<Vec<u32>, HookFailed> {
        owners_of(&mut self.owner, self.held.bytes().chunks_exact(self.size), ranks)
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
            let owners = owners_of(&mut self.owner, part.bytes.chunks_exact(self.size), by.after)?;
            copy_owned(part.bytes, &owners, by.rank, &mut mine);
        }
        let all = match is_mine {
            true => parts.iter().map(|part| part.bytes).collect(),
            false => vec![&*mine],
        };
        let count = all.iter().map(|bytes| bytes.len() / self.size).sum();
        let made = Block::zeroed_for(count, self.size);
        self.held = made.map_err(|error| HookFailed::because(error.to_string()))?;
        let mut rest = self.held.bytes_mut();
        for bytes in all {
            let (filled, more) = rest.split_at_mut(bytes.len());
            filled.copy_from_slice(bytes);
            rest = more;
        }
        Ok(())
    }
}

fn owners_of<'a>(
    owner: &mut Owner,
    records: impl ExactSizeIterator<Item = &'a [u8]>,
    ranks: u32,
) -> Result<Vec<u32>, HookFailed> {
    let mut owners = Vec::with_capacity(records.len());
    for record in records {
        owners.push(owner_of(owner, record, ranks)?);
    }
    Ok(owners)
}

/// Copies the records of one owner, those that lie side by side at once.
fn copy_owned(records: &[u8], owners: &[u32], to: u32, out: &mut Vec<u8>) {
    let size = records.len().checked_div(owners.len()).unwrap_or(0);
    out.reserve_exact(size * owners.iter().filter(|owner| **owner == to).count());
    let mut at = 0;
    for run in owners.chunk_by(|one, next| one == next) {
        let end = at + run.len() * size;
        if run[0] == to {
            out.extend_from_slice(&records[at..end]);
        }
        at = end;
    }
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
                    let mut bytes = Vec::new();
                    held.pack(rank, &by, &mut bytes).unwrap();
                    parts.push((from, bytes));
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
        let refused = wrong.pack(0, &by, &mut Vec::new()).unwrap_err();
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
        held.pack(0, &by, &mut Vec::new()).unwrap();
        held.resize(3).unwrap();
        let mut bytes = Vec::new();
        held.pack(0, &by, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 0, 0]);
    }
}
