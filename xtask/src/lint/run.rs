//! Runs the style test, then format, clippy and documentation, as continuous integration wants them.

use super::{licences, style};
use crate::{
    c_parts,
    environment::{Environment, must},
    failure::Failure,
    repository::Repository,
    setup,
};

/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The text of the files alone: no compiler, no MPI.
    Style,
    All,
}

/// Stops at the first check that fails.
pub(crate) fn run(repository: &Repository, extent: Extent) -> Result<(), Failure> {
    style::check(repository)?;
    if extent == Extent::All {
        compiled(repository, &setup::run(repository)?)?;
    }
    Ok(())
}

fn compiled(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    licences::check(repository, environment)?;
    let step = |arguments: &[&str], advice: &str| {
        let mut cargo = environment.cargo();
        cargo
            .current_dir(&repository.root)
            .args(arguments)
            .env("RUSTDOCFLAGS", "-Dwarnings");
        must(cargo, advice)
    };
    step(&["fmt", "--all", "--check"], "run `cargo fmt --all`")?;
    step(
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        "mend what clippy names above",
    )?;
    c_parts::lint(repository, environment)?;
    step(
        &["doc", "--quiet", "--workspace", "--no-deps"],
        "mend the documentation named above",
    )?;
    println!("style, format, clippy and documentation are clean");
    Ok(())
}
