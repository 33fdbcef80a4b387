//! Programs of the standard ABI of MPI-5, compiled with the header and the library that the MPI in use has for them.

use crate::{
    binaries::built,
    cluster::LIMIT,
    example::{compile, source},
    fortran, limited,
    skip::cannot_run,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// With which libpcm a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// None: it is preloaded.
    Nothing,
    /// The one for its ABI.
    ItsOwn,
    /// The one for the ABI of MPICH, which must step aside.
    TheOther,
}

/// The compiler of the MPI in use for the standard ABI; None where that MPI has none.
pub fn compiler() -> Option<PathBuf> {
    let plain = env::var_os("MPICC").map_or_else(|| PathBuf::from("mpicc"), PathBuf::from);
    let compiler = plain.with_file_name("mpicc_abi");
    if Command::new(&compiler).arg("-show").output().is_err() {
        cannot_run("the MPI in use has no mpicc_abi: it comes with MPICH 5");
        return None;
    }
    Some(compiler)
}

/// The library of that MPI.
pub fn library() -> PathBuf {
    let folder = env::var_os("PCM_MPI_LIB").expect("PCM_MPI_LIB is not set: test through `cargo xtask test`");
    let library = PathBuf::from(folder).join("libmpi_abi.so.1");
    library.canonicalize().expect("the library of the standard ABI")
}

/// Compiles a C program into `folder`: a file, or a folder of C files, named from the root of the repository.
///
/// # Panics
/// When it does not compile.
pub fn compiled(compiler: &Path, source: &str, folder: &Path, with: With) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join(source);
    let name = source.file_stem().expect("a source has a name");
    let program = folder.join(name).with_extension("abi");
    let of_pcm = built("libpcm_abi.so").with_file_name("");
    let mut compile = Command::new(compiler);
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]);
    compile.arg("-I").arg(root.join("pcm-lib/include"));
    compile.arg("-o").arg(&program).args(sources(&source));
    // MPI stays a library of the program even where libpcm has all that the program calls (decision 45).
    compile.arg("-Wl,--no-as-needed").arg("-L").arg(&of_pcm);
    match with {
        With::Nothing => &mut compile,
        With::ItsOwn => compile.arg("-lpcm_abi"),
        With::TheOther => compile.arg("-lpcm"),
    };
    for folder in [of_pcm, library().with_file_name("")] {
        compile.args(["-Xlinker", "-rpath", "-Xlinker"]).arg(folder);
    }
    let outcome = limited::run(compile.arg("-lm"), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    program
}

/// What is other in the module mpi of the examples for the standard ABI: handles, and numbers of its header.
const IN_FORTRAN: [(&str, &str); 6] = [
    ("handle = c_int\n", "handle = c_intptr_t\n"),
    ("1140850688 ", "257 "),
    ("1275070475 ", "532 "),
    ("1275070522 ", "600 "),
    ("1476395011 ", "33 "),
    (
        "MPI_PROC_NULL = -1, MPI_STATUS_SIZE = 5",
        "MPI_PROC_NULL = -3, MPI_STATUS_SIZE = 8",
    ),
];

/// Compiles heat2d in Fortran over the C functions of the standard ABI into `folder`.
pub fn compiled_fortran(folder: &Path) -> PathBuf {
    let module = fs::read_to_string(source("heat2d/mpi_over_c.f90")).expect("the module of the examples");
    let module = IN_FORTRAN.iter().fold(module, |module, (from, to)| {
        assert_eq!(module.matches(from).count(), 1, "{from}");
        module.replace(from, to)
    });
    let (file, program) = (folder.join("mpi_over_c.f90"), folder.join("heat2d"));
    fs::write(&file, module).expect("a file of the test");
    let of_pcm = built("libpcm_abi.so").with_file_name("");
    let of_mpi = library().with_file_name("");
    let mut compiler = fortran::compiler(folder);
    compiler.arg(file).arg(source("heat2d/heat2d.f90"));
    compiler.arg("-o").arg(&program);
    compiler
        .args(["-Wl,--no-as-needed", "-L"])
        .arg(of_pcm)
        .arg("-lpcm_abi")
        .arg("-L")
        .arg(&of_mpi);
    compiler.args(["-l:libmpi_abi.so.1", "-Xlinker", "-rpath", "-Xlinker"]);
    compile(compiler.arg(of_mpi));
    program
}

fn sources(source: &Path) -> Vec<PathBuf> {
    if !source.is_dir() {
        return vec![source.to_owned()];
    }
    let entries = fs::read_dir(source).expect("a folder of sources");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files
        .filter(|file| file.extension().is_some_and(|ending| ending == "c"))
        .collect()
}
