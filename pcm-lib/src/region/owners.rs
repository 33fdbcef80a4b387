//! A list that says for each row of unstructured data which rank owns it. All ranks have the whole list. When the
//! number of ranks changes, a function of the program, or the library, says the next owners.

use super::HookFailed;
use super::moved::{Delivered, Move};
use std::fmt;
use std::ops::Range;

/// Writes the owners among so many ranks over those that there were.
pub type Divide = Box<dyn FnMut(&mut [u32], u32) -> Result<(), HookFailed>>;

/// See the file head.
pub struct Owners {
    list: Vec<u32>,
    rank: u32,
    /// The rows of this rank, rising.
    numbers: Vec<usize>,
    divide: Option<Divide>,
    /// Owners among the next ranks, while data is packed for these.
    next: Option<Vec<u32>>,
}

impl Owners {
    /// Rows that are divided in equal blocks at first, or as the list says.
    pub(super) fn new(
        rows: usize,
        list: Option<Vec<u32>>,
        (rank, ranks): (u32, u32),
        divide: Option<Divide>,
    ) -> Result<Self, HookFailed> {
        let list = list.unwrap_or_else(|| {
            let mut list = vec![0; rows];
            in_blocks(&mut list, ranks);
            list
        });
        check(&list, ranks)?;
        Ok(Self {
            numbers: numbers_of(&list, rank),
            list,
            rank,
            divide,
            next: None,
        })
    }

    /// Rows of all ranks.
    pub fn rows(&self) -> usize {
        self.list.len()
    }

    pub fn owner(&self, row: usize) -> Option<u32> {
        self.list.get(row).copied()
    }

    /// The rows of this rank, rising.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    pub(super) fn own(&self) -> Vec<Range<u64>> {
        runs(&self.list, self.rank)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.list)
    }

    /// A rank gets the list from one of the old ranks.
    pub(super) fn targets(&mut self, from: u32, by: &Move<'_>) -> Vec<u32> {
        // The first question of a change: what the program said for one that was not made does not count.
        self.next = None;
        let gives = |to: &u32| to % by.before == from;
        let targets: Vec<u32> = (0..by.after).filter(gives).collect();
        match targets.is_empty() {
            true => vec![from % by.after],
            false => targets,
        }
    }

    pub(super) fn pack(&mut self, by: &Move<'_>, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        let list = match by.is_whole {
            true => &self.list,
            false => self.next(by)?,
        };
        out.extend(list.iter().flat_map(|owner| owner.to_le_bytes()));
        Ok(())
    }

    /// The list in force.
    pub(super) fn packed(&self) -> Vec<u8> {
        self.list.iter().flat_map(|owner| owner.to_le_bytes()).collect()
    }

    /// The rows that a rank is to have.
    pub(super) fn next_of(&mut self, to: u32, by: &Move<'_>) -> Result<Vec<Range<u64>>, HookFailed> {
        let rank = self.rank;
        let next = self.next(by)?.clone();
        let goes = self.list.iter().zip(next);
        Ok(runs_where(goes.map(|(owner, next)| *owner == rank && next == to)))
    }

    fn next(&mut self, by: &Move<'_>) -> Result<&Vec<u32>, HookFailed> {
        let next = match self.next.take() {
            Some(next) => next,
            None => self.divided(by)?,
        };
        Ok(self.next.insert(next))
    }

    /// The owners among the ranks after. While the number of ranks stays, so do they.
    fn divided(&mut self, by: &Move<'_>) -> Result<Vec<u32>, HookFailed> {
        let mut list = self.list.clone();
        match &mut self.divide {
            _ if by.before == by.after => {}
            Some(divide) => divide(&mut list, by.after)?,
            None => in_blocks(&mut list, by.after),
        }
        check(&list, by.after)?;
        Ok(list)
    }

    pub(super) fn unpack(&mut self, parts: &[Delivered<'_>], by: &Move<'_>) -> Result<(), HookFailed> {
        let differs = |part: &Delivered<'_>| part.bytes != parts[0].bytes;
        if parts.iter().any(differs) {
            return Err(HookFailed::because("two ranks have different lists of owners"));
        }
        let bytes = parts.first().map_or(&[][..], |part| part.bytes);
        let (words, rest) = bytes.as_chunks();
        if words.len() != self.list.len() || !rest.is_empty() {
            return Err(HookFailed::because("the list of owners is of another length"));
        }
        self.list = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        if by.is_whole {
            self.list = self.divided(by)?;
        }
        self.next = None;
        self.rank = by.rank;
        self.numbers = numbers_of(&self.list, by.rank);
        check(&self.list, by.after)
    }
}

