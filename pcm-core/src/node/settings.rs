//! What a node is given at its start and never changes.

use crate::reconfiguration::limits::Limits;
use pcm_proto::boot::BootSpec;
use pcm_proto::ids::NodeName;
use std::time::Duration;

/// See the file head.
#[derive(Debug)]
pub(in crate::node) struct Settings {
    pub(in crate::node) own: NodeName,
    pub(in crate::node) spec: BootSpec,
    /// Where its daemon listens.
    pub(in crate::node) address: String,
    /// The CPUs of its ranks.
    pub(in crate::node) cpus: Vec<u32>,
    pub(in crate::node) limits: Limits,
    /// Time between a notice and the end of the node.
    pub(in crate::node) notice: Duration,
}
