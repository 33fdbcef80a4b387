//! Bulk transfers: memory from here to memory there, checked, and gone on with after a broken connection.

mod channel;
mod ledger;
mod memory;
mod regions;
mod service;
mod tcp;
pub mod wire;

pub use channel::Protection;
pub use ledger::Ledger;
pub use memory::{RegionMemory, Source};
pub use regions::Offer;
#[cfg(feature = "rdma")]
pub(crate) use regions::{Filling, Opened, Regions};
pub use service::{BulkService, PutError, PutReport};
pub use tcp::TcpBulk;
pub use wire::{Reason, RegionToken};
