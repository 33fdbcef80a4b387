//! `cargo xtask test`: chooses test targets, streams what their runners say and sums the counts. Must never judge a
//! test by anything but its runner.

use crate::{
    browser, compile,
    environment::Environment,
    failure::{Failure, OnPath},
    repository::Repository,
    softroce, tools, wheel,
};
use clap::ValueEnum;
use std::{
    env, fmt, fs,
    io::{BufRead, BufReader, Write, stdout},
    path::Path,
    process::{self, Command, Stdio},
};

/// What can be tested apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Tests beside the code of every crate.
    Unit,
    /// Seeded simulation.
    Sim,
    /// Real daemons, real MPI, real processes.
    System,
    /// Real processes killed at named phases.
    Fault,
    /// Verbs on soft-RoCE, in emulated guests; brings qemu and a kernel.
    Rdma,
    /// All of them but rdma.
    All,
}

/// The suites that are targets `NAME_*` of the package `tests`.
const OF_TARGETS: [(Suite, &str); 4] = [
    (Suite::Sim, "sim_"),
    (Suite::System, "system_"),
    (Suite::Fault, "fault_"),
    (Suite::Rdma, "rdma_"),
];

/// Targets with tests that drive a browser begin so.
const NEEDS_BROWSER: &str = "system_dashboard";

/// Targets with tests that filter packets begin so.
const NEEDS_FILTER: &str = "fault_fabric";

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) suite: Suite,
    /// Only tests whose name contains this.
    pub(crate) filter: Option<&'a str>,
    /// Rounds of the tests that strike at random.
    pub(crate) rounds: Option<u64>,
}

/// Names the rounds of the tests that strike at random.
const ROUNDS_VARIABLE: &str = "PCM_CHAOS_ROUNDS";

fn has_nft() -> bool {
    let version = Command::new("nft").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs a suite and closes with the counts over all runners.
pub(crate) fn run(repository: &Repository, environment: &Environment, chosen: Chosen<'_>) -> Result<(), Failure> {
    let Chosen { suite, filter, rounds } = chosen;
    compile::forget_other_mpi(repository, environment)?;
    let skipped_log = repository.target.join(format!(".skipped-{}", process::id()));
    fs::write(&skipped_log, "").on("write", &skipped_log)?;
    let cargo = |arguments: &[String]| {
        let mut cargo = environment.cargo();
        cargo.current_dir(&repository.root).env("PCM_SKIPPED_LOG", &skipped_log);
        cargo.args(["test", "--no-fail-fast"]).args(arguments).args(filter);
        cargo.envs(rounds.map(|rounds| (ROUNDS_VARIABLE, rounds.to_string())));
        if let Ok(own) = env::current_exe() {
            cargo.env("PCM_XTASK", own);
        }
        cargo
    };
    let mut counts = Counts::default();
    if matches!(suite, Suite::Unit | Suite::All) {
        count(
            cargo(&["--workspace", "--exclude", "tests"].map(str::to_owned)),
            &mut counts,
        )?;
    }
    let targets = chosen_targets(&target_names(repository, environment)?, suite);
    if targets.iter().any(|name| name.starts_with("system_"))
        && let Err(failure) = tools::bring(repository)
    {
        println!("programs from PyPI are missing, so their tests cannot run: {failure}");
    }
    if targets.iter().any(|name| name.starts_with(NEEDS_BROWSER))
        && let Err(failure) = browser::bring()
    {
        println!("the dashboard's tests in a browser cannot run: {failure}");
    }
    if targets.iter().any(|name| name.starts_with(NEEDS_FILTER)) && !has_nft() {
        // Its tests say themselves that they cannot run without.
        wheel::install_system_package("nftables");
    }
    if targets.iter().any(|name| name.starts_with("rdma_"))
        && let Err(failure) = softroce::bring(repository, environment)
    {
        println!("what the verbs tests need is missing, so they cannot run: {failure}");
    }
    if !targets.is_empty() {
        if let Err(failure) = compile::release(repository, environment) {
            println!("{failure}");
            counts.failed += 1;
        }
        let arguments = ["--package".into(), "tests".into()]
            .into_iter()
            .chain(targets.into_iter().flat_map(|name| ["--test".into(), name]));
        count(cargo(&arguments.collect::<Vec<String>>()), &mut counts)?;
    } else if !matches!(suite, Suite::Unit | Suite::All) {
        return Err(Failure::Missing {
            what: format!("any {suite:?} test"),
            advice: "the package `tests` has none yet".into(),
        });
    }
    let reasons = fs::read_to_string(&skipped_log).on("read", &skipped_log)?;
    fs::remove_file(&skipped_log).on("remove", &skipped_log)?;
    for reason in reasons.lines() {
        println!("skipped: {reason}");
    }
    counts.move_to_skipped(reasons.lines().count());
    println!("{counts}");
    if counts.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Tests { failed: counts.failed })
    }
}

