//! A good order for more ranks than the exact method is meant for: largest overlaps first (keeps at least half of what
//! the best order keeps), then cheapest fillings, then a bounded number of rounds of exchanges. Never exact.

use super::order::Matching;
use pcm_proto::ids::Rank;
use std::cmp::Reverse;

/// Processes looked at for one empty place; bounds the filling at n × this.
const CANDIDATES_MAX: usize = 1024;

/// Rounds of exchanges; later ones hardly find anything.
const ROUNDS_MAX: usize = 4;

/// The index of the process for each new rank.
pub(super) fn assign(matching: &Matching<'_>) -> Vec<usize> {
    let kept = largest_overlaps_first(matching);
    let mut placed = fill(matching, &kept);
    exchange(matching, &mut placed);
    placed
}

fn largest_overlaps_first(matching: &Matching<'_>) -> Vec<Option<usize>> {
    let mut overlaps: Vec<(Reverse<u64>, u32, usize)> = matching
        .overlap
        .entries()
        .filter_map(|(from, to, bytes)| Some((Reverse(bytes), to, matching.member_before(from)?)))
        .collect();
    overlaps.sort_unstable();
    let mut is_placed = vec![false; matching.members.len()];
    let mut kept = vec![None; matching.members.len()];
    for (_, to, member) in overlaps {
        if kept[to as usize].is_none() && !is_placed[member] {
            kept[to as usize] = Some(member);
            is_placed[member] = true;
        }
    }
    kept
}

/// Gives the empty places the cheapest of the processes that are left.
pub(super) fn fill(matching: &Matching<'_>, kept: &[Option<usize>]) -> Vec<usize> {
    let mut is_placed = vec![false; matching.members.len()];
    kept.iter().flatten().for_each(|member| is_placed[*member] = true);
    let mut left: Vec<usize> = (0..matching.members.len())
        .filter(|member| !is_placed[*member])
        .collect();
    let place = |(to, kept): (usize, &Option<usize>)| {
        kept.unwrap_or_else(|| {
            let candidates = left.iter().enumerate().take(CANDIDATES_MAX);
            let cheapest = candidates.min_by_key(|(_, member)| matching.cost(**member, Rank(to as u32)));
            let (at, _) = cheapest.expect("there are as many processes as places");
            left.remove(at)
        })
    };
    kept.iter().enumerate().map(place).collect()
}

/// Exchanges the processes of two ranks where that is cheaper: each rank with those that hold its data, and with its
/// neighbour.
fn exchange(matching: &Matching<'_>, placed: &mut [usize]) {
    let mut place_of = vec![0; placed.len()];
    placed
        .iter()
        .enumerate()
        .for_each(|(to, member)| place_of[*member] = to);
    for _ in 0..ROUNDS_MAX {
        let mut has_changed = false;
        for to in 0..placed.len() {
            let holders = matching.overlap.sources(Rank(to as u32)).iter();
            let mut others: Vec<usize> = holders
                .filter_map(|(from, _)| Some(place_of[matching.member_before(*from)?]))
                .collect();
            others.push((to + 1) % placed.len());
            for other in others {
                let cost = |member: usize, to: usize| matching.cost(member, Rank(to as u32));
                let now = cost(placed[to], to) + cost(placed[other], other);
                let then = cost(placed[other], to) + cost(placed[to], other);
                if then < now {
                    placed.swap(to, other);
                    place_of[placed[to]] = to;
                    place_of[placed[other]] = other;
                    has_changed = true;
                }
            }
        }
        if !has_changed {
            return;
        }
    }
}
