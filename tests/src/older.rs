//! Older releases of MPICH, which `cargo xtask setup` installs, and programs that are compiled with some MPI. A test
//! without them is no test: must never skip.

use crate::{binaries::built, cluster::LIMIT, limited};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where a release is.
///
/// # Panics
/// When it is not installed.
pub fn prefix(version: &str) -> PathBuf {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.mpi-older")
        .join(version);
    assert!(
        prefix.join(".installed-mpich").is_file(),
        "MPICH {version} is not in {}: run `cargo xtask setup`",
        prefix.display()
    );
    prefix.canonicalize().expect("a folder")
}

/// Compiles a malleable C program, named from the root of the repository, into `folder`: with the headers and libraries
/// of this MPI, and with nothing of another.
///
/// # Panics
/// When it does not compile.
pub fn compiled_by(mpi: &Path, source: &str, folder: &Path) -> PathBuf {
    compiled_with(mpi, (&[], "libpcm.so"), source, folder)
}

/// The same with these options of the compiler, and this libpcm.
///
/// # Panics
/// When it does not compile.
pub fn compiled_with(mpi: &Path, (options, libpcm): (&[&str], &str), source: &str, folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join(source);
    let program = folder.join(source.file_stem().expect("a source has a name"));
    let libpcm = built(libpcm);
    let mut compile = Command::new(mpi.join("bin/mpicc"));
    compile
        .env("I_MPI_ROOT", mpi)
        .args(options)
        .arg("-O1")
        .arg("-I")
        .arg(root.join("pcm-lib/include"));
    compile.arg("-o").arg(&program).arg(&source);
    // MPI stays a library of the program even where libpcm has all that the program calls (decision 45).
    compile.arg("-Wl,--no-as-needed").arg(libpcm);
    let outcome = limited::run(compile.arg("-lm"), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    program
}
