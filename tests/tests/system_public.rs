//! Programs nobody here wrote run under `pcmctl run` unchanged: the test suite of mpi4py and the Intel MPI Benchmarks.
//! `cargo xtask test` brings them from PyPI.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};
use tests::{
    cluster::Cluster,
    limited::{self, Outcome},
    skip::cannot_run,
};

/// The parts of mpi4py's suite take 20 s alone on two cores.
const SUITE_MAX: Duration = Duration::from_secs(400);

fn tool(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools").join(name);
    if !path.exists() {
        cannot_run(&format!(
            "{} is not there: it comes from PyPI with `cargo xtask test`",
            path.display()
        ));
        return None;
    }
    path.canonicalize().ok()
}

/// The MPI of this build, for programs that carry no run path to it.
fn library_path() -> PathBuf {
    let path = env::var_os("PCM_MPI_LIB").map(PathBuf::from);
    path.expect("PCM_MPI_LIB is not set: test through `cargo xtask test`, or `eval \"$(cargo xtask env)\"` first")
}

fn mpi4py(ranks: u32, manner: &[&str], include: &str, exclude: &str) -> Option<Outcome> {
    let suite = tool("mpi4py")?;
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", &ranks.to_string()]);
    command
        .args(manner)
        .args(["--", "python3"])
        .arg(suite.join("test/main.py"))
        .args(["-q", "--no-builddir", "-i", include, "-e", exclude]);
    command
        .env("PYTHONPATH", suite.join("lib"))
        .env("LD_LIBRARY_PATH", library_path());
    let outcome = limited::run(&mut command, SUITE_MAX);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
    Some(outcome)
}

/// `Ran N tests in …` by every rank, each followed by `OK`.
fn assert_ran(outcome: &Outcome, ranks: usize, at_least: u32) {
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    let ran: Vec<u32> = said
        .lines()
        .filter_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(ran.len(), ranks, "{said}");
    assert!(ran.iter().all(|count| *count >= at_least), "{ran:?}");
    assert_eq!(
        said.lines().filter(|line| line.starts_with("OK")).count(),
        ranks,
        "{said}"
    );
}

#[test]
fn the_point_to_point_and_collective_tests_of_mpi4py_pass() {
    if let Some(outcome) = mpi4py(2, &[], "test_p2p|test_cco|test_msgzero|test_request", "inter") {
        assert_ran(&outcome, 2, 500);
    }
}

#[test]
fn the_same_tests_pass_where_every_wait_sleeps() {
    if let Some(outcome) = mpi4py(
        2,
        &["--wait", "sleep"],
        "test_p2p|test_cco|test_msgzero|test_request",
        "inter",
    ) {
        assert_ran(&outcome, 2, 500);
    }
}

#[test]
fn the_communicator_group_and_topology_tests_of_mpi4py_pass() {
    if let Some(outcome) = mpi4py(
        3,
        &["--wait", "adaptive"],
        "test_comm|test_group|test_attributes|test_errhandler",
        "inter",
    ) {
        assert_ran(&outcome, 3, 100);
    }
}

#[test]
fn the_intel_mpi_benchmarks_run_to_their_end() {
    let Some(imb) = tool("imb/IMB-MPI1") else { return };
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", "4", "--"]);
    command
        .arg(imb)
        .args(["-iter", "20", "-time", "0.2", "-msglog", "0:16", "-npmin", "2"]);
    let benchmarks = [
        "PingPong",
        "Sendrecv",
        "Exchange",
        "Allreduce",
        "Reduce",
        "Allgather",
        "Alltoall",
        "Bcast",
        "Barrier",
    ];
    command.args(benchmarks).env("LD_LIBRARY_PATH", library_path());
    let outcome = limited::run(&mut command, SUITE_MAX);
    assert!(outcome.status.success(), "{outcome:?}");
    for benchmark in benchmarks {
        assert!(
            outcome.stdout.contains(&format!("# Benchmarking {benchmark}")),
            "{benchmark} in {outcome:?}"
        );
    }
    assert!(
        outcome.stdout.contains("All processes entering MPI_Finalize"),
        "{outcome:?}"
    );
    cluster.down();
}
