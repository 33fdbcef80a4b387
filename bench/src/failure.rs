//! What can go wrong while something is measured. Each message says what to do next; a failed run is no sample.

use std::{
    io,
    path::PathBuf,
    process::{Command, ExitStatus},
};

/// See the file head.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
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
        advice: &'static str,
    },
    #[error("unexpected answer of {program}: {problem}")]
    Answer { program: String, problem: String },
    #[error("{variable} is not set: start this by `cargo xtask bench` or `cargo xtask demo`, which set it")]
    NotSet { variable: &'static str },
    /// A signal asked for an end before it was done.
    #[error("interrupted; what was started is ended again")]
    Interrupted,
    #[error("there is no bench '{name}'; `cargo xtask bench list` names them")]
    UnknownBench { name: String },
    #[error("bench {name} could not measure: {problem}")]
    Bench { name: &'static str, problem: String },
}

impl Failure {
    pub fn bench(name: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::Bench { name, problem }
    }

    pub fn answer(program: &str, problem: impl Into<String>) -> Self {
        Self::Answer {
            program: program.to_owned(),
            problem: problem.into(),
        }
    }

    /// A program that could not be started.
    pub fn start(command: &Command) -> impl FnOnce(io::Error) -> Self + use<> {
        let program = crate::trial::describe(command);
        move |source| Self::Start { program, source }
    }
}

/// Adds what was attempted, and on which path, to an I/O error.
pub trait OnPath<T> {
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
