//! Events in the order of their time; those of one time in the order in which they were made.

use pcm_proto::agent::{AgentToAgent, ProposalOutcome};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens to the simulated cluster. Nodes are indices; a life counts the starts of a node's agent.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Look {
        node: usize,
        life: u32,
    },
    Deliver {
        from: usize,
        to: usize,
        life: u32,
        message: Box<AgentToAgent>,
    },
    Changed {
        node: usize,
        life: u32,
        number: u64,
        job: usize,
        outcome: ProposalOutcome,
        pause_us: u64,
    },
    Load {
        node: usize,
        demand: f64,
    },
    Churn,
}

/// Happenings to come.
#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: std::collections::HashMap<u64, Happening>,
    count: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at_us: u64, happening: Happening) {
        self.count += 1;
        self.heap.push(Reverse((at_us, self.count)));
        self.happenings.insert(self.count, happening);
    }

    /// The next happening before `end_us`.
    pub(super) fn pop(&mut self, end_us: u64) -> Option<(u64, Happening)> {
        let Reverse((at_us, number)) = *self.heap.peek()?;
        if at_us >= end_us {
            return None;
        }
        self.heap.pop();
        Some((at_us, self.happenings.remove(&number)?))
    }
}
