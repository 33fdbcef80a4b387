//! The cluster as this node sees it: which nodes there are and how they are, whether it sees enough of them, how they
//! are booted, emptied and ended.

pub(in crate::node) mod boot;
pub(in crate::node) mod doubt;
pub(in crate::node) mod drain;
mod link_measuring;
pub(in crate::node) mod members;
pub mod nodes;
pub(in crate::node) mod preemption;
pub mod quorum;
mod reports;
pub(in crate::node) mod shutdown;
pub(in crate::node) mod transports;
