//! Places ranks step by step: the slowest rank goes where it becomes fastest, as long as that helps. What policies
//! differ in is where a rank may go and what counts as better. Pure.

use crate::decide::predict::{Model, largest};
use crate::decide::proposal::{Change, Proposal};
use crate::decide::view::{SPARE_PER_RANK, View};
use pcm_proto::agent::Need;

/// Ranks that one proposal moves: more at once would rest on too long a chain of predictions.
pub const MOVES_MAX: usize = 16;

/// A step must make the moved rank faster by this part, or the next step moves it back.
const STEP_MIN: f64 = 0.02;

/// Whether one more rank may be placed on a node: it is open, and no other job loses a CPU by it.
pub fn has_room(view: &View, node: usize, arrived: usize) -> bool {
    let target = &view.nodes[node];
    if !target.is_open || target.is_draining {
        return false;
    }
    let own = view.own_ranks(node) as f64;
    let is_ours = f64::from(target.ranks) <= own;
    is_ours || view.spare(node) - arrived as f64 >= SPARE_PER_RANK
}

/// The nodes' memory after the moves so far must suffice for one more rank.
fn fits(view: &View, places: &[usize], rank: usize, node: usize) -> bool {
    let arrived = (0..view.ranks.len()).filter(|other| places[*other] == node && view.ranks[*other].node != node);
    let bytes: f64 = arrived.map(|other| view.ranks[other].registered).sum();
    let free = view.nodes[node].free_memory;
    // Nothing is known of the memory of a node that says it has none.
    free <= 0.0 || bytes + view.ranks[rank].registered <= 0.8 * free
}

/// Moves the slowest ranks one after the other; `may` says where a rank may go, `time` how good a placement is. Answers
/// the best placement on the way, if it is better than the present one.
pub fn relieve(
    model: &Model<'_>,
    may: &dyn Fn(usize, usize) -> bool,
    time: &dyn Fn(&[usize]) -> f64,
) -> Option<(Vec<usize>, f64)> {
    let view = model.view;
    let mut places = view.places();
    let start = time(&places);
    let mut best: Option<(Vec<usize>, f64)> = None;
    for _ in 0..MOVES_MAX.min(view.ranks.len()) {
        let strain = model.strain_after(&places);
        let slowest = (0..strain.len()).max_by(|a, b| strain[*a].total_cmp(&strain[*b]))?;
        let Some(next) = best_place(model, may, time, &places, slowest, strain[slowest]) else {
            break;
        };
        places[slowest] = next;
        let now = time(&places);
        if now < best.as_ref().map_or(start, |(_, time)| *time) * (1.0 - 1e-9) {
            best = Some((places.clone(), now));
        }
    }
    best
}

fn best_place(
    model: &Model<'_>,
    may: &dyn Fn(usize, usize) -> bool,
    time: &dyn Fn(&[usize]) -> f64,
    places: &[usize],
    rank: usize,
    strain: f64,
) -> Option<usize> {
    let view = model.view;
    let start = time(places);
    let mut best: Option<(usize, (f64, f64))> = None;
    let mut trial = places.to_vec();
    for node in 0..view.nodes.len() {
        let arrived = (0..places.len()).filter(|other| places[*other] == node && view.ranks[*other].node != node);
        let is_possible = node != places[rank]
            && has_room(view, node, arrived.count())
            && !view.share_cpus(node, places[rank])
            && fits(view, places, rank, node)
            && may(rank, node);
        if !is_possible {
            continue;
        }
        trial[rank] = node;
        let then = model.strain_after(&trial)[rank];
        let whole = time(&trial);
        if then > strain * (1.0 - STEP_MIN) || whole > start * (1.0 + 1e-9) {
            continue;
        }
        let key = (whole, then);
        if best.is_none_or(|(_, other)| key < other) {
            best = Some((node, key));
        }
    }
    best.map(|(node, _)| node)
}

/// The proposal that leads to a placement, or nothing if that is the present one.
pub fn migration(view: &View, places: &[usize], then_ms: f64, why: String) -> Option<Proposal> {
    let moves = view.ranks.iter().enumerate().zip(places);
    let moves: Vec<(usize, usize)> = moves
        .filter(|((_, rank), to)| rank.node != **to)
        .map(|((index, _), to)| (index, *to))
        .collect();
    let bytes = moves.iter().map(|(rank, _)| view.ranks[*rank].registered).sum();
    (!moves.is_empty()).then_some(Proposal {
        change: Change::Migrate(moves),
        then_ms,
        bytes,
        need: Need::Relief,
        is_forced: false,
        why,
    })
}

/// The slowest rank and its node, in words.
pub fn slowest_in_words(view: &View) -> String {
    let useful: Vec<f64> = view.ranks.iter().map(|rank| rank.useful_ms).collect();
    let slowest = largest(&useful);
    let Some(rank) = useful.iter().position(|useful| *useful >= slowest) else {
        return String::new();
    };
    let (of, node) = (&view.ranks[rank], &view.nodes[view.ranks[rank].node]);
    format!(
        "rank {rank} computes {:.2} ms an iteration on {} (speed {:.2}, {:.0} % of a CPU)",
        of.useful_ms,
        node.name,
        node.speed,
        of.cpu_share * 100.0
    )
}
