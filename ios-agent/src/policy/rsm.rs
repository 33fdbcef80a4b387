//! Resource-sensitive: moves the rank for which the weighted gain over processor, memory and network is greatest. Pure.

use super::interface::Policy;
use super::{greedy, resize};
use crate::decide::predict::Model;
use crate::decide::proposal::Proposal;
use crate::decide::tuning::Tuning;
use crate::decide::view::View;

#[derive(Clone, Copy, Debug)]
pub struct Rsm;

/// The weighted gain of moving a rank: each part from -1 (all lost) to 1 (all gained).
fn gain(model: &Model<'_>, tuning: &Tuning, rank: usize, node: usize) -> f64 {
    let view = model.view;
    let mut places = view.places();
    let from = places[rank];
    let links_before = model.link_ms(&places);
    places[rank] = node;
    let relative = |before: f64, after: f64| (after - before) / before.max(after).max(1e-9);
    let then = model.useful_after(&places)[rank];
    let processor = relative(1.0 / view.ranks[rank].useful_ms.max(1e-9), 1.0 / then.max(1e-9));
    let memory = relative(view.nodes[from].free_memory, view.nodes[node].free_memory);
    let network = -relative(links_before, model.link_ms(&places));
    let weights = &tuning.rsm;
    weights.cpu * processor + weights.memory * memory + weights.network * network
}

impl Policy for Rsm {
    fn name(&self) -> &'static str {
        "rsm"
    }

    fn propose(&self, view: &View, tuning: &Tuning, _: u64) -> Vec<Proposal> {
        let model = Model::new(view, tuning);
        let mut proposals = resize::propose(view, tuning);
        let open = |node: &usize| greedy::has_room(view, *node, 0);
        let pairs =
            (0..view.ranks.len()).flat_map(|rank| (0..view.nodes.len()).filter(open).map(move |node| (rank, node)));
        let others = pairs.filter(|(rank, node)| !view.share_cpus(view.ranks[*rank].node, *node));
        let best = others
            .map(|(rank, node)| (rank, node, gain(&model, tuning, rank, node)))
            .max_by(|a, b| a.2.total_cmp(&b.2));
        if let Some((rank, node, gain)) = best.filter(|(.., gain)| *gain > 0.0) {
            // The rest of what weighs on the same node goes where the first rank showed that it is better.
            let found = greedy::relieve(&model, &|_, _| true, &|places| model.after(places));
            let mut places = view.places();
            places[rank] = node;
            let single = model.after(&places);
            let (places, then_ms) = found.filter(|(_, then)| *then < single).unwrap_or((places, single));
            let why = format!(
                "weighted gain {gain:.2} for rank {rank} on {}; {}",
                view.nodes[node].name,
                greedy::slowest_in_words(view)
            );
            proposals.extend(greedy::migration(view, &places, then_ms, why));
        }
        proposals
    }
}