/// Rows in the order of their owners, then of their numbers, get equal blocks of ranks.
fn in_blocks(list: &mut [u32], ranks: u32) {
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|row| list[*row]);
    let count = order.len() as u128;
    for (place, row) in order.into_iter().enumerate() {
        list[row] = (place as u128 * u128::from(ranks) / count) as u32;
    }
}

fn check(list: &[u32], ranks: u32) -> Result<(), HookFailed> {
    match list.iter().position(|owner| *owner >= ranks) {
        Some(row) => Err(HookFailed::because(format!(
            "row {row} has owner {}, which is no rank of {ranks}",
            list[row].cast_signed()
        ))),
        None => Ok(()),
    }
}

fn numbers_of(list: &[u32], rank: u32) -> Vec<usize> {
    let own = list.iter().enumerate().filter(|(_, owner)| **owner == rank);
    own.map(|(row, _)| row).collect()
}

/// The rows of a rank.
fn runs(list: &[u32], rank: u32) -> Vec<Range<u64>> {
    runs_where(list.iter().map(|owner| *owner == rank))
}

fn runs_where(is_in: impl Iterator<Item = bool>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (row, _) in (0..).zip(is_in).filter(|(_, is_in)| *is_in) {
        match runs.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            _ => runs.push(row..row + 1),
        }
    }
    runs
}

impl fmt::Debug for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owners of {} rows", self.rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(list: &[u32], ranks: u32, divide: Option<Divide>) -> Owners {
        Owners::new(list.len(), Some(list.to_vec()), (0, ranks), divide).unwrap()
    }

    fn rows_in(runs: Vec<Range<u64>>) -> Vec<u64> {
        runs.into_iter().flatten().collect()
    }

    #[test]
    fn without_a_list_rows_are_in_equal_blocks_and_stay_beside_those_of_their_owner() {
        let blocks = Owners::new(7, None, (1, 3), None).unwrap();
        assert_eq!(blocks.list, [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!((blocks.numbers(), rows_in(blocks.own())), (&[3, 4][..], vec![3, 4]));
        let mut owners = owners(&[1, 0, 1, 0, 1, 0, 1, 0], 2, None);
        let next = owners.divided(&Move::among((2, 4), 0)).unwrap();
        assert_eq!(next, [2, 0, 2, 0, 3, 1, 3, 1]);
        assert!(Owners::new(0, None, (0, 3), None).unwrap().own().is_empty());
    }

    #[test]
    fn the_program_says_who_is_next_once_in_each_change_and_not_while_the_number_stays() {
        let calls = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = std::rc::Rc::clone(&calls);
        let divide = move |list: &mut [u32], ranks: u32| {
            counted.set(counted.get() + 1);
            list.iter_mut()
                .enumerate()
                .for_each(|(row, owner)| *owner = row as u32 % ranks);
            Ok(())
        };
        let mut owners = owners(&[0, 0, 1, 1], 2, Some(Box::new(divide)));
        for times in 1..3 {
            let by = Move::among((2, 3), 0);
            owners.targets(0, &by);
            assert_eq!(rows_in(owners.next_of(0, &by).unwrap()), [0]);
            assert_eq!(rows_in(owners.next_of(1, &by).unwrap()), [1]);
            owners.pack(&by, &mut Vec::new()).unwrap();
            assert_eq!(calls.get(), times);
        }
        let by = Move::among((2, 2), 0);
        owners.targets(0, &by);
        assert_eq!((rows_in(owners.next_of(0, &by).unwrap()), calls.get()), (vec![0, 1], 2));
    }

    #[test]
    fn owners_that_are_no_ranks_and_lists_that_differ_or_are_cut_short_are_refused() {
        let wrong = |list: &mut [u32], ranks: u32| {
            list[1] = ranks;
            Ok(())
        };
        let mut owners = owners(&[0, 1], 2, Some(Box::new(wrong)));
        let by = Move::among((2, 3), 0);
        let refused = owners.pack(&by, &mut Vec::new()).unwrap_err();
        assert!(refused.text.contains("row 1 has owner 3"), "{refused}");
        assert!(Owners::new(1, Some(vec![2]), (0, 2), None).is_err());
        let [one, other] = [[0; 8], [1, 0, 0, 0, 0, 0, 0, 0]];
        let mut taken = |parts: &[&[u8]]| {
            let parts = (0..).zip(parts).map(|(from, bytes)| Delivered { from, bytes });
            owners.unpack(&parts.collect::<Vec<_>>(), &by)
        };
        assert!(taken(&[&one, &one]).is_ok());
        for parts in [&[&one[..], &other][..], &[&one[..7]], &[&one[..4]], &[], &[&[9; 8]]] {
            assert!(taken(parts).is_err());
        }
    }
}
