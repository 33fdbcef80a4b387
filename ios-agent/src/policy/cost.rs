//! The default policy: whatever saves the most time, by the model of [`crate::decide::predict`]. Pure.

use super::interface::Policy;
use super::{greedy, resize};
use crate::decide::predict::Model;
use crate::decide::proposal::Proposal;
use crate::decide::tuning::Tuning;
use crate::decide::view::View;

#[derive(Clone, Copy, Debug)]
pub struct Cost;

impl Policy for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn propose(&self, view: &View, tuning: &Tuning, _: u64) -> Vec<Proposal> {
        let mut proposals = resize::propose(view, tuning);
        let model = Model::new(view, tuning);
        let found = greedy::relieve(&model, &|_, _| true, &|places| model.after(places));
        if let Some((places, then_ms)) = found {
            proposals.extend(greedy::migration(
                view,
                &places,
                then_ms,
                greedy::slowest_in_words(view),
            ));
        }
        proposals
    }
}
