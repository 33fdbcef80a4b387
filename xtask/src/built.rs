//! `cargo xtask bench` and `cargo xtask demo`: builds what they run, then becomes the program that does the work, so
//! that ctrl-C and the exit code are that program's own.

use crate::{
    compile,
    environment::{Environment, must},
    failure::Failure,
    repository::Repository,
    setup, softroce,
};
use std::{ffi::OsString, os::unix::process::CommandExt as _, process::Command};

/// The case that needs emulated guests.
const NEEDS_GUESTS: &str = "fabric-rdma";

/// Names, and a page of results that are there, need no finished build of everything.
const NEEDS_NO_BUILD: [&str; 2] = ["list", "redistribute-page"];

/// Becomes `pcm-bench` with these arguments, of which the first is the case.
pub(crate) fn bench(repository: &Repository, name: &str, options: &[OsString]) -> Result<(), Failure> {
    let environment = setup::run(repository)?;
    if NEEDS_NO_BUILD.contains(&name) {
        let mut cargo = environment.cargo();
        cargo
            .current_dir(&repository.root)
            .args(["build", "--quiet", "--release", "--package", "pcm-bench"]);
        must(cargo, "the compiler's messages are above")?;
    } else {
        compile::release(repository, &environment)?;
    }
    let mut command = program(&environment, "pcm-bench");
    command.arg(name).args(options);
    if NEEDS_NO_BUILD.contains(&name) {
        command.current_dir(&repository.root);
    }
    if name == NEEDS_GUESTS {
        command.env("PCM_SOFTROCE_GUESTS", softroce::bring_guests(repository)?);
        let trial = softroce::build_trial(repository, &environment, &["--release"])?;
        command.env("PCM_SOFTROCE_TRIAL", trial);
    }
    become_program(command)
}

/// Becomes `pcm-demo` with these arguments.
pub(crate) fn demo(repository: &Repository, options: &[OsString]) -> Result<(), Failure> {
    let environment = setup::run(repository)?;
    compile::demo(repository, &environment)?;
    let mut command = program(&environment, "pcm-demo");
    command.args(options);
    become_program(command)
}

fn program(environment: &Environment, name: &str) -> Command {
    let mut command = environment.command(environment.release.join(name));
    command.env("PCM_MPI_VERSION", &environment.mpi.version);
    command
}

/// Comes back only where there is no such program.
fn become_program(mut command: Command) -> Result<(), Failure> {
    let source = command.exec();
    Err(Failure::start(command.get_program().to_string_lossy())(source))
}
