//! Intel MPI, which `cargo xtask setup` installs: programs compiled with it, and what they run with. A test without it
//! is no test: must never skip.

use crate::{binaries::built, cluster::LIMIT, limited, older::compiled_by, skip::cannot_run};
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

/// Compiles a malleable Fortran program, likewise, with Intel's module `mpi` for gfortran and its Fortran library; None
/// where there is no gfortran.
///
/// # Panics
/// When it does not compile.
pub fn compiled_fortran(source: &str, folder: &Path) -> Option<PathBuf> {
    let Ok(version) = Command::new("gfortran").arg("-dumpversion").output() else {
        cannot_run("there is no Fortran compiler: install gfortran");
        return None;
    };
    let version = String::from_utf8_lossy(&version.stdout);
    let major = version.trim().split('.').next().unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join(source);
    let program = folder.join("of-fortran");
    let of_pcm = built("libpcm.so").with_file_name("");
    let (include, library) = (prefix().join("include"), prefix().join("lib"));
    let mut compile = Command::new("gfortran");
    compile
        .current_dir(folder)
        .args(["-O2", "-ffp-contract=off", "-fwrapv"]);
    compile.arg("-I").arg(modules(&include.join("mpi/gfortran"), major));
    compile.arg("-I").arg(include);
    compile.arg("-o").arg(&program);
    compile.arg(root.join("pcm-lib/include/pcm.f90")).arg(&source);
    compile.args(["-Wl,--no-as-needed", "-L"]).arg(of_pcm).arg("-lpcm");
    compile.arg("-L").arg(&library).args(["-lmpifort", "-lmpi"]);
    let run_path = format!("-Wl,-rpath,{}", library.display());
    let outcome = limited::run(compile.arg(run_path), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    Some(program)
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
