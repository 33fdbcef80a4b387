//! One image on its way to this node: for whom, on which route, and how far it is. Chooses nothing.

use super::effect::StoreEffect;
use super::fetch::Fetch;
use super::route::Route;
use super::step::Step;
use crate::moment::Moment;
use crate::node::memory::MemoryFile;
use pcm_proto::checkpoint::{PartTally, Stamp};
use pcm_proto::ids::{Epoch, NodeName, ProcessId};
use std::collections::VecDeque;

/// A copy that a job's coordinator ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyOrder {
    pub(super) stamp: Stamp,
    pub(super) process: ProcessId,
    pub(super) coordinator: NodeName,
}

/// What an image comes for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Ranks that wait for blocks of it.
    Ranks,
    /// It is to be held here; ranks may wait for it as well.
    Copy(CopyOrder),
}

/// How far an image is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known of it.
    Unknown,
    /// Its length is known; blocks come over the link, or will come all at once.
    Blocks { memory: MemoryFile },
    /// A daemon of this host was asked to lend it; these blocks were here before.
    Borrowing { blocks: Option<MemoryFile> },
    /// What was lent is copied.
    Copying {
        blocks: Option<MemoryFile>,
        lent: MemoryFile,
        own: MemoryFile,
    },
    /// Memory is being put on offer for so many bytes.
    Opening { memory: MemoryFile, awaited: u64 },
    /// Memory is on offer.
    Offered {
        memory: MemoryFile,
        awaited: u64,
        region: [u8; 16],
    },
    /// All of it is here, and verified if the checksum is known.
    Whole {
        memory: MemoryFile,
        tally: Option<PartTally>,
    },
}

/// An image on its way from another node.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) fetch: Fetch,
    pub(super) purpose: Purpose,
    /// Where else it can be had.
    pub(super) others: VecDeque<NodeName>,
    /// The layout that needs it.
    pub(super) epoch: Epoch,
    /// Whether a rank has its memory.
    pub(super) is_handed: bool,
    /// Tells what comes of it from what comes of another try before.
    pub(super) attempt: u64,
    /// How it comes now, and why that way.
    pub(super) route: (Route, String),
    /// Since when that which is under way comes so.
    pub(super) since: Moment,
    pub(super) state: State,
}

impl Arrival {
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.purpose, Purpose::Copy(_))
    }

    pub(super) fn is_from(&self, node: &NodeName) -> bool {
        self.fetch.node() == node
    }

    /// Whether memory is on offer, or about to be.
    pub(super) fn is_offered(&self) -> bool {
        matches!(self.state, State::Opening { .. } | State::Offered { .. })
    }

    /// Whether something could come all at once and is not on its way.
    pub(super) fn awaits_offer(&self) -> bool {
        matches!(self.state, State::Blocks { .. } | State::Whole { .. }) && self.fetch.is_queued()
    }

    /// Where the blocks are that are here.
    pub(super) fn memory(&self) -> Option<MemoryFile> {
        match self.state {
            State::Unknown => None,
            State::Borrowing { blocks } | State::Copying { blocks, .. } => blocks,
            State::Blocks { memory }
            | State::Opening { memory, .. }
            | State::Offered { memory, .. }
            | State::Whole { memory, .. } => Some(memory),
        }
    }

    /// Blocks are written here from now on.
    pub(super) fn begin_blocks(&mut self, memory: MemoryFile) {
        match &mut self.state {
            State::Borrowing { blocks } | State::Copying { blocks, .. } => *blocks = Some(memory),
            state => *state = State::Blocks { memory },
        }
    }

    /// Lets go of its memory and of what is under way.
    pub(super) fn let_go(&mut self, step: &mut Step<'_>) {
        let attempt = self.attempt;
        if self.is_offered() {
            step.push(StoreEffect::Withdraw { attempt });
        }
        let copied = match self.state {
            State::Copying { lent, own, .. } => [Some(lent), Some(own)],
            _ => [None; 2],
        };
        step.release(self.memory().into_iter().chain(copied.into_iter().flatten()));
        self.state = State::Unknown;
    }
}
