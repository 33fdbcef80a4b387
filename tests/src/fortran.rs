//! heat2d in Fortran over another binding than that of the example, and the bindings of Debian's MPICH. Must never run
//! it.

use crate::{
    binaries::built,
    example::{compile, source},
    skip::cannot_run,
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// A line of heat2d, and the same with that of a binding.
pub type Binding = (&'static str, &'static str);

pub const MPIF_H: Binding = ("  implicit none\n", "  implicit none\n  include 'mpif.h'\n");
pub const MPI: Binding = ("  use pcm\n", "  use mpi\n  use pcm\n");
pub const MPI_F08: Binding = ("  use pcm\n", "  use mpi_f08\n  use pcm\n");

/// Where Debian's packages of MPICH were unpacked, which have the bindings; None, which says so, where they are not
/// there.
pub fn of_debian() -> Option<PathBuf> {
    let folder = source("../.tools/mpich-fortran");
    if !folder.join(".version").is_file() {
        cannot_run("no MPICH with Fortran: `cargo xtask test` brings Debian's libmpich-dev where apt-get is");
        return None;
    }
    is_there().then_some(folder)
}

/// Whether there is a compiler; says so if not.
pub fn is_there() -> bool {
    let is_there = Command::new("gfortran").arg("--version").output().is_ok();
    if !is_there {
        cannot_run("there is no Fortran compiler: install gfortran");
    }
    is_there
}

/// heat2d with another binding in place of the module of the example.
///
/// # Panics
/// When the example has no such line.
pub fn heat2d_with((from, to): Binding, folder: &Path) -> PathBuf {
    let text = fs::read_to_string(source("heat2d/heat2d.f90")).expect("the example");
    let text = text.replace("  use mpi\n", "").replacen(from, to, 1);
    assert!(text.contains(to), "{to}");
    let file = folder.join("heat2d.f90");
    fs::write(&file, text).expect("a file of the test");
    file
}

/// gfortran, for programs that compute what those in C do, with the module pcm; what is made goes to `folder`.
pub fn compiler(folder: &Path) -> Command {
    let mut compiler = Command::new("gfortran");
    compiler
        .current_dir(folder)
        .args(["-O2", "-ffp-contract=off", "-fwrapv"]);
    compiler.arg(source("../pcm-lib/include/pcm.f90"));
    compiler
}

/// Compiles heat2d over a binding of Debian's packages. Its Fortran library asks for Debian's MPI by a name which here
/// is this library.
pub fn over_debians(bindings: &Path, binding: Binding, mpi: &Path, folder: &Path) -> PathBuf {
    let (file, program) = (heat2d_with(binding, folder), folder.join("heat2d"));
    let libraries = only(&bindings.join("usr/lib"));
    symlink(mpi, folder.join("libmpich.so.12")).expect("a link");
    let fortran = fs::canonicalize(libraries.join("libmpichfort.so.12")).expect("a library");
    symlink(fortran, folder.join("libmpichfort.so.12")).expect("a link");
    let of_pcm = built("libpcm.so").with_file_name("");
    let mut compiler = compiler(folder);
    compiler
        .arg("-I")
        .arg(only(&bindings.join("usr/include")).join("mpich"));
    compiler.arg(file).arg("-o").arg(&program);
    compiler
        .args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-L"])
        .arg(of_pcm);
    compiler.arg("-lpcm").arg("-L").arg(libraries);
    compiler.args(["-lmpichfort", "-lmpich"]);
    compile(compiler.args(["-Xlinker", "-rpath", "-Xlinker"]).arg(folder));
    program
}

/// The only folder in one, which has the name of the machine.
fn only(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder).expect("a folder of the package");
    entries.next().expect("a folder in it").expect("an entry").path()
}
