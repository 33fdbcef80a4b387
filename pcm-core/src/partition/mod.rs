//! How one global array is divided among the positions of a communicator: the description an application gives, the
//! partition it becomes for a number of ranks, and the questions one can ask it. Never looks at processes or nodes.

mod array;
mod axis;
mod error;
mod grid;
mod spec;
mod weights;

pub use array::{GlobalBox, OwnedBoxes, Partition};
pub use axis::{Stripe, bounds_by_shares};
pub use error::PartitionError;
pub use spec::{AXES_MAX, ArraySpec, AxisSpec, COSTS_MAX, Edge, POSITIONS_MAX, Split};
pub use weights::{counts_by_costs, whole_costs};

pub(crate) use axis::AxisParts;
