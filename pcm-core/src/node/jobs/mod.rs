//! The jobs of this node: those it coordinates, and its part of each. Their machines are in [`crate::job`].

pub(in crate::node) mod coordinating;
mod data;
pub(in crate::node) mod heirs;
mod layout_changes;
pub(in crate::node) mod leading;
pub(in crate::node) mod led;
pub(in crate::node) mod local;
pub(in crate::node) mod machine;
mod numbering;
pub(in crate::node) mod parts;
mod ranks;
pub(in crate::node) mod reconfiguring;
mod restoring;
mod succession;
pub(in crate::node) mod table;
mod testators;
