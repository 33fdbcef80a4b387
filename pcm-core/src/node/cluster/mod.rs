//! The cluster as this node sees it: which nodes there are and how they are, and whether it sees enough of them.

pub mod nodes;
pub mod quorum;
