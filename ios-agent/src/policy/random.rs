//! Random stealing: any rank of a node that has more to do than CPUs goes to any node that has one to spare. Knows
//! nothing of speeds and links; the judge still looks at the prediction. Pure.

use super::greedy;
use super::interface::Policy;
use crate::decide::predict::Model;
use crate::decide::proposal::Proposal;
use crate::decide::tuning::Tuning;
use crate::decide::view::View;

#[derive(Clone, Copy, Debug)]
pub struct Random;

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn propose(&self, view: &View, tuning: &Tuning, draw: u64) -> Vec<Proposal> {
        let crowded = |rank: &usize| view.spare(view.ranks[*rank].node) < -0.3 || view.ranks[*rank].cpu_share < 0.8;
        let victims: Vec<usize> = (0..view.ranks.len()).filter(crowded).collect();
        let has_spare = |node: &usize| greedy::has_room(view, *node, 0) && view.spare(*node) >= 0.7;
        let thieves: Vec<usize> = (0..view.nodes.len()).filter(has_spare).collect();
        if victims.is_empty() || thieves.is_empty() {
            return Vec::new();
        }
        // Each thief takes one rank: the draw says where both lists begin.
        let (first, offset) = ((draw >> 32) as usize, (draw & 0xffff_ffff) as usize);
        let mut places = view.places();
        for step in 0..victims.len().min(thieves.len()).min(greedy::MOVES_MAX) {
            let rank = victims[first.wrapping_add(step) % victims.len()];
            let node = thieves[offset.wrapping_add(step) % thieves.len()];
            if !view.share_cpus(view.ranks[rank].node, node) {
                places[rank] = node;
            }
        }
        let model = Model::new(view, tuning);
        let why = format!("{} ranks lack CPUs, {} nodes have some", victims.len(), thieves.len());
        greedy::migration(view, &places, model.after(&places), why)
            .into_iter()
            .collect()
    }
}
