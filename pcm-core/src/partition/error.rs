//! Why an array cannot be partitioned as described. Owns the texts; nothing is changed when one of these is returned.

use super::spec::{AXES_MAX, COSTS_MAX, POSITIONS_MAX};
use std::fmt;

/// Why a partition was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionError {
    /// The array has no axis, or more than [`AXES_MAX`].
    AxesOutOfRange {
        /// How many it has.
        axes: usize,
    },
    /// The number of positions is zero or above [`POSITIONS_MAX`].
    PositionsOutOfRange {
        /// The number asked for.
        positions: u32,
    },
    /// Elements of no bytes.
    ElementSizeZero,
    /// The array with its halos has more bytes than a local offset can address.
    TooLarge {
        /// Extents with halos.
        extents: Vec<u64>,
        /// Bytes of one element.
        element_size: u32,
    },
    /// A block of a cyclic axis has no elements.
    BlockZero { axis: usize },
    /// A cyclic axis has a halo, which would have to surround every block.
    HaloOnCyclicAxis {
        axis: usize,
        /// The halo's width.
        halo: u64,
    },
    /// A periodic axis is shorter than its halo.
    HaloBeyondPeriod {
        axis: usize,
        /// The halo's width.
        halo: u64,
        /// The axis' extent.
        extent: u64,
    },
    /// The counts of an axis do not sum to its extent.
    CountsDoNotSum {
        axis: usize,
        /// Their sum, as far as it can be counted.
        sum: u64,
        /// The axis' extent.
        extent: u64,
    },
    /// A weight is zero, negative, infinite or not a number.
    WeightNotPositive {
        axis: usize,
        /// The part it belongs to.
        part: usize,
        weight: f64,
    },
    /// There is not one cost for each element of an axis.
    CostsDoNotFit {
        axis: usize,
        costs: u64,
        /// The axis' extent.
        extent: u64,
    },
    /// A cost is negative, infinite or not a number.
    CostNotValid {
        /// The element it belongs to.
        element: usize,
        cost: f64,
    },
    /// More than [`COSTS_MAX`] elements have a cost.
    TooManyCosts { costs: usize },
    /// No axis is divided, but there is more than one position.
    NothingDivided {
        /// The number of positions.
        positions: u32,
    },
    /// The parts fixed by weights and counts cannot be completed to the number of positions.
    PartsDoNotFit {
        /// Product of the numbers of weights and counts.
        fixed: u64,
        /// The number of positions.
        positions: u32,
        /// Whether other axes are divided, so that any multiple of `fixed` would do.
        others_divided: bool,
    },
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AxesOutOfRange { axes } => write!(f, "an array has 1 to {AXES_MAX} axes, this one has {axes}"),
            Self::PositionsOutOfRange { positions } => {
                write!(
                    f,
                    "an array is divided among 1 to {POSITIONS_MAX} ranks, not {positions}"
                )
            }
            Self::ElementSizeZero => write!(f, "elements of 0 bytes: give the size of the element type"),
            Self::TooLarge { extents, element_size } => write!(
                f,
                "extents {extents:?} (with halos) times {element_size} bytes exceed what a process can address"
            ),
            Self::BlockZero { axis } => write!(f, "axis {axis}: blocks of 0 elements; a cyclic block has at least 1"),
            Self::HaloOnCyclicAxis { axis, halo } => write!(
                f,
                "axis {axis}: a halo of {halo} on a cyclic axis; use block, weights or counts where a halo is needed"
            ),
            Self::HaloBeyondPeriod { axis, halo, extent } => write!(
                f,
                "axis {axis}: a halo of {halo} on a periodic axis of {extent} elements; it can be at most the extent"
            ),
            Self::CountsDoNotSum { axis, sum, extent } => {
                write!(
                    f,
                    "axis {axis}: the counts sum to {sum}, the extent is {extent}; they must be equal"
                )
            }
            Self::WeightNotPositive { axis, part, weight } => {
                write!(
                    f,
                    "axis {axis}: weight {weight} of part {part}; weights are finite and above 0"
                )
            }
            Self::CostsDoNotFit { axis, costs, extent } => {
                write!(
                    f,
                    "axis {axis}: {costs} costs for {extent} elements; give each element one"
                )
            }
            Self::CostNotValid { element, cost } => {
                write!(f, "cost {cost} of element {element}; costs are finite and not below 0")
            }
            Self::TooManyCosts { costs } => {
                write!(
                    f,
                    "{costs} costs; at most {COSTS_MAX} are possible, divide by blocks or weights"
                )
            }
            Self::NothingDivided { positions } => write!(
                f,
                "no axis is divided among {positions} ranks; divide one, or register the data as replicated"
            ),
            Self::PartsDoNotFit {
                fixed,
                positions,
                others_divided,
            } => {
                let wanted = if *others_divided { "a divisor of" } else { "exactly" };
                write!(
                    f,
                    "weights and counts make {fixed} parts, for {positions} ranks they must make {wanted} {positions}"
                )
            }
        }
    }
}

impl std::error::Error for PartitionError {}
