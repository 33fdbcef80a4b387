//! Bulk transfers: memory from here to memory there, checked, and gone on with after a broken connection.

mod channel;
mod ledger;
mod mapped;
mod memory;
mod regions;
mod service;
mod tcp;
pub mod wire;

pub use channel::Protection;
pub use ledger::Ledger;
pub use mapped::{Alone, Mapped};
pub use memory::{Lent, RegionMemory};
pub use regions::Offer;
#[cfg(feature = "rdma")]
pub(crate) use regions::{Filling, Opened, Regions};
pub use service::{BulkService, PutError, PutReport};
pub use tcp::TcpBulk;
pub use wire::{Reason, RegionToken};
