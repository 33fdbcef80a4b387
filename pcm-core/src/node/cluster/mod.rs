//! The cluster as this node sees it: which nodes there are and how they are, whether it sees enough of them, and how
//! more of them are booted.

pub(in crate::node) mod boot;
pub(in crate::node) mod doubt;
pub mod machine;
pub mod nodes;
pub(in crate::node) mod partners;
pub mod quorum;
pub(in crate::node) mod transports;
