//! The jobs of this node: those it coordinates, and its part of each. Their machines are in [`crate::job`].

mod attachment;
mod changes;
mod coordinating;
mod data;
mod effects;
pub(in crate::node) mod heirs;
mod inheriting;
pub(in crate::node) mod leading;
pub(in crate::node) mod led;
pub(in crate::node) mod local;
pub(in crate::node) mod machine;
pub(in crate::node) mod numbering;
mod parts;
pub(in crate::node) mod past;
mod placing;
mod pmix;
mod ranks;
pub(in crate::node) mod reconfiguring;
mod requests;
mod standbys;
mod steps;
pub(in crate::node) mod succession;
pub(in crate::node) mod table;
mod testators;
