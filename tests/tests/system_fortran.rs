//! heat2d over the bindings of an MPICH with Fortran: `mpif.h`, `use mpi` and `use mpi_f08`. It changes live on the MPI
//! of reference, its calls are seen, and the result is that of an undisturbed run.

use serde_json::Value;
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use tests::{
    cluster::{Cluster, LIMIT},
    example::{compile, source},
    limited,
    malleable::Malleable,
    skip::cannot_run,
};

/// Where the packages were unpacked that have the bindings; None, which says so, where they are not there.
fn bindings() -> Option<PathBuf> {
    let folder = source("../.tools/mpich-fortran");
    if !folder.join(".version").is_file() {
        cannot_run("no MPICH with Fortran: `cargo xtask test` brings Debian's libmpich-dev where apt-get is");
        return None;
    }
    if Command::new("gfortran").arg("--version").output().is_err() {
        cannot_run("there is no Fortran compiler: install gfortran");
        return None;
    }
    Some(folder)
}

/// The only folder in one, which has the name of the machine.
fn only(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder).expect("a folder of the package");
    entries.next().expect("a folder in it").expect("an entry").path()
}

/// Compiles heat2d with another line in place of `use mpi`. Its Fortran library asks for Debian's MPI by a name which
/// here is the MPI of reference.
fn heat2d(bindings: &Path, (from, to): (&str, &str), folder: &Path) -> PathBuf {
    let text = fs::read_to_string(source("heat2d/heat2d.f90")).expect("the example");
    let text = text.replace("  use mpi\n", "").replacen(from, to, 1);
    assert!(text.contains(to), "{to}");
    let (file, program) = (folder.join("heat2d.f90"), folder.join("heat2d"));
    fs::write(&file, text).expect("a file of the test");
    let libraries = only(&bindings.join("usr/lib"));
    let mpi = env::var_os("PCM_MPI_LIB").expect("PCM_MPI_LIB is not set: test through `cargo xtask test`");
    symlink(Path::new(&mpi).join("libmpi.so.12"), folder.join("libmpich.so.12")).expect("a link");
    let fortran = fs::canonicalize(libraries.join("libmpichfort.so.12")).expect("a library");
    symlink(fortran, folder.join("libmpichfort.so.12")).expect("a link");
    let of_pcm = tests::binaries::built("libpcm.so").with_file_name("");
    let mut compiler = Command::new("gfortran");
    compiler
        .current_dir(folder)
        .args(["-O2", "-ffp-contract=off", "-fwrapv"]);
    compiler
        .arg("-I")
        .arg(only(&bindings.join("usr/include")).join("mpich"));
    compiler
        .arg(source("../pcm-lib/include/pcm.f90"))
        .arg(file)
        .arg("-o")
        .arg(&program);
    compiler
        .args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-L"])
        .arg(of_pcm);
    compiler
        .arg("-lpcm")
        .arg("-L")
        .arg(libraries)
        .args(["-lmpichfort", "-lmpich"]);
    compile(compiler.args(["-Xlinker", "-rpath", "-Xlinker"]).arg(folder));
    program
}

/// Grows from two ranks to three, moves one and ends right; two calls of each iteration are counted.
fn changes_live(replaced: (&str, &str)) {
    let Some(bindings) = bindings() else { return };
    let cluster = Cluster::up(3);
    let program = heat2d(&bindings, replaced, cluster.files());
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
    changes_live(("  implicit none\n", "  implicit none\n  include 'mpif.h'\n"));
}

#[test]
fn a_program_over_the_module_mpi_changes_live_and_its_calls_are_counted() {
    changes_live(("  use pcm\n", "  use mpi\n  use pcm\n"));
}

#[test]
fn a_program_over_the_module_mpi_f08_changes_live_and_its_calls_are_counted() {
    changes_live(("  use pcm\n", "  use mpi_f08\n  use pcm\n"));
}
