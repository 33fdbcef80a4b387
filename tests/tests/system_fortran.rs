//! heat2d over the bindings of an MPICH with Fortran: `mpif.h`, `use mpi` and `use mpi_f08`. It changes live on the MPI
//! of reference, loses a rank, its calls are seen, and the result is that of an undisturbed run.

use serde_json::Value;
use std::{env, path::Path};
use tests::{
    cell::{self, PACE},
    cluster::{Cluster, LIMIT},
    fortran::{self, Binding, MPI, MPI_F08, MPIF_H},
    limited,
    malleable::Malleable,
    older,
    random_changes::NODES,
};

/// Two calls of each iteration are counted; it changes, loses a rank, and ends right.
fn changes_and_recovers(binding: Binding) {
    let Some(bindings) = fortran::of_debian() else { return };
    let (cluster, folder) = (Cluster::up(3), tempfile::tempdir().expect("a folder"));
    let mpi = env::var_os("PCM_MPI_LIB").expect("PCM_MPI_LIB is not set: test through `cargo xtask test`");
    let mpi = Path::new(&mpi);
    let program = fortran::over_debians(&bindings, binding, &mpi.join("libmpi.so.12"), folder.path());
    let job = Malleable::start(&cluster, program.to_str().expect("UTF-8"), 2, 4000, 500);
    job.resize(3);
    let trace = cluster.files().join("t.json");
    let mut command = cluster.pcmctl(&["trace", "1", "--seconds", "1", "--json", "--out"]);
    let traced = limited::run(command.arg(trace), LIMIT);
    let counts: Value = serde_json::from_str(&traced.stdout).unwrap_or_else(|_| panic!("{traced:?}"));
    let [calls, iterations] = ["calls", "iterations"].map(|name| counts[name].as_u64().expect("a count"));
    assert!(iterations > 10 && calls * 10 > iterations * 19, "{counts}");
    assert_eq!(job.ends_right().ranks, 3);
    cluster.down();

    let cluster = Cluster::that_crashes(NODES);
    cell::survives(&cluster, &program, PACE, mpi, &[]);
    cluster.down();
}

#[test]
fn a_program_over_mpif_h_changes_and_recovers_and_its_calls_are_counted() {
    changes_and_recovers(MPIF_H);
}

#[test]
fn a_program_over_the_module_mpi_changes_and_recovers_and_its_calls_are_counted() {
    changes_and_recovers(MPI);
}

#[test]
fn a_program_over_the_module_mpi_f08_changes_and_recovers_and_its_calls_are_counted() {
    changes_and_recovers(MPI_F08);
}

/// Its wheel has no bindings of its own.
#[test]
fn programs_over_all_three_change_and_recover_on_mpich_4_3() {
    let Some(bindings) = fortran::of_debian() else { return };
    let prefix = older::prefix("4.3.2");
    let variables = [("PCM_MPI", prefix.to_str().expect("UTF-8"))];
    for binding in [MPIF_H, MPI, MPI_F08] {
        let cluster = Cluster::that_crashes(NODES);
        let library = prefix.join("lib/libmpi.so.12");
        let program = fortran::over_debians(&bindings, binding, &library, cluster.files());
        cell::survives(&cluster, &program, PACE, &prefix.join("lib"), &variables);
        cluster.down();
    }
}
