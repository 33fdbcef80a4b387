//! Where the programs under test are. Must never build anything: `cargo xtask test` did.

use std::{env, path::PathBuf};

/// A program or library that `cargo xtask build` leaves in target/release.
///
/// # Panics
/// When it is not there: a test without its program is no test.
pub fn built(name: &str) -> PathBuf {
    let folder = env::var_os("PCM_BIN_DIR").map_or_else(default_folder, PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo xtask build`, or test through `cargo xtask test`",
        path.display()
    );
    path
}

fn default_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/release")
}

/// The mpiexec of the MPI everything was built for.
///
/// # Panics
/// When xtask's environment is missing: another mpiexec in PATH would start singletons.
pub fn mpiexec() -> PathBuf {
    let path = env::var_os("PCM_MPIEXEC").map(PathBuf::from);
    path.expect("PCM_MPIEXEC is not set: test through `cargo xtask test`, or `eval \"$(cargo xtask env)\"` first")
}
