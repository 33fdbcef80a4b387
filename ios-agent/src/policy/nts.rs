//! Network topology: as `cost`, but a job stays in as few sites as it can, and near thieves come first. Pure.

use super::choice::Policy;
use super::{greedy, resize};
use crate::decide::predict::Model;
use crate::decide::proposal::{Change, Proposal};
use crate::decide::tuning::Tuning;
use crate::decide::view::View;
use std::collections::BTreeMap;

/// Distance first.
#[derive(Clone, Copy, Debug)]
pub struct Nts;

fn sites(view: &View, places: impl Iterator<Item = usize>) -> usize {
    let mut sites: Vec<&str> = places.map(|node| view.nodes[node].site.as_str()).collect();
    sites.sort_unstable();
    sites.dedup();
    sites.len()
}

/// The site that has most of the job's ranks; the first by name among equals.
fn main_site(view: &View) -> Option<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in &view.ranks {
        *counts.entry(view.nodes[rank.node].site.as_str()).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts
        .into_iter()
        .find(|(_, count)| *count == most)
        .map(|(site, _)| site)
}

/// Brings ranks of other sites to the main one.
fn gather(view: &View, model: &Model<'_>) -> Option<Proposal> {
    let main = main_site(view)?;
    let mut places = view.places();
    for rank in 0..places.len() {
        if view.nodes[places[rank]].site == main {
            continue;
        }
        let arrived = |node: usize| {
            places
                .iter()
                .zip(&view.ranks)
                .filter(|(to, rank)| **to == node && rank.node != node)
                .count()
        };
        let at_home = |node: &usize| view.nodes[*node].site == main && greedy::has_room(view, *node, arrived(*node));
        let candidates = (0..view.nodes.len()).filter(at_home);
        let time = |node: &usize| {
            let mut trial = places.clone();
            trial[rank] = *node;
            model.useful_after(&trial)[rank]
        };
        places[rank] = candidates.min_by(|a, b| time(a).total_cmp(&time(b)))?;
    }
    greedy::migration(
        view,
        &places,
        model.after(&places),
        format!(
            "the job is spread over {} sites",
            sites(view, view.places().into_iter())
        ),
    )
}

impl Policy for Nts {
    fn name(&self) -> &'static str {
        "nts"
    }

    fn propose(&self, view: &View, tuning: &Tuning, _: u64) -> Vec<Proposal> {
        let model = Model::new(view, tuning);
        let now = sites(view, view.places().into_iter());
        // A placement over more sites counts as if it gained that much less.
        let far = |time: f64, then: usize| {
            if then > now {
                view.iteration_ms - (view.iteration_ms - time) / tuning.nts.far_factor
            } else {
                time
            }
        };
        let is_near = |node: usize| {
            let site = &view.nodes[node].site;
            view.ranks.iter().any(|rank| view.nodes[rank.node].site == *site)
        };
        let mut proposals: Vec<Proposal> = resize::propose_near(view, tuning, &is_near);
        for proposal in &mut proposals {
            if let Change::Expand(nodes) = &proposal.change {
                let then = sites(view, view.places().into_iter().chain(nodes.iter().copied()));
                proposal.then_ms = far(proposal.then_ms, then);
            }
        }
        let time = |places: &[usize]| far(model.after(places), sites(view, places.iter().copied()));
        if let Some((places, then_ms)) = greedy::relieve(&model, &|_, _| true, &time) {
            proposals.extend(greedy::migration(
                view,
                &places,
                then_ms,
                greedy::slowest_in_words(view),
            ));
        }
        proposals.extend(gather(view, &model));
        proposals
    }
}
