//! One world's barrier along the tree of nodes that hold its processes: a node waits for its own processes and for its
//! children, then says so upwards; the root releases everybody. The new values of all nodes travel with it.

use pcm_proto::frame::PAYLOAD_LENGTH_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most bytes of the values that one barrier carries: a message between daemons must hold all of them and its own
/// head. MPICH puts some hundred bytes per process, and a world has at most 4,096 processes.
pub const PUTS_BYTES_MAX: usize = PAYLOAD_LENGTH_MAX - (64 << 10);

/// Values put since the last barrier.
pub type Puts = BTreeMap<String, String>;

/// The bytes that values take in a message, at most.
pub fn bytes_of(values: &BTreeMap<String, String>) -> usize {
    // Each text with the head of its encoding.
    let bytes = |(key, value): (&String, &String)| key.len() + value.len() + 10;
    values.iter().map(bytes).sum()
}

/// What a complete subtree does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatherEffect {
    /// Tell the parent that this subtree is in the barrier.
    TellParent {
        /// Which barrier of the world, from 0.
        generation: u64,
        /// New values of the subtree.
        puts: Puts,
    },
    /// Tell the own world and every child that the barrier is over; only at the root.
    Release {
        generation: u64,
        /// New values of the whole world.
        puts: Puts,
    },
    /// The new values of the subtree fit no message: this barrier cannot end.
    TooLarge { bytes: usize },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Branch {
    /// Not in the present barrier yet.
    Awaited,
    In,
    /// It has no process any more that could take part.
    Gone,
}

/// A node's place in the barrier of one world. `C` names a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gather<C: Ord> {
    is_root: bool,
    generation: u64,
    own: Branch,
    children: BTreeMap<C, Branch>,
    puts: Puts,
    is_told: bool,
}

impl<C: Ord> Gather<C> {
    /// A place with these children; the root has no parent.
    pub fn new(is_root: bool, children: impl IntoIterator<Item = C>) -> Self {
        Self {
            is_root,
            generation: 0,
            own: Branch::Awaited,
            children: children.into_iter().map(|child| (child, Branch::Awaited)).collect(),
            puts: Puts::new(),
            is_told: false,
        }
    }

    /// The barrier that is gathered now.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The children, for whoever passes a release on.
    pub fn children(&self) -> impl Iterator<Item = &C> {
        self.children.keys()
    }

    /// The node's own processes are in the barrier (`BarrierUp` of the world). A late or double word changes nothing.
    pub fn on_own(&mut self, generation: u64, puts: Puts) -> Option<GatherEffect> {
        if generation != self.generation || self.own != Branch::Awaited {
            return None;
        }
        self.own = Branch::In;
        self.puts.extend(puts);
        self.complete()
    }

    /// A child's subtree is in the barrier. A late or double word, or one of a stranger, changes nothing.
    pub fn on_child(&mut self, child: &C, generation: u64, puts: Puts) -> Option<GatherEffect> {
        if generation != self.generation {
            return None;
        }
        match self.children.get_mut(child) {
            Some(branch @ Branch::Awaited) => *branch = Branch::In,
            _ => return None,
        }
        self.puts.extend(puts);
        self.complete()
    }

    /// The node's own processes finalized, all of them: nobody waits for them any more.
    pub fn on_own_gone(&mut self) -> Option<GatherEffect> {
        self.own = Branch::Gone;
        self.complete()
    }

    /// A child's subtree has no process left that could take part.
    pub fn on_child_gone(&mut self, child: &C) -> Option<GatherEffect> {
        *self.children.get_mut(child)? = Branch::Gone;
        self.complete()
    }

    /// The release of a barrier came from above (or was made here, at the root): the next one is gathered from now on.
    /// Returns whether it was the present one.
    pub fn on_release(&mut self, generation: u64) -> bool {
        if generation != self.generation {
            return false;
        }
        self.generation += 1;
        self.is_told = false;
        self.puts.clear();
        for branch in self.children.values_mut().chain([&mut self.own]) {
            if *branch == Branch::In {
                *branch = Branch::Awaited;
            }
        }
        true
    }

    /// The word to the parent once more, for a parent that may have missed it.
    pub fn again(&self) -> Option<GatherEffect> {
        self.is_told.then(|| self.effect())
    }

    fn complete(&mut self) -> Option<GatherEffect> {
        let mut branches = self.children.values().chain([&self.own]);
        let is_complete = branches.all(|branch| *branch != Branch::Awaited);
        let has_somebody = self
            .children
            .values()
            .chain([&self.own])
            .any(|branch| *branch == Branch::In);
        if self.is_told || !is_complete || !has_somebody {
            return None;
        }
        self.is_told = true;
        Some(self.effect())
    }

    fn effect(&self) -> GatherEffect {
        let bytes = bytes_of(&self.puts);
        if bytes > PUTS_BYTES_MAX {
            return GatherEffect::TooLarge { bytes };
        }
        let (generation, puts) = (self.generation, self.puts.clone());
        if self.is_root {
            GatherEffect::Release { generation, puts }
        } else {
            GatherEffect::TellParent { generation, puts }
        }
    }
}
