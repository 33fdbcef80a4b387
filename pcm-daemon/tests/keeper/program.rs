//! The MPI program the tests run as ranks, compiled once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The compiled `ranks.c`.
pub fn ranks() -> &'static str {
    let path = PROGRAM.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keeper-ranks");
        let compiler = compiler(here);
        let own = binary.with_extension(std::process::id().to_string());
        let status = Command::new(&compiler)
            .arg("-o")
            .arg(&own)
            .arg(here.join("tests/keeper/ranks.c"))
            .status()
            .unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask setup` first", compiler.display()));
        assert!(status.success());
        std::fs::rename(&own, &binary).unwrap();
        binary
    });
    path.to_str().unwrap()
}

fn compiler(here: &Path) -> PathBuf {
    let named = std::env::var_os("MPICC").map(PathBuf::from);
    let prefix = std::env::var_os("PCM_MPI").map(|prefix| PathBuf::from(prefix).join("bin/mpicc"));
    let installed = Some(here.join("../.mpi/bin/mpicc")).filter(|path| path.exists());
    named.or(prefix).or(installed).unwrap_or_else(|| PathBuf::from("mpicc"))
}
