//! Virtual nodes for tests and benches: with a share of a CPU each, and loads on them, so that what they show does not
//! depend on what else the machine does; and with networks of their own. Nothing of jobs or MPI.

mod groups;
mod load;
pub mod network;
mod nodes;
mod place;

pub use load::Load;
pub use nodes::LimitedNodes;
pub use place::Place;

/// CPU time a node may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Microseconds of CPU time in a period.
    pub quota_us: u32,
    /// The period; with its quota at least a millisecond each, which is the least the kernel takes.
    pub period_us: u32,
}
