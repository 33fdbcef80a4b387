//! Compiles programs in C++ and Fortran for tests. Must never run them.

use crate::{
    example::{compile, mpi_compiler, source},
    skip::cannot_run,
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// A C++ program, with libpcm or without; None where there is no C++ compiler.
pub fn cpp(source: &Path, with: &Path, folder: &Path) -> Option<Vec<OsString>> {
    if !works(&mpi_compiler("mpicxx")) {
        cannot_run("there is no C++ compiler: install g++");
        return None;
    }
    let program = folder.join(source.file_stem().expect("a source has a name"));
    let mut compiler = Command::new(with);
    compiler.args([
        "-std=c++17",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Wshadow",
        "-Werror",
    ]);
    // No contraction to fused operations: all languages must compute the same bits.
    compiler.arg("-ffp-contract=off");
    compile(compiler.arg(source).arg("-o").arg(&program));
    Some(vec![program.into_os_string()])
}

/// A Fortran program, with libpcm or without; None where there is no Fortran compiler.
pub fn fortran(name: &str, sources: &[PathBuf], with: &Path, folder: &Path) -> Option<Vec<OsString>> {
    if !works(Path::new("gfortran")) {
        cannot_run("there is no Fortran compiler: install gfortran");
        return None;
    }
    let program = folder.join(name);
    let mut compiler = Command::new(with);
    // mpicc, which the plain version is compiled with, calls this program.
    compiler.env("MPICH_CC", "gfortran").current_dir(folder);
    compiler.args([
        "-std=f2018",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-ffp-contract=off",
        "-fwrapv",
    ]);
    compile(compiler.args(sources).arg("-o").arg(&program));
    Some(vec![program.into_os_string()])
}

/// The module pcm, and that of MPI, then the program's own source.
pub fn with_modules(program: PathBuf) -> [PathBuf; 3] {
    let module = source("../pcm-lib/include/pcm.f90");
    [module, source("heat2d/mpi_over_c.f90"), program]
}

fn works(compiler: &Path) -> bool {
    let version = Command::new(compiler).arg("--version").output();
    version.is_ok_and(|version| version.status.success())
}
