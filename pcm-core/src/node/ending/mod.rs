//! How a node ends: emptied by a person, given notice by the system, taken down with its cluster.

mod drain;
mod preemption;
mod shutdown;
mod state;

pub(in crate::node) use state::Ending;
