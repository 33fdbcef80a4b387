//! Network topology: as `cost`, but a job stays in as few sites as it can, and near thieves come first. Nodes of one
//! site bear its name and were not measured to be as far apart as sites are. Pure.

use super::interface::Policy;
use super::{greedy, resize};
use crate::decide::predict::Model;
use crate::decide::proposal::{Change, Proposal};
use crate::decide::tuning::Tuning;
use crate::decide::view::View;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug)]
pub struct Nts;

/// The sites of a view: of each node the first one that is near it.
struct Sites(Vec<usize>);

impl Sites {
    fn of(model: &Model<'_>) -> Self {
        let mut firsts: Vec<usize> = Vec::new();
        let site = |node: usize| {
            let near = firsts.iter().copied().find(|first| model.is_near(*first, node));
            near.unwrap_or_else(|| {
                firsts.push(node);
                node
            })
        };
        Self((0..model.view.nodes.len()).map(site).collect())
    }

    fn count(&self, places: impl Iterator<Item = usize>) -> usize {
        places.map(|node| self.0[node]).collect::<BTreeSet<usize>>().len()
    }

    /// The site that has most of the job's ranks; the first by name among equals, and among those of one name.
    fn main(&self, view: &View) -> Option<usize> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for rank in &view.ranks {
            *counts.entry(self.0[rank.node]).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let equals = counts.into_iter().filter(|(_, count)| *count == most);
        equals.map(|(site, _)| site).min_by_key(|site| &view.nodes[*site].site)
    }
}

/// How far the ranks are apart, in words: in how many sites, and the rank that is farthest from the main one.
fn spread_in_words(model: &Model<'_>, count: usize, site: usize) -> String {
    let us = |node: usize| model.link(site, node).message_us;
    let places = model.view.ranks.iter().map(|rank| rank.node);
    let Some(far) = places.max_by(|a, b| us(*a).total_cmp(&us(*b))) else {
        return String::new();
    };
    let name = |node: usize| &model.view.nodes[node].name;
    let known = if model.view.links.is_measured(site, far) {
        "as measured"
    } else {
        "as assumed"
    };
    format!(
        "the job is spread over {count} sites, {:.2} ms from {} to {} {known}",
        us(far) / 1e3,
        name(site),
        name(far)
    )
}

/// Brings ranks of other sites to the main one.
fn gather(view: &View, model: &Model<'_>, sites: &Sites) -> Option<Proposal> {
    let main = sites.main(view)?;
    let mut places = view.places();
    for rank in 0..places.len() {
        if sites.0[places[rank]] == main {
            continue;
        }
        let arrived = |node: usize| {
            places
                .iter()
                .zip(&view.ranks)
                .filter(|(to, rank)| **to == node && rank.node != node)
                .count()
        };
        let at_home = |node: &usize| sites.0[*node] == main && greedy::has_room(view, *node, arrived(*node));
        let candidates = (0..view.nodes.len()).filter(at_home);
        let time = |node: &usize| {
            let mut trial = places.clone();
            trial[rank] = *node;
            model.useful_after(&trial)[rank]
        };
        places[rank] = candidates.min_by(|a, b| time(a).total_cmp(&time(b)))?;
    }
    let why = "one site has room for all ranks".to_owned();
    greedy::migration(view, &places, model.after(&places), why)
}

/// Where the ranks that there are now are after a change.
fn places_after(view: &View, change: &Change) -> Vec<usize> {
    let mut places = view.places();
    if let Change::Migrate(moves) | Change::Arrange(moves, _) = change {
        for (rank, node) in moves {
            places[*rank] = *node;
        }
    }
    places
}

impl Policy for Nts {
    fn name(&self) -> &'static str {
        "nts"
    }

    fn propose(&self, view: &View, tuning: &Tuning, _: u64) -> Vec<Proposal> {
        let model = Model::new(view, tuning);
        let sites = Sites::of(&model);
        let now = sites.count(view.places().into_iter());
        // A placement over more sites counts as if it gained that much less.
        let far = |time: f64, then: usize| {
            if then > now {
                view.iteration_ms - (view.iteration_ms - time) / tuning.nts.far_factor
            } else {
                time
            }
        };
        let used: BTreeSet<usize> = view.ranks.iter().map(|rank| sites.0[rank.node]).collect();
        let is_near = |node: usize| used.contains(&sites.0[node]);
        let mut proposals: Vec<Proposal> = resize::propose_near(view, tuning, &is_near);
        for proposal in &mut proposals {
            if let Change::Expand(nodes) = &proposal.change {
                let then = sites.count(view.places().into_iter().chain(nodes.iter().copied()));
                proposal.then_ms = far(proposal.then_ms, then);
            }
        }
        let time = |places: &[usize]| far(model.after(places), sites.count(places.iter().copied()));
        if let Some((places, then_ms)) = greedy::relieve(&model, &|_, _| true, &time) {
            let why = greedy::slowest_in_words(view);
            proposals.extend(greedy::migration(view, &places, then_ms, why));
        }
        proposals.extend(gather(view, &model, &sites));
        if let Some(main) = sites.main(view) {
            let spread = spread_in_words(&model, now, main);
            let gathers = |change: &Change| sites.count(places_after(view, change).into_iter()) < now;
            for proposal in proposals.iter_mut().filter(|proposal| gathers(&proposal.change)) {
                proposal.why = format!("{spread}; {}", proposal.why);
            }
        }
        proposals
    }
}
