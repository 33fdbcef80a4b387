//! One buffer of a checkpoint in the memory of this node: what it holds and what is known of that.

use crate::node::memory::MemoryFile;
use crate::node::record::Holding;
use pcm_proto::checkpoint::PartTally;

/// What the keeper said of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtKeeper {
    Asked,
    Held,
    Refused,
}

#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) memory: MemoryFile,
    pub(super) at_keeper: AtKeeper,
    pub(super) holds: Option<Holding>,
    /// The checksums of what it holds, as long as the keeper has not answered.
    pub(super) summed: Option<PartTally>,
    /// Whether another process may have it to read: then it is never used for another copy.
    pub(super) is_handed: bool,
}

impl Buffer {
    pub(super) fn new(memory: MemoryFile, at_keeper: AtKeeper, holds: Option<Holding>) -> Self {
        Self {
            memory,
            at_keeper,
            holds,
            summed: None,
            is_handed: false,
        }
    }
}
