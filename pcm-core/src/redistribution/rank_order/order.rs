//! The order of processes in the new communicator. Owns the choice of method; every rank and daemon that asks with the
//! same arguments gets the same answer.

use super::assignment::{self, Cost};
use super::overlap::Overlap;
use super::{chain, greedy};
use crate::redistribution::change::{ChangeError, RankChange};
use pcm_proto::ids::{Bytes, ProcessId, Rank};

/// Most ranks for which the exact method is used whatever the overlap looks like: its time grows with the third power
/// and stays below a second here.
pub const RANKS_EXACT_MAX: usize = 256;

/// What moving a byte from one process to another costs.
#[derive(Clone, Copy)]
pub enum Price<'a> {
    /// The same between all.
    Uniform,
    /// By (from, to); lower within a host than across. Asked only for two different processes.
    PerPair(&'a dyn Fn(ProcessId, ProcessId) -> u32),
}

/// How an order was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No order is cheaper.
    Exact,
    /// Large and irregular; with uniform prices it keeps at least half of what the best order keeps.
    Heuristic,
}

/// A chosen order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankOrder {
    /// Who had which rank, and who gets which.
    pub change: RankChange,
    /// Bytes that change their process.
    pub moved: Bytes,
    /// Sum of bytes times price.
    pub cost: u128,
    /// How it was found.
    pub method: Method,
}

/// Why there is no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The overlap is for other numbers of ranks.
    #[error("overlap of {} and {} ranks for {} and {} processes", .overlap.0, .overlap.1, .processes.0, .processes.1)]
    RanksDiffer {
        /// Ranks of the overlap.
        overlap: (u32, u32),
        /// Processes before and after.
        processes: (usize, usize),
    },
    /// The lists of processes are no rank change.
    #[error(transparent)]
    Change(ChangeError),
}

/// Orders `members`, the processes of the new communicator, so that the least (price times bytes) moves. Among equally
/// cheap orders survivors keep ranks close to their old ones and newcomers stand in the order given.
pub fn rank_order(
    before: &[ProcessId],
    members: &[ProcessId],
    overlap: &Overlap,
    price: Price<'_>,
) -> Result<RankOrder, OrderError> {
    let processes = (before.len(), members.len());
    if (overlap.ranks().0 as usize, overlap.ranks().1 as usize) != processes {
        return Err(OrderError::RanksDiffer {
            overlap: overlap.ranks(),
            processes,
        });
    }
    let listed = RankChange::new(before.to_vec(), members.to_vec()).map_err(OrderError::Change)?;
    let matching = Matching::new(before, members, &listed, overlap, price);
    let (mut placed, method) = place(&matching);
    if members.len() <= RANKS_EXACT_MAX {
        newcomers_in_order(&matching, &mut placed);
    }
    let cost = (0..)
        .zip(&placed)
        .map(|(to, &member)| matching.cost(member, Rank(to)).price as u128)
        .sum();
    let after = placed.into_iter().map(|member| members[member]).collect();
    let change = RankChange::new(before.to_vec(), after).map_err(OrderError::Change)?;
    Ok(RankOrder {
        moved: overlap.bytes_moved(&change),
        change,
        cost,
        method,
    })
}

fn place(matching: &Matching<'_>) -> (Vec<usize>, Method) {
    let size = matching.members.len();
    if size <= RANKS_EXACT_MAX {
        let costs: Vec<Cost> = (0..size)
            .flat_map(|member| (0..size as u32).map(move |to| (member, Rank(to))))
            .map(|(member, to)| matching.cost(member, to))
            .collect();
        return (assignment::assign(&costs, size), Method::Exact);
    }
    if matches!(matching.price, Price::Uniform) {
        let survives: Vec<bool> = matching.member_by_rank.iter().map(Option::is_some).collect();
        if let Some(kept) = chain::keep_most(matching.overlap, &survives) {
            let kept: Vec<Option<usize>> = kept
                .into_iter()
                .map(|from| from.and_then(|from| matching.member_before(from)))
                .collect();
            return (greedy::fill(matching, &kept), Method::Exact);
        }
    }
    (greedy::assign(matching), Method::Heuristic)
}

/// Newcomers that cost the same either way take their ranks in the order given.
fn newcomers_in_order(matching: &Matching<'_>, placed: &mut [usize]) {
    let places: Vec<usize> = (0..placed.len())
        .filter(|&to| matching.old_rank[placed[to]].is_none())
        .collect();
    for (n, &low) in places.iter().enumerate() {
        for &high in &places[n + 1..] {
            let cost = |member: usize, to: usize| matching.cost(member, Rank(to as u32));
            let (at_low, at_high) = (placed[low], placed[high]);
            let now = cost(at_low, low) + cost(at_high, high);
            if at_low > at_high && cost(at_high, low) + cost(at_low, high) == now {
                placed.swap(low, high);
            }
        }
    }
}

/// The question in numbers: members (by index) against new ranks.
pub(super) struct Matching<'a> {
    pub(super) members: &'a [ProcessId],
    pub(super) overlap: &'a Overlap,
    before: &'a [ProcessId],
    price: Price<'a>,
    /// The old rank of each member; none for newcomers.
    old_rank: Vec<Option<Rank>>,
    /// The member that had each old rank; none for leavers.
    member_by_rank: Vec<Option<usize>>,
    /// Bytes of each new rank.
    wanted: Vec<u64>,
}

impl<'a> Matching<'a> {
    pub(super) fn new(
        before: &'a [ProcessId],
        members: &'a [ProcessId],
        listed: &RankChange,
        overlap: &'a Overlap,
        price: Price<'a>,
    ) -> Self {
        let rows = (0..overlap.ranks().1).map(|to| overlap.sources(Rank(to)));
        Self {
            members,
            overlap,
            before,
            price,
            old_rank: members.iter().map(|&process| listed.rank_before(process)).collect(),
            member_by_rank: before
                .iter()
                .map(|&p| listed.rank_after(p).map(|Rank(at)| at as usize))
                .collect(),
            wanted: rows.map(|row| row.iter().map(|(_, bytes)| bytes).sum()).collect(),
        }
    }

    /// The member that had an old rank, if it stays.
    pub(super) fn member_before(&self, from: u32) -> Option<usize> {
        self.member_by_rank[from as usize]
    }

    /// What it costs that a member takes a new rank. The square of the distance to the old rank breaks ties: it keeps
    /// survivors in their order.
    pub(super) fn cost(&self, member: usize, to: Rank) -> Cost {
        let process = self.members[member];
        let old = self.old_rank[member];
        let price = match self.price {
            Price::Uniform => {
                let kept = old.map_or(0, |old| self.overlap.bytes(old, to));
                i128::from(self.wanted[to.0 as usize] - kept)
            }
            Price::PerPair(price) => {
                let sources = self
                    .overlap
                    .sources(to)
                    .iter()
                    .map(|(from, bytes)| (self.before[*from as usize], *bytes));
                let moved = sources.filter(|(holder, _)| *holder != process);
                moved
                    .map(|(holder, bytes)| i128::from(bytes) * i128::from(price(holder, process)))
                    .sum()
            }
        };
        let distance = old.map_or(0, |old| i64::from(old.0) - i64::from(to.0));
        Cost {
            price,
            tie: distance * distance,
        }
    }
}
