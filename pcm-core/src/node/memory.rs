//! The name of a memory file that the driver holds for the node.

/// One memory file, for as long as the driver lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u64);
