//! `cargo xtask miri`: runs the unit tests of unsafe code that Miri can run. It cannot where that code maps files,
//! reserves addresses, makes system calls of its own, or calls MPI.

use crate::{
    environment::{Environment, must},
    failure::Failure,
    repository::Repository,
};

/// Packages, and which of their tests.
const RUN: [(&str, &str); 8] = [
    ("pcm-proto", "page::"),
    ("pcm-fabric", "bulk::mapped::"),
    ("pcm-fabric", "bulk::regions::"),
    ("pcm-lib", "region::scalar::"),
    ("pcm-lib", "redistribute::local_copy::"),
    ("pcm-lib", "redistribute::statement::"),
    ("pcm-lib", "interpose::traits::"),
    ("pcm-lib", "mpi::all_to_all::"),
];

/// Tests look at the clock; values of a registry live as long as its program.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// Runs them with Miri of this toolchain.
pub(crate) fn run(repository: &Repository, environment: &Environment, toolchain: &str) -> Result<(), Failure> {
    for (package, tests) in RUN {
        let mut rustup = environment.command("rustup");
        rustup.current_dir(&repository.root);
        rustup
            .args(["run", toolchain, "cargo", "miri", "test"])
            .args(["-p", package, "--lib", tests]);
        rustup
            .env("CARGO_TARGET_DIR", repository.target.join("miri"))
            .env("MIRIFLAGS", FLAGS);
        must(
            rustup,
            &format!(
                "mend what Miri names above; without Miri: rustup toolchain install {toolchain} --component miri \
                 --component rust-src"
            ),
        )?;
    }
    println!("miri: {} groups of unit tests, nothing found", RUN.len());
    Ok(())
}
