//! Which ranks of a job wait for each other for ever, and why: a judgement on two looks at the job's ranks. Pure.
//!
//! A rank *may go on* when it is outside of MPI, began another call between the looks, or is in a call of which it is
//! not known what it waits for. A rank that waits may go on when one of those it waits for may (all of them, where the
//! call needs all). What is left when nothing more follows is stuck: nobody outside can release it. So a slow rank
//! excuses all who wait for it, and doubt always speaks for the job.

mod finding;
mod view;
mod waits;

pub use finding::{Finding, Kind, Report, rank_list};
pub use view::View;

use pcm_proto::rank_snapshot::RankLook;
use std::collections::{BTreeMap, BTreeSet};
use waits::{Need, Wait};

/// Judges a job by two looks at its ranks, the second at least half a second after the first.
pub fn judge(first: &[RankLook], second: &[RankLook]) -> Report {
    let view = View::new(first, second);
    let waits: Vec<(u32, Wait)> = view
        .held()
        .filter_map(|rank| waits::of(&view, rank).map(|wait| (rank, wait)))
        .collect();
    let stuck = stuck(&view, &waits);
    let held: Vec<&(u32, Wait)> = waits.iter().filter(|(rank, _)| stuck.contains(rank)).collect();
    let excused = waits.iter().filter(|(rank, _)| !stuck.contains(rank));
    let held_by = excused.clone().map(|(rank, _)| (*rank, holders(*rank, &view, &waits)));
    Report {
        held_by: held_by.collect(),
        findings: finding::explain(&view, &held),
        stuck: stuck.iter().copied().collect(),
        waiting: excused.map(|(rank, _)| *rank).collect(),
        ranks: view.ranks().count() as u32,
    }
}

/// The waiting ranks that nobody can release.
fn stuck(view: &View<'_>, waits: &[(u32, Wait)]) -> BTreeSet<u32> {
    let mut stuck: BTreeSet<u32> = waits.iter().map(|(rank, _)| *rank).collect();
    // Each round but the last takes at least one rank out.
    for _ in 0..=waits.len() {
        let is_free = |rank: &u32| !stuck.contains(rank) && !view.is_finished(*rank);
        let released: Vec<u32> = waits
            .iter()
            .filter(|(rank, wait)| stuck.contains(rank) && !wait.is_hopeless && may_go_on(wait, &is_free))
            .map(|(rank, _)| *rank)
            .collect();
        if released.is_empty() {
            break;
        }
        for rank in released {
            stuck.remove(&rank);
        }
    }
    stuck
}

/// The ranks that a rank waits for, directly or behind others, of which no wait is known.
fn holders(rank: u32, view: &View<'_>, waits: &[(u32, Wait)]) -> Vec<u32> {
    let of: BTreeMap<u32, &[u32]> = waits.iter().map(|(rank, wait)| (*rank, wait.of.as_slice())).collect();
    let (mut seen, mut next) = (BTreeSet::from([rank]), vec![rank]);
    let mut ends = BTreeSet::new();
    while let Some(rank) = next.pop() {
        match of.get(&rank) {
            Some(others) => next.extend(others.iter().filter(|other| seen.insert(**other))),
            None if view.is_finished(rank) => {}
            None => _ = ends.insert(rank),
        }
    }
    ends.into_iter().collect()
}

fn may_go_on(wait: &Wait, is_free: &impl Fn(&u32) -> bool) -> bool {
    match wait.need {
        Need::All => wait.of.iter().all(is_free),
        Need::Any => wait.of.iter().any(is_free),
    }
}
