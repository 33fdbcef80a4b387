//! Where things are: the checkout and its target folder. Must never read the network or start programs.

use crate::failure::{Failure, OnPath};
use std::{
    env,
    path::{Path, PathBuf},
};

/// The checkout this xtask was built from.
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Repository {
    /// Finds the checkout: cargo sets CARGO_MANIFEST_DIR to xtask's folder, also when a built copy has moved.
    pub(crate) fn locate() -> Result<Self, Failure> {
        let manifest =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().unwrap_or(Path::new(".")).to_path_buf();
        let root = root.canonicalize().on("find the checkout", &root)?;
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        Ok(Self { root, target })
    }

    /// Where `cargo xtask build` leaves the binaries.
    pub(crate) fn release(&self) -> PathBuf {
        self.target.join("release")
    }

    /// Where setup installs what the machine lacks.
    pub(crate) fn prefix(&self) -> PathBuf {
        self.root.join(".mpi")
    }

    /// Where setup installs Intel MPI, on which tests run, too.
    pub(crate) fn intel_prefix(&self) -> PathBuf {
        self.root.join(".mpi-intel")
    }

    /// Where setup installs Open MPI, for tests.
    pub(crate) fn open_mpi_prefix(&self) -> PathBuf {
        self.root.join(".mpi-open")
    }

    /// Where setup installs an older release of MPICH, for tests.
    pub(crate) fn older_prefix(&self, version: &str) -> PathBuf {
        self.root.join(".mpi-older").join(version)
    }
}
