//! Registrations as text, to be compared between processes. Two processes may take part in one job only if all lines
//! are equal; a line therefore holds all that must agree, and nothing that may differ.

use super::{ArrayForm, Kind, Registry};
use pcm_core::{
    partition::{AxisSpec, Edge, Split},
    redistribution::HaloFill,
};
use pcm_proto::fnv::fnv1a;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// One registration, for comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The region's name.
    pub name: String,
    /// What it is.
    pub text: String,
}

impl Registry {
    /// All registrations, in order.
    pub fn descriptions(&self) -> Vec<Description> {
        self.regions()
            .map(|(_, region)| Description {
                name: region.name.clone(),
                text: text_of(self, &region.kind),
            })
            .collect()
    }
}

/// A number that differs where descriptions differ, for a first comparison.
pub fn digest(descriptions: &[Description]) -> u64 {
    // The input is the application's own, so no one tries to make two of them collide.
    let bytes = descriptions
        .iter()
        .flat_map(|description| [&description.name, "\t", &description.text, "\n"].map(str::bytes))
        .flatten();
    fnv1a(bytes)
}

fn text_of(registry: &Registry, kind: &Kind) -> String {
    match kind {
        Kind::Array(array) => array_text(array.form()),
        Kind::Value(value) => format!("value of {} bytes", value.length()),
        Kind::PerRank(region) => {
            let hook = |is_there| if is_there { "with" } else { "without" };
            format!(
                "per-rank value of {} bytes, {} merge hook, {} split hook",
                region.value.length(),
                hook(region.hooks.merge.is_some()),
                hook(region.hooks.split.is_some())
            )
        }
        Kind::Custom(custom) => custom.text(custom.like().map_or("", |like| &registry.region(like).name)),
    }
}

fn array_text(form: &ArrayForm) -> String {
    let mut text = format!("array of {}", form.element);
    for axis in &form.spec.axes {
        text.push_str(&axis_text(axis));
    }
    for (is_so, word) in [
        (form.halo == HaloFill::Stale, ", halo left stale"),
        (form.is_scratch, ", scratch"),
        (form.is_constant, ", constant"),
    ] {
        text.push_str(if is_so { word } else { "" });
    }
    text
}

/// Weights, counts and costs stay out, and whether there are any: a process that joins, or a restart, may have them for
/// another number of ranks, or for none. The division in force travels with the data.
fn axis_text(axis: &AxisSpec) -> String {
    let mut text = format!(" [{}", axis.extent);
    match &axis.split {
        Split::Whole => {}
        Split::Block | Split::Weighted { .. } | Split::Counts { .. } | Split::Costs { .. } => {
            text.push_str(" by blocks")
        }
        Split::Cyclic { block } => _ = write!(text, " cyclic by {block}"),
    }
    if axis.halo > 0 {
        _ = write!(text, ", halo {}", axis.halo);
    }
    if axis.edge == Edge::Periodic {
        text.push_str(", periodic");
    }
    text.push(']');
    text
}