fn chosen_targets(names: &[String], suite: Suite) -> Vec<String> {
    let wanted = |name: &String| {
        OF_TARGETS.iter().any(|(of, prefix)| {
            (suite == *of || (suite == Suite::All && *of != Suite::Rdma)) && name.starts_with(prefix)
        })
    };
    names.iter().filter(|name| wanted(name)).cloned().collect()
}

/// The test targets of the package `tests`, by cargo's own account.
fn target_names(repository: &Repository, environment: &Environment) -> Result<Vec<String>, Failure> {
    if !Path::new(&repository.root.join("tests/Cargo.toml")).is_file() {
        return Ok(Vec::new());
    }
    let mut cargo = environment.cargo();
    cargo
        .current_dir(&repository.root)
        .args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = cargo.output().map_err(|source| Failure::Start {
        program: "cargo".into(),
        source,
    })?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| Failure::Answer {
        program: "cargo metadata".into(),
        problem: format!("{error}; {}", String::from_utf8_lossy(&output.stderr)),
    })?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    Ok(list(&document["packages"])
        .iter()
        .filter(|package| package["name"] == "tests")
        .flat_map(|package| list(&package["targets"]))
        .filter(|target| list(&target["kind"]).iter().any(|kind| kind == "test"))
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect())
}

/// Runs one cargo, passing on every line, and adds what its runners counted.
fn count(mut cargo: Command, counts: &mut Counts) -> Result<(), Failure> {
    let failed_before = counts.failed;
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(|source| Failure::Start {
        program: "cargo".into(),
        source,
    })?;
    let mut reader = Reader::default();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).split(b'\n'))
    {
        let line = line.on("read the output of", "cargo test")?;
        let mut out = stdout().lock();
        out.write_all(&line)
            .and_then(|()| out.write_all(b"\n"))
            .on("write to", "the terminal")?;
        reader.take(&String::from_utf8_lossy(&line), counts);
    }
    reader.end(counts);
    let status = child.wait().map_err(|source| Failure::Start {
        program: "cargo".into(),
        source,
    })?;
    if !status.success() && counts.failed == failed_before {
        println!("cargo test failed ({status}) before or beside the tests");
        counts.failed += 1;
    }
    Ok(())
}

#[derive(Default, Debug, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    /// A test that says it could not run ends as passed in its runner's count.
    fn move_to_skipped(&mut self, tests: usize) {
        self.passed = self.passed.saturating_sub(tests);
        self.skipped += tests;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)
        } else {
            Ok(())
        }
    }
}

/// Follows the lines of Rust's test runners. A runner that starts and gives no result died.
#[derive(Default)]
struct Reader {
    is_running: bool,
}

impl Reader {
    fn take(&mut self, line: &str, counts: &mut Counts) {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.end(counts);
            self.is_running = true;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.is_running = false;
            let number = |what: &str| {
                let part = result.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse::<usize>().ok()).unwrap_or(0)
            };
            counts.passed += number("passed");
            counts.failed += number("failed");
            counts.skipped += number("ignored");
        }
    }

    fn end(&mut self, counts: &mut Counts) {
        counts.failed += usize::from(self.is_running);
        self.is_running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Counts {
        let (mut reader, mut counts) = (Reader::default(), Counts::default());
        for line in lines {
            reader.take(line, &mut counts);
        }
        reader.end(&mut counts);
        counts
    }

    #[test]
    fn counts_are_summed_over_runners() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let bad = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        let counts = read(&["running 13 tests", ok, "", "running 3 tests", bad]);
        assert_eq!(
            counts,
            Counts {
                passed: 13,
                failed: 2,
                skipped: 1
            }
        );
        assert_eq!(counts.to_string(), "13 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_runner_that_dies_counts_as_failed() {
        let ok = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(read(&["running 2 tests", "running 1 test", ok]).failed, 1);
        assert_eq!(read(&["running 2 tests"]).failed, 1);
    }

    #[test]
    fn a_test_that_could_not_run_is_not_counted_as_passed() {
        let mut counts = Counts {
            passed: 3,
            failed: 0,
            skipped: 0,
        };
        counts.move_to_skipped(1);
        assert_eq!(counts.to_string(), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_suite_takes_only_the_targets_of_its_name() {
        let names = ["system_heat2d", "fault_kill", "sim_agents", "helper"].map(str::to_owned);
        assert_eq!(chosen_targets(&names, Suite::System), ["system_heat2d"]);
        assert_eq!(chosen_targets(&names, Suite::All).len(), 3);
        assert!(chosen_targets(&names, Suite::Rdma).is_empty());
    }
}
