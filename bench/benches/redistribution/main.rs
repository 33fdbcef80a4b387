//! How fast data moves, against what MPI itself does with the same bytes between the same processes in the same run:
//! one-way messages, and MPI_Alltoallv of the whole array. Prints one line per sample and a summary; judges nothing.
//!
//! `cargo bench -p pcm-bench --bench redistribution -- [MiB per rank] [rounds]`
#![allow(clippy::unwrap_used, reason = "a measurement that fails should stop")]

mod by_movement;
mod by_mpi;
mod cases;

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode},
};

const AS_RANK: &str = "PCM_BENCH_AS_RANK";

fn main() -> ExitCode {
    let numbers: Vec<u64> = env::args().filter_map(|argument| argument.parse().ok()).collect();
    let mebibytes = numbers.first().copied().unwrap_or(256);
    let rounds = numbers.get(1).copied().unwrap_or(10);
    if let Some(case) = env::var_os(AS_RANK) {
        cases::run(case.to_str().unwrap(), mebibytes << 20, rounds);
        return ExitCode::SUCCESS;
    }
    let mpiexec = env::var_os("MPICC")
        .map(PathBuf::from)
        .map(|mpicc| mpicc.with_file_name("mpiexec"));
    let mpiexec = mpiexec.filter(|path| path.exists()).unwrap_or_else(|| "mpiexec".into());
    let filter = env::var("PCM_BENCH_CASE").unwrap_or_default();
    for (case, ranks) in cases::ALL.iter().filter(|(case, _)| case.contains(&filter)) {
        let status = Command::new(&mpiexec)
            .args(["-n", &ranks.to_string()])
            .arg(env::current_exe().unwrap())
            .args([mebibytes.to_string(), rounds.to_string()])
            .env(AS_RANK, case)
            .env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0")
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
