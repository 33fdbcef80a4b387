//! The cases: one file each, named in `registry`. Must never change what they measure to look better.
//!
//! To add one: write `NAME.rs` with `pub(super) const BENCH: Bench`, and name it in `registry::BENCHES`.

mod adapt;
mod agents;
mod bench;
mod calls;
mod checkpoint;
mod checkpoint_files;
mod cpu_taken;
mod dynamic;
mod events;
mod fabric;
mod fabric_rdma;
mod interleave;
mod interrupted;
mod iteration;
mod launch;
mod other_mpis;
mod overhead;
mod pieces;
mod plain_exchange;
mod python;
mod reconfigure;
mod recovery;
mod redistribute;
pub(crate) mod registry;
mod sparse_cg;
mod spawn;
mod table;
mod waiting;
mod watched;
mod watching;
mod wide;
