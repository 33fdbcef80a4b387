//! heat2d over the bindings of an MPICH with Fortran: `mpif.h`, `use mpi` and `use mpi_f08`. It changes live on the MPI
//! of reference, its calls are seen, and the result is that of an undisturbed run.

use serde_json::Value;
use std::{env, path::Path};
use tests::{
    cluster::{Cluster, LIMIT},
    fortran::{self, Binding, MPI, MPI_F08, MPIF_H},
    limited,
    malleable::Malleable,
};

/// Grows from two ranks to three, moves one and ends right; two calls of each iteration are counted.
fn changes_live(binding: Binding) {
    let Some(bindings) = fortran::of_debian() else { return };
    let cluster = Cluster::up(3);
    let mpi = env::var_os("PCM_MPI_LIB").expect("PCM_MPI_LIB is not set: test through `cargo xtask test`");
    let mpi = Path::new(&mpi).join("libmpi.so.12");
    let program = fortran::over_debians(&bindings, binding, &mpi, cluster.files());
    let job = Malleable::start(&cluster, program.to_str().expect("UTF-8"), 2, 6000, 500);
    job.resize(3);
    job.migrate(1, "n2");
    let trace = cluster.files().join("t.json");
    let mut command = cluster.pcmctl(&["trace", "1", "--seconds", "1", "--json", "--out"]);
    let traced = limited::run(command.arg(trace), LIMIT);
    let counts: Value = serde_json::from_str(&traced.stdout).unwrap_or_else(|_| panic!("{traced:?}"));
    let [calls, iterations] = ["calls", "iterations"].map(|name| counts[name].as_u64().expect("a count"));
    assert!(iterations > 10 && calls * 10 > iterations * 19, "{counts}");
    assert_eq!(job.ends_right().ranks, 3);
    cluster.down();
}

#[test]
fn a_program_over_mpif_h_changes_live_and_its_calls_are_counted() {
    changes_live(MPIF_H);
}

#[test]
fn a_program_over_the_module_mpi_changes_live_and_its_calls_are_counted() {
    changes_live(MPI);
}

#[test]
fn a_program_over_the_module_mpi_f08_changes_live_and_its_calls_are_counted() {
    changes_live(MPI_F08);
}
