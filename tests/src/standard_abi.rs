//! Programs of the standard ABI of MPI-5, compiled with the header and the library that the MPI in use has for them.

use crate::{binaries::built, cluster::LIMIT, limited, skip::cannot_run};
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
