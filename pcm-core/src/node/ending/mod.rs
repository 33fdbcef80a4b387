//! How a node ends: emptied by a person, given notice by the system, taken down with its cluster.

mod drain;
mod preemption;
mod shutdown;

use drain::Draining;
use preemption::Preemption;
use shutdown::Stage;

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct Ending {
    stage: Stage,
    drain: Option<Draining>,
    preemption: Option<Preemption>,
}
