//! The process that registers, as its registry has to know it.

/// Where this process stands while it registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its rank, in the planned layout if it is a newcomer.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Ranks on this host, this one included.
    pub ranks_here: u32,
    /// Whether the job begins with this process; else it joins, or is restored.
    pub is_first: bool,
}
