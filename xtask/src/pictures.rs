//! `cargo xtask pictures`: takes the pictures of the dashboard in docs again. Must never judge them.

use crate::{
    browser, compile,
    environment::{Environment, must},
    failure::Failure,
    repository::Repository,
};

/// The test that takes them; it drives the browser as the tests of the dashboard do.
const TAKEN_BY: [&str; 6] = [
    "test",
    "--workspace",
    "--test",
    "system_dashboard_pictures",
    "--",
    "--ignored",
];

/// Builds what is shown, and shows it to Chromium.
pub(crate) fn run(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    browser::bring()?;
    compile::release(repository, environment)?;
    let mut cargo = environment.cargo();
    cargo.current_dir(&repository.root).args(TAKEN_BY);
    must(cargo, "the failing step is above")
}
