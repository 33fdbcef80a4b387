//! Benches: one file each, named in `registry`. Must never change what it measures to look better.
//!
//! To add one: write `NAME.rs` with `pub(super) const BENCH: Bench`, and name it in `registry::BENCHES`.

mod adapt;
mod agents;
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
mod overhead;
mod plain_exchange;
mod reconfigure;
mod record;
mod recovery;
mod redistribute;
pub(crate) mod registry;
mod samples;
mod spawn;
mod table;
mod trial;
mod waiting;
mod watched;
mod watching;

pub(crate) use registry::Options;

/// Runs a command to a successful end within the deadline; what it said on standard output.
pub(crate) fn run_to_end(
    who: &'static str,
    command: std::process::Command,
    deadline: std::time::Duration,
) -> Result<String, crate::failure::Failure> {
    trial::run(who, command, deadline).map(|outcome| outcome.stdout)
}
