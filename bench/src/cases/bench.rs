//! What a case is made of. Must never know which cases there are.

use pcm_bench::{Failure, Report, environment::Environment};
use std::path::PathBuf;

/// One thing that can be measured.
#[derive(Clone, Copy)]
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) run: fn(&Context) -> Result<Report, Failure>,
}

/// The parts of a bench one after the other, as one report.
pub(super) fn run_all(parts: &[Bench], context: &Context) -> Result<Report, Failure> {
    let mut all = Report::default();
    for part in parts {
        eprintln!("{}", part.name);
        all.extend((part.run)(context)?);
    }
    Ok(all)
}

/// What a bench gets: a finished release build and how much time to take.
pub(super) struct Context {
    pub(super) environment: Environment,
    pub(super) quick: bool,
}

impl Context {
    /// A program that `cargo xtask build` left.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.environment.program(name)
    }

    /// How often to repeat: at least nine times for a figure to quote.
    pub(super) fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }
}
