//! The memory files that this daemon holds for the node's store, and what is done with them: background work, bulk
//! transfers, lending. Decides nothing: it carries out the store's effects and reports what came of them.

mod background;
mod carrier;
mod event;
mod image_sums;
mod lending;
mod memory_file;
mod table;
mod transfer;
mod transfer_ends;

pub(super) use carrier::MemoryCarrier;
pub(super) use event::MemoryEvent;
pub(super) use lending::{lending_name, open as lend};
pub(super) use transfer::Bulk;
pub(super) use transfer_ends::RdmaWish;
