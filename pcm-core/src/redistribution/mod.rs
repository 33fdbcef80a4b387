//! Who sends which part of the application's data to whom when the ranks of a job change. Pure: from two partitions
//! and two rank orders to lists of transfers with local byte runs. Never touches memory, MPI or a socket.
//! The roles, guarantees and memory bounds are told in `README.md` beside this file.

mod change;
mod chunk;
mod intersection;
pub mod invariant;
mod ledger;
mod meeting;
pub mod parcels;
mod plan;
pub mod rank_order;
mod region;
mod runs;
mod storage;
mod transfer;

pub use change::{ChangeError, RankChange};
pub use chunk::{CHUNK_HEADER_BYTES, ChunkError, ChunkHeader, Chunks, TransferId, TransferKind};
pub use ledger::{ChunkRefused, Ledger};
pub use plan::{ArrayPlan, HaloFill, PIECES_MAX, PlanError, Totals};
pub use region::{GlobalRun, Piece};
pub use runs::{ByteRun, ByteRuns, CopyRun, CopyRuns, Level, LocalRuns};
pub use storage::StorageReuse;
pub use transfer::Transfer;

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests measure time"
)]
mod cost_limits;
#[cfg(test)]
mod properties;
