//! Other MPIs than MPICH: what a start of ranks takes beside that of their own launcher, and what changes of a job cost
//! beside MPICH's. Must never compare runs that were not made in turns.

mod changes;
pub(super) mod intel_mpi;
pub(super) mod open_mpi;

use super::{bench::Context, launch::Launches};
use pcm_bench::{Failure, OnPath, Report};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const RANKS: [u32; 3] = [1, 4, 16];

/// An MPI that `cargo xtask setup` put into a folder of its own.
struct Mpi {
    /// Of the bench about it.
    bench: &'static str,
    /// Of its job, and in the names of figures.
    name: &'static str,
    /// What its own launcher is called.
    launcher: &'static str,
    prefix: PathBuf,
}

impl Mpi {
    /// The folder is named from the root of the repository.
    fn find(bench: &'static str, [name, launcher]: [&'static str; 2], folder: &str) -> Result<Self, Failure> {
        let prefix = fs::canonicalize(folder).on("find", folder)?;
        Ok(Self {
            bench,
            name,
            launcher,
            prefix,
        })
    }

    /// A program in its folder.
    fn program(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// Starts of `pcm-trial`, compiled for this MPI, by `pcmctl run` and by its launcher.
    fn launches(
        &self,
        context: &Context,
        program: &Path,
        launcher: &dyn Fn(&str) -> Command,
    ) -> Result<Report, Failure> {
        Launches {
            bench: self.bench,
            program,
            variable: Some(self.variable()),
            launchers: &[(self.launcher, launcher)],
        }
        .compare(context, &RANKS)
    }

    /// What `pcmctl run` has to find in its environment.
    fn variable(&self) -> (&'static str, &Path) {
        ("PCM_MPI", &self.prefix)
    }
}
