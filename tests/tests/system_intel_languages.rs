//! heat2d in Fortran and in Python on a real Intel MPI: over Intel's own bindings, over those of an MPICH, and over
//! mpi4py. Each changes live at random, loses a rank, and computes the bits of an undisturbed run.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::path::Path;
use tests::{
    cell::{self, PACE, PACE_OF_PYTHON},
    cluster::{Cluster, LIMIT},
    example::{compile, for_python, source},
    fortran::{self, Binding, MPI, MPI_F08, MPIF_H},
    intel, limited,
    random_changes::NODES,
};

fn survives(cluster: &Cluster, program: &Path, pace: (u64, u32), more: &[(&str, &str)]) {
    let prefix = intel::prefix();
    let mut variables = vec![("PCM_MPI", prefix.to_str().expect("UTF-8"))];
    variables.extend(more);
    cell::survives(cluster, program, pace, &prefix.join("lib"), &variables);
}

fn over_intels(binding: Binding) {
    let cluster = Cluster::that_crashes(NODES);
    let Some(mut compiler) = intel::fortran_compiler(binding, cluster.files()) else {
        return;
    };
    compile(&mut compiler);
    survives(&cluster, &cluster.files().join("of-fortran"), PACE, &[]);
    cluster.down();
}

#[test]
fn fortran_over_intels_mpif_h_changes_and_recovers() {
    over_intels(MPIF_H);
}

#[test]
fn fortran_over_intels_module_mpi_changes_and_recovers() {
    over_intels(MPI);
}

/// Intel has it for its own compilers only.
#[test]
fn intels_module_mpi_f08_is_refused_by_gfortran() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut compiler) = intel::fortran_compiler(MPI_F08, folder.path()) else {
        return;
    };
    let refused = limited::run(&mut compiler, LIMIT);
    assert!(
        !refused.status.success() && refused.stderr.contains("mpi_f08.mod"),
        "{refused:?}"
    );
}

#[test]
fn fortran_over_the_module_mpi_f08_of_an_mpich_changes_and_recovers() {
    let Some(bindings) = fortran::of_debian() else { return };
    let cluster = Cluster::that_crashes(NODES);
    let mpi = intel::prefix().join("lib/libmpi.so.12");
    let program = fortran::over_debians(&bindings, MPI_F08, &mpi, cluster.files());
    survives(&cluster, &program, PACE, &[]);
    cluster.down();
}

#[test]
fn python_over_mpi4py_changes_and_recovers() {
    let Some(variables) = for_python() else { return };
    let cluster = Cluster::that_crashes(NODES);
    let variables: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (*name, value.to_str().expect("UTF-8")))
        .collect();
    survives(&cluster, &source("heat2d/heat2d.py"), PACE_OF_PYTHON, &variables);
    cluster.down();
}
