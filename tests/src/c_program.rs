//! C programs that a test compiles for itself, with the MPI everything was built for.

use crate::{cluster::LIMIT, limited};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles a source, named from the folder of the tests, into `folder`.
///
/// # Panics
/// When it does not compile.
pub fn compiled(source: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = folder.join(source.file_stem().expect("a source has a name"));
    let mut compile = Command::new(env::var_os("MPICC").unwrap_or_else(|| "mpicc".into()));
    let outcome = limited::run(compile.arg("-O1").arg("-o").arg(&program).arg(&source), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    program
}
