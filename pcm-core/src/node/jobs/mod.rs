//! The jobs of this node: those it coordinates, and its part of each. Their machines are in [`crate::job`].

mod abandoned;
pub(in crate::node) mod checkpoints;
pub(in crate::node) mod coordinating;
mod data;
mod job_streams;
mod layout_changes;
mod oversubscription;
mod part_streams;
pub(in crate::node) mod parts;
mod rank_facts;
mod reached;
pub(in crate::node) mod reconfiguring;
pub(in crate::node) mod succession;
pub(in crate::node) mod table;
mod views;
