//! What an agent wants done. Values only.

use pcm_proto::agent::AgentToAgent;
use pcm_proto::control::LayoutChange;
use pcm_proto::event::Decision;
use pcm_proto::ids::{Epoch, JobId, NodeName};

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the agent of another node; never this one.
    Tell { to: NodeName, message: AgentToAgent },
    /// Hand a change over to the job's coordinator, the daemon of this node.
    Propose {
        /// Number of the proposal.
        number: u64,
        job: JobId,
        /// The layout it was thought of for.
        epoch: Epoch,
        change: LayoutChange,
        cause: String,
    },
    /// Note a decision.
    Decided {
        /// About which job.
        job: JobId,
        /// What was decided.
        decision: Box<Decision>,
    },
}

/// What one part of an agent wants done; messages to the own node among it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outbox {
    /// Messages by receiver.
    pub messages: Vec<(NodeName, AgentToAgent)>,
    pub effects: Vec<Effect>,
}

impl Outbox {
    /// One more message.
    pub fn tell(&mut self, to: &NodeName, message: AgentToAgent) {
        self.messages.push((to.clone(), message));
    }
}
