//! PMIx for the ranks of a job of Open MPI at this node: a helper process that the driver starts serves it through the
//! job's own libpmix. Decides when that process runs, which worlds it knows, what their ranks need in their
//! environment, and what its end means. The rules of PMIx are the helper's.

pub mod effect;
pub mod folder;
pub(in crate::node) mod part;
mod spawns;
mod worlds;
