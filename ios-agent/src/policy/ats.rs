//! Application topology: ranks that talk to each other come together, by moves and exchanges that shorten what links
//! take and slow nobody's computing. Pure.

use super::interface::Policy;
use super::{greedy, resize};
use crate::decide::predict::{Model, largest};
use crate::decide::proposal::Proposal;
use crate::decide::tuning::Tuning;
use crate::decide::view::View;

/// Who talks to whom.
#[derive(Clone, Copy, Debug)]
pub struct Ats;

/// Computing may become slower by this part for the sake of nearness.
const COMPUTING_MAX: f64 = 1.02;

/// Ranks tried: those that talk most; a larger job is improved bit by bit, look by look.
const RANKS_MAX: usize = 24;

/// Milliseconds that all messages of an iteration take on the links of a placement.
fn traffic_ms(model: &Model<'_>, places: &[usize]) -> f64 {
    let of_rank = |(from, rank): (usize, &crate::decide::view::RankView)| {
        let of_peer = |(to, messages, bytes): &(usize, f64, f64)| {
            let Some(place) = places.get(*to) else { return 0.0 };
            // On one node there is no network at all.
            let part = if places[from] == *place { 0.5 } else { 1.0 };
            part * model.link(places[from], *place).of_traffic_ms(*messages, *bytes)
        };
        rank.sends.iter().map(of_peer).sum::<f64>()
    };
    model.view.ranks.iter().enumerate().map(of_rank).sum()
}

/// The best single exchange or move of a placement.
fn step(model: &Model<'_>, places: &[usize], loudest: &[usize], useful_max: f64) -> Option<(Vec<usize>, f64)> {
    let view = model.view;
    let mut best: Option<(Vec<usize>, f64)> = None;
    let now = traffic_ms(model, places);
    let mut consider = |trial: Vec<usize>| {
        let then = traffic_ms(model, &trial);
        if then < best.as_ref().map_or(now * (1.0 - 1e-6), |(_, other)| *other)
            && largest(&model.useful_after(&trial)) <= useful_max
        {
            best = Some((trial, then));
        }
    };
    for (position, a) in loudest.iter().copied().enumerate() {
        for b in loudest[position + 1..]
            .iter()
            .copied()
            .filter(|b| places[a] != places[*b])
        {
            let mut trial = places.to_vec();
            trial.swap(a, b);
            consider(trial);
        }
        for node in (0..view.nodes.len()).filter(|node| *node != places[a] && !view.nodes[*node].is_draining) {
            if greedy::has_room(view, node, 0) && view.spare(node) >= 0.7 {
                let mut trial = places.to_vec();
                trial[a] = node;
                consider(trial);
            }
        }
    }
    best
}

/// Improves the placement step by step.
fn bring_together(model: &Model<'_>) -> Option<Proposal> {
    let view = model.view;
    let mut loudest: Vec<usize> = (0..view.ranks.len()).collect();
    let loudness = |rank: &usize| {
        view.ranks[*rank]
            .sends
            .iter()
            .map(|(_, messages, bytes)| messages * 1e3 + bytes)
            .sum::<f64>()
    };
    loudest.sort_by(|a, b| loudness(b).total_cmp(&loudness(a)).then(a.cmp(b)));
    loudest.truncate(RANKS_MAX);
    let mut places = view.places();
    let before = traffic_ms(model, &places);
    let useful_max = largest(&model.useful_after(&places)) * COMPUTING_MAX;
    let mut after = before;
    for _ in 0..greedy::MOVES_MAX / 2 {
        let Some((next, time)) = step(model, &places, &loudest, useful_max) else {
            break;
        };
        (places, after) = (next, time);
    }
    if after >= before {
        return None;
    }
    // What the links take can be saved, but not more than is spent in MPI at all.
    let saved = (model.link_ms(&view.places()) - model.link_ms(&places)).clamp(0.0, model.mpi_ms());
    let why = format!(
        "ranks that talk to each other are apart: messages take {before:.3} ms on their links, {after:.3} ms when \
         brought together"
    );
    greedy::migration(view, &places, view.iteration_ms - saved, why)
}

impl Policy for Ats {
    fn name(&self) -> &'static str {
        "ats"
    }

    fn propose(&self, view: &View, tuning: &Tuning, _: u64) -> Vec<Proposal> {
        let model = Model::new(view, tuning);
        let mut proposals = resize::propose(view, tuning);
        let found = greedy::relieve(&model, &|_, _| true, &|places| model.after(places));
        if let Some((places, then_ms)) = found {
            proposals.extend(greedy::migration(
                view,
                &places,
                then_ms,
                greedy::slowest_in_words(view),
            ));
        }
        proposals.extend(bring_together(&model));
        proposals
    }
}
