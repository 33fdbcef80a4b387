//! How a verb of `cargo xtask` can fail. Every text says what happened, to what, and what to do next.

use std::{io, path::PathBuf, process::ExitStatus};

/// Why a verb stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot start {program}: {source}; install it or put it in PATH")]
    Start { program: String, source: io::Error },
    #[error("{program} failed ({status}); {advice}")]
    Ended {
        program: String,
        status: ExitStatus,
        advice: String,
    },
    #[error(
        "PCM_MPI={} cannot be used: {reason}; name another prefix, or unset PCM_MPI to have one installed",
        prefix.display()
    )]
    ChosenMpi { prefix: PathBuf, reason: String },
    #[error(
        "{} does not compile and link an empty MPI program; check the C compiler, or remove .mpi and run setup \
         again\n{output}",
        mpicc.display()
    )]
    BrokenMpi { mpicc: PathBuf, output: String },
    /// Something must be installed by someone with more rights.
    #[error("{what} is missing; {advice}")]
    Missing { what: String, advice: String },
    #[error("unexpected answer of {program}: {problem}")]
    Answer { program: String, problem: String },
    /// Their names and counts are on the screen.
    #[error("{failed} failed; their names are above")]
    Tests { failed: usize },
    #[error("these links of the docs lead nowhere; mend them:\n{}", broken.join("\n"))]
    Links { broken: Vec<String> },
    #[error("{count} places break the style; mend what is named above")]
    Style { count: usize },
}

impl Failure {
    /// A program that could not be started.
    pub(crate) fn start(program: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Start {
            program: program.into(),
            source,
        }
    }
}

/// Adds what was attempted, and on which path, to an I/O error.
pub(crate) trait OnPath<T> {
    /// Names the action as an infinitive: "read", "create".
    fn on(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Failure>;
}

impl<T> OnPath<T> for io::Result<T> {
    fn on(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Failure> {
        self.map_err(|source| Failure::File {
            action,
            path: path.into(),
            source,
        })
    }
}
