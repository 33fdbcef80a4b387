//! Intel MPI, which `cargo xtask setup` installs: programs compiled with it, and what they run with. A test without it
//! is no test: must never skip.

use crate::{
    binaries::built,
    cluster::LIMIT,
    fortran::{self, Binding},
    limited,
    older::{compiled_by, compiled_with},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where it is.
///
/// # Panics
/// When it is not installed.
pub fn prefix() -> PathBuf {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.mpi-intel");
    assert!(
        prefix.join(".installed-impi-rt").is_file() && prefix.join(".installed-impi-devel").is_file(),
        "Intel MPI is not in {}: run `cargo xtask setup`",
        prefix.display()
    );
    prefix.canonicalize().expect("a folder")
}

/// Compiles a malleable C program, named from the root of the repository, into `folder`: with the headers and libraries
/// of Intel MPI, and with nothing of the first MPI.
///
/// # Panics
/// When it does not compile.
pub fn compiled(source: &str, folder: &Path) -> PathBuf {
    compiled_by(&prefix(), source, folder)
}

/// The same for the standard ABI, which the library of Intel MPI has with numbers of its own.
///
/// # Panics
/// When it does not compile.
pub fn compiled_standard(source: &str, folder: &Path) -> PathBuf {
    compiled_with(&prefix(), (&["-mpi-abi"], "libpcm_abi.so"), source, folder)
}

/// gfortran for heat2d over a binding of Intel MPI, of which Intel has the modules that this gfortran reads; None where
/// there is no gfortran. It writes the program `of-fortran` into `folder`.
pub fn fortran_compiler(binding: Binding, folder: &Path) -> Option<Command> {
    if !fortran::is_there() {
        return None;
    }
    let version = limited::run(Command::new("gfortran").arg("-dumpversion"), LIMIT).stdout;
    let major = version.trim().split('.').next().unwrap_or_default();
    let of_pcm = built("libpcm.so").with_file_name("");
    let (include, library) = (prefix().join("include"), prefix().join("lib"));
    let source = fortran::heat2d_with(binding, folder);
    let mut compile = fortran::compiler(folder);
    compile.arg("-I").arg(modules(&include.join("mpi/gfortran"), major));
    compile.arg("-I").arg(include).arg(source);
    compile.args(["-o", "of-fortran"]);
    compile.args(["-Wl,--no-as-needed", "-L"]).arg(of_pcm).arg("-lpcm");
    compile.arg("-L").arg(&library).args(["-lmpifort", "-lmpi"]);
    compile.arg(format!("-Wl,-rpath,{}", library.display()));
    Some(compile)
}

/// The folder for this gfortran among those of its releases.
fn modules(folder: &Path, major: &str) -> PathBuf {
    let releases = fs::read_dir(folder).expect("Intel MPI has modules for gfortran");
    let mut releases = releases.map(|entry| entry.expect("an entry").path());
    let is_its = |release: &PathBuf| {
        let name = release.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.split('.').next() == Some(major))
    };
    releases
        .find(is_its)
        .unwrap_or_else(|| panic!("Intel MPI has no modules for gfortran {major}"))
}
