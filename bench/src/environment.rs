//! The finished build that is measured, as `cargo xtask` says it in variables. Must never look for one by itself.

use crate::failure::Failure;
use std::{
    env,
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Stdio},
};

/// See the file head.
#[derive(Debug)]
pub struct Environment {
    /// The folder of all programs.
    pub release: PathBuf,
    pub mpiexec: PathBuf,
    pub mpi_version: String,
}

impl Environment {
    /// Reads the variables.
    pub fn read() -> Result<Self, Failure> {
        let value = |variable| env::var_os(variable).ok_or(Failure::NotSet { variable });
        Ok(Self {
            release: value("PCM_BIN_DIR")?.into(),
            mpiexec: value("PCM_MPIEXEC")?.into(),
            mpi_version: value("PCM_MPI_VERSION")?.to_string_lossy().into_owned(),
        })
    }

    /// A program that `cargo xtask build` left.
    pub fn program(&self, name: &str) -> PathBuf {
        self.release.join(name)
    }

    /// `mpiexec -n RANKS`, with the network that `pcmctl run` chooses.
    pub fn hydra(&self, ranks: &str) -> Command {
        let mut command = self.command(&self.mpiexec);
        command.args(["-n", ranks]);
        command.envs([("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")]);
        command
    }

    /// A command that reads nothing from the terminal.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        command
    }
}
