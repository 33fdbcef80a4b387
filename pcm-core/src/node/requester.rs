//! Sources of requests, and the links they come over.

use pcm_proto::ids::NodeName;

/// One link of this daemon, for as long as the daemon lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// The source of a request, to which its answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A `pcmctl` linked to this node.
    Control(LinkId),
    /// This node itself; an answer is dropped.
    Nobody,
    /// Another daemon, for a `pcmctl` linked there.
    Peer {
        /// The daemon's node.
        node: NodeName,
        /// The number of its question.
        ask: u64,
    },
    /// The agent of this node, with a proposal.
    Agent {
        /// The number of the proposal.
        number: u64,
    },
}
