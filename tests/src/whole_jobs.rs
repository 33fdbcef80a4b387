//! What a job does from its start to its end, on the MPI that its program and its variables choose: the tests of each
//! MPI ask for the same.

use crate::{
    background::Background,
    cluster::{Cluster, LIMIT},
    malleable::Malleable,
};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// It grows and shrinks by a relaunch, and ends right.
///
/// # Panics
/// When it does not.
pub fn is_relaunched_and_ends_right(cluster: &Cluster, program: &str, variables: &[(&str, &str)]) {
    let job = Malleable::start_with(cluster, program, 2, (6000, 500), variables);
    for to in ["3", "1"] {
        let verb = if to == "3" { "expand" } else { "shrink" };
        let outcome = cluster.run(&[verb, "1", "--to", to, "--mode", "relaunch"]);
        assert!(outcome.status.success(), "{outcome:?}\n{}", job.told());
    }
    assert_eq!(job.ends_right().ranks, 1);
}

/// One that is bound by messages goes on as fast with ranks of two worlds.
///
/// # Panics
/// When it does not.
pub fn is_as_fast_with_ranks_of_two_worlds(cluster: &Cluster, program: &str, variables: &[(&str, &str)]) {
    let job = Malleable::start_with(cluster, program, 2, (150_000, 0), variables);
    let change = job.migrate(1, "n0");
    assert_eq!(change["mode"], "live", "{change}");
    let began = Instant::now();
    job.ends_right();
    let took = began.elapsed();
    println!("after the change: {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// MPI is finalized for `tests/programs/changing.c` after a live change, with the MPI of this folder.
///
/// # Panics
/// When it is not.
pub fn finalizes_after_a_change(cluster: &Cluster, program: &Path, mpi: &str) {
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0", "--"]);
    command.arg(program).args(["over", "1500", "1000"]);
    let job = Background::start(command.env("PCM_MPI", mpi));
    cluster.wait_until_ranks_of_iterate("1");
    let change = cluster.run(&["migrate", "1", "--rank", "1", "--to", "n1", "--mode", "live"]);
    assert!(change.status.success(), "{change:?}");
    // The program says by its code whether MPI_Finalized was true.
    let outcome = job.end(LIMIT);
    assert!(
        outcome.status.success() && outcome.stdout.contains("over: done"),
        "{outcome:?}"
    );
}
