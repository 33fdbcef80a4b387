//! The names of memory files that the driver holds for the node.

/// One memory file, for as long as the driver lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u64);

/// Set in the numbers of the memory files that the node orders; the driver numbers those it receives, from 1.
const ORDERED: u64 = 1 << 63;

impl MemoryId {
    /// One that the node orders.
    pub fn ordered(number: u64) -> Self {
        Self(ORDERED | number)
    }
}

/// A memory file and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    pub id: MemoryId,
    pub bytes: u64,
}
