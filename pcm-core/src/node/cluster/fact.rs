//! What the cluster tells the other parts of the node.

use crate::membership::Change;
use pcm_proto::ids::NodeName;

/// See the file head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterFact {
    /// A node is a member, was started again, or is back.
    There { node: NodeName, change: Change },
    /// A node does not answer, or does again before it was taken for dead.
    Silent { node: NodeName, is_silent: bool },
    /// A node left or is taken for dead.
    Gone { node: NodeName, on_purpose: bool },
    /// This node has left the cluster, or another daemon bears its name.
    Left,
}
