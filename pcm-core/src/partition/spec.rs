//! The description of a distributed array as the application gives it: it does not depend on the number of ranks
//! (but for weights and counts, which name one part each), travels in messages and stands in checkpoint manifests.
//! Never holds anything derived from it.

use super::error::PartitionError;
use super::weights::whole_costs;
use serde::{Deserialize, Serialize};

/// Most axes an array can have.
pub const AXES_MAX: usize = 3;

/// Most positions a partition can have: far above the ranks MPI jobs of this kind reach, and it keeps the bounds of
/// one axis below 8 MiB.
pub const POSITIONS_MAX: u32 = 1 << 20;

/// Most elements with a cost: a description with them has 20 MiB when it travels.
pub const COSTS_MAX: usize = 1 << 22;

/// A distributed array: row-major, the last axis runs fastest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArraySpec {
    /// Bytes of one element.
    pub element_size: u32,
    /// The axes, slowest first.
    pub axes: Vec<AxisSpec>,
}

/// One axis of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AxisSpec {
    /// Global number of elements along the axis.
    pub extent: u64,
    /// How the axis is divided.
    pub split: Split,
    /// Width of the halo that each part's local storage has on both sides; belongs to storage, not to ownership.
    pub halo: u64,
    /// What lies beyond the ends of the axis.
    pub edge: Edge,
}

/// How an axis is divided into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Split {
    /// Not divided: every part of the array has the whole axis.
    Whole,
    /// One interval per part, equal but for one element; the first parts have the longer ones.
    Block,
    /// Blocks of equal length dealt out in turn.
    Cyclic {
        /// Elements of one block.
        block: u64,
    },
    /// One interval per part, as long as its weight says (a node's speed, for example). Fixes the number of parts.
    Weighted {
        /// One weight per part: finite and above zero.
        weights: Vec<f64>,
    },
    /// One interval per part of exactly the stated length. Fixes the number of parts.
    Counts {
        /// One length per part; their sum is the extent.
        counts: Vec<u64>,
    },
    /// One interval per part, of about the same cost.
    Costs {
        /// One cost per element, of which only the ratios count.
        costs: Vec<u32>,
    },
}

/// What the halo cells beyond the ends of an axis mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edge {
    /// They are the application's own (boundary values) and travel with the nearest element of the array.
    #[default]
    Carried,
    /// They repeat the elements at the other end.
    Periodic,
}

impl ArraySpec {
    /// An array of `element_size` bytes per element with the given axes, slowest first.
    pub fn new(element_size: u32, axes: impl Into<Vec<AxisSpec>>) -> Self {
        Self {
            element_size,
            axes: axes.into(),
        }
    }

    /// The same array with one axis divided otherwise, as a rebalancing does.
    pub fn with_split(&self, axis: usize, split: Split) -> Self {
        let mut spec = self.clone();
        if let Some(axis) = spec.axes.get_mut(axis) {
            axis.split = split;
        }
        spec
    }

    /// Whether both describe the same cells, however divided: only then can one be redistributed into the other.
    pub fn has_same_cells(&self, other: &Self) -> bool {
        self.element_size == other.element_size
            && self.axes.len() == other.axes.len()
            && std::iter::zip(&self.axes, &other.axes)
                .all(|(a, b)| a.extent == b.extent && a.halo == b.halo && a.edge == b.edge)
    }
}

impl AxisSpec {
    /// An axis divided as `split` says, without halo.
    pub fn new(extent: u64, split: Split) -> Self {
        Self {
            extent,
            split,
            halo: 0,
            edge: Edge::Carried,
        }
    }

    /// An axis that is not divided.
    pub fn whole(extent: u64) -> Self {
        Self::new(extent, Split::Whole)
    }

    /// An axis divided into equal blocks.
    pub fn block(extent: u64) -> Self {
        Self::new(extent, Split::Block)
    }

    /// An axis divided into intervals of about the same cost: one cost for each element.
    pub fn by_costs(costs: &[f64]) -> Result<Self, PartitionError> {
        let split = Split::Costs {
            costs: whole_costs(costs)?,
        };
        Ok(Self::new(costs.len() as u64, split))
    }

    /// An axis whose blocks of `block` elements are dealt out in turn.
    pub fn cyclic(extent: u64, block: u64) -> Self {
        Self::new(extent, Split::Cyclic { block })
    }

    /// The same axis with a halo of `width` cells on both sides of each part.
    pub fn with_halo(mut self, width: u64) -> Self {
        self.halo = width;
        self
    }

    /// The same axis closed to a ring.
    pub fn periodic(mut self) -> Self {
        self.edge = Edge::Periodic;
        self
    }

    /// Cells beyond each end that hold data of their own and therefore move.
    pub(crate) fn margin(&self) -> u64 {
        match self.edge {
            Edge::Carried => self.halo,
            Edge::Periodic => 0,
        }
    }
}
