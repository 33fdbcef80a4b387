//! How a verb of `cargo xtask` can fail. Every text says what happened, to what, and what to do next.

use std::{fmt, io, path::PathBuf, process::ExitStatus};

/// Why a verb stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A file or folder could not be used.
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A program could not be started.
    Start { program: String, source: io::Error },
    /// A program that had to succeed did not.
    Ended {
        program: String,
        status: ExitStatus,
        advice: String,
    },
    /// The MPI named by PCM_MPI cannot be used.
    ChosenMpi { prefix: PathBuf, reason: String },
    /// The MPI in use cannot build and link a program.
    BrokenMpi { mpicc: PathBuf, output: String },
    /// Something must be installed by someone with more rights.
    Missing { what: String, advice: String },
    /// A program answered something unexpected.
    Answer { program: String, problem: String },
    /// Tests failed; their names and counts are on the screen.
    Tests { failed: usize },
    /// Places that break a rule of style; they are on the screen.
    Style { count: usize },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { action, path, source } => write!(f, "cannot {action} {}: {source}", path.display()),
            Self::Start { program, source } => {
                write!(f, "cannot start {program}: {source}; install it or put it in PATH")
            }
            Self::Ended {
                program,
                status,
                advice,
            } => write!(f, "{program} failed ({status}); {advice}"),
            Self::ChosenMpi { prefix, reason } => write!(
                f,
                "PCM_MPI={} cannot be used: {reason}; name another prefix, or unset PCM_MPI to have one installed",
                prefix.display()
            ),
            Self::BrokenMpi { mpicc, output } => write!(
                f,
                "{} does not compile and link an empty MPI program; check the C compiler, or remove .mpi and run setup \
                 again\n{output}",
                mpicc.display()
            ),
            Self::Missing { what, advice } => write!(f, "{what} is missing; {advice}"),
            Self::Answer { program, problem } => write!(f, "unexpected answer of {program}: {problem}"),
            Self::Tests { failed } => write!(f, "{failed} failed; their names are above"),
            Self::Style { count } => write!(f, "{count} places break the style; mend what is named above"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } | Self::Start { source, .. } => Some(source),
            _ => None,
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
