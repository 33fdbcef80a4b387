//! `cargo xtask build`: the release build of the workspace and the C parts, or of what the demo runs. Must never run
//! what it built.

use crate::{
    c_parts,
    environment::{Environment, must},
    failure::Failure,
    repository::Repository,
};

const PACKAGES: [&str; 3] = ["--workspace", "--exclude", "xtask"];

/// What the demo leaves out of them.
const NOT_OF_DEMO: [&str; 12] = [
    "--exclude",
    "tests",
    "--exclude",
    "plate",
    "--exclude",
    "wire-samples",
    "--exclude",
    "pcm-lib-standard",
    "--exclude",
    "pcm-lib-openmpi",
    "--exclude",
    "pcm-pmix",
];

const RUN_BY_DEMO: [&str; 4] = ["pcm-demo", "pcmctl", "pcm-daemon", "ios-agent"];

/// Leaves every program in target/release.
pub(crate) fn release(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    build(repository, environment, &[])?;
    c_parts::build(repository, environment, |_| true)
}

/// Leaves there what the demo runs.
pub(crate) fn demo(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    let programs = RUN_BY_DEMO.iter().flat_map(|name| ["--bin", name]);
    // libpcm.so is one of the libraries, which cargo chooses all together.
    let chosen: Vec<&str> = NOT_OF_DEMO.into_iter().chain(["--lib"]).chain(programs).collect();
    build(repository, environment, &chosen)?;
    c_parts::build(repository, environment, |name| name.starts_with("heat2d-"))
}

/// Names targets and leaves out only packages that ask for no feature of their own: so all dependencies have the same
/// features, and a demo compiles nothing a second time that `release` has compiled, or the other way round.
fn build(repository: &Repository, environment: &Environment, chosen: &[&str]) -> Result<(), Failure> {
    let mut cargo = environment.cargo();
    cargo
        .current_dir(&repository.root)
        .args(["build", "--release"])
        .args(PACKAGES)
        .args(chosen);
    must(cargo, "the compiler's messages are above")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, process::Command};

    #[test]
    fn a_demo_has_the_features_of_a_whole_build() {
        let features = |left_out: &[&str]| -> BTreeSet<String> {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"]);
            let output = cargo
                .args(["--format", "{p} {f}"])
                .args(PACKAGES)
                .args(left_out)
                .output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        let (whole, demo) = (features(&[]), features(&NOT_OF_DEMO));
        assert!(demo.len() > 100, "{demo:?}");
        let compiled_twice: Vec<_> = demo.difference(&whole).collect();
        assert!(compiled_twice.is_empty(), "{compiled_twice:?}");
    }
}
