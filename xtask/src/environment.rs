//! What the programs of a build are told: which MPI, where results lie. The only place that names these variables
//! for xtask.

use crate::{failure::Failure, mpi::Mpi};
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The environment setup computed.
pub(crate) struct Environment {
    pub(crate) mpi: Mpi,
    pub(crate) target: PathBuf,
    pub(crate) release: PathBuf,
}

impl Environment {
    /// Every variable a build or a test needs, in a stable order.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("PCM_MPI", self.mpi.prefix.clone().into_os_string()),
            ("PCM_MPI_LIB", self.mpi.library.clone().into_os_string()),
            ("PCM_MPIEXEC", self.mpi.mpiexec().into_os_string()),
            ("PCM_BIN_DIR", self.release.clone().into_os_string()),
            ("MPICC", self.mpi.mpicc().into_os_string()),
        ]
    }

    /// A command that runs in this environment, without the library path that `cargo run` added for xtask itself.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.variables()).stdin(Stdio::null());
        match self.library_path() {
            Some(path) => command.env("LD_LIBRARY_PATH", path),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
        command
    }

    /// The cargo that started xtask, in this environment.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = self.command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for name in [
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
            "CARGO_PKG_NAME",
            "CARGO_PKG_VERSION",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Lines that a POSIX shell can evaluate.
    pub(crate) fn shell_lines(&self) -> String {
        let mut lines: String = self
            .variables()
            .iter()
            .map(|(name, value)| format!("export {name}={}\n", quote(Path::new(value))))
            .collect();
        lines.push_str(&format!(
            "export PATH={}:\"$PATH\"\n",
            quote(&self.mpi.plain_prefix.join("bin"))
        ));
        lines
    }

    /// The caller's own entries only: cargo adds target/debug, where an older libpcm.so would be found first.
    fn library_path(&self) -> Option<OsString> {
        let path = env::var_os("LD_LIBRARY_PATH")?;
        let sysroot = env::var_os("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".rustup")));
        let own: Vec<PathBuf> = env::split_paths(&path)
            .filter(|entry| !entry.starts_with(&self.target))
            .filter(|entry| sysroot.as_ref().is_none_or(|sysroot| !entry.starts_with(sysroot)))
            .collect();
        if own.is_empty() {
            None
        } else {
            env::join_paths(own).ok()
        }
    }
}

/// Runs a command that must succeed; `advice` says what to do when it does not.
pub(crate) fn must(mut command: Command, advice: &str) -> Result<(), Failure> {
    let program = describe(&command);
    let status = command.status().map_err(Failure::start(program.as_str()))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Ended {
            program,
            status,
            advice: advice.into(),
        })
    }
}

/// A command as a person would type it, without folders.
pub(crate) fn describe(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    command
        .get_args()
        .fold(name, |text, argument| format!("{text} {}", argument.to_string_lossy()))
}

/// One word for a POSIX shell, and for bindgen, which splits its variable by the same rules.
pub(crate) fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_path_is_one_word_for_a_shell() {
        let odd = "/a b/it's $HOME";
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("printf %s {}", quote(Path::new(odd))))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), odd);
    }
}
