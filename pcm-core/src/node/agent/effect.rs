//! What is done for the node's agent, and what it says that concerns other parts of the node.

use crate::node::layout_request::LayoutAsked;
use crate::node::requester::Requester;
use pcm_proto::agent::{DaemonToAgent, NodeProfile};
use pcm_proto::ids::{JobId, NodeName};

/// What the shell does for the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEffect {
    /// Start its process; `life` comes back with its end.
    Start { life: u64 },
    /// End its process, if it still runs.
    Stop,
    /// Send it a message, if it is linked.
    Send(Box<DaemonToAgent>),
}

/// What the agent says that concerns other parts of the node.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentFact {
    /// How the node is.
    Profile(NodeProfile),
    /// It wants samples of the jobs here, and of the links to these nodes.
    SamplesWanted { about: Vec<NodeName> },
    /// It wants another layout of a job that is coordinated here.
    Proposal { from: Requester, asked: LayoutAsked },
    /// It asks about a job that is not coordinated here.
    UnknownJob { from: Requester, job: JobId },
    /// It is gone, and with it its interest in links.
    Gone,
}
