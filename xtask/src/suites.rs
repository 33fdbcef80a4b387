//! `cargo xtask test`: chooses test targets, streams what their runners say and sums the counts. Must never judge a
//! test by anything but its runner.

use crate::{
    browser, c_parts, compile, dist,
    environment::Environment,
    failure::{Failure, OnPath},
    fortran,
    repository::Repository,
    runners::{Counts, Reader},
    setup,
    side_by_side::{self, Program},
    softroce, tools, wheel,
};
use clap::ValueEnum;
use std::{
    env, fs,
    io::{BufRead, BufReader, Write, stdout},
    num::NonZero,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread,
};

/// What can be tested apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Tests beside the code of every crate.
    Unit,
    Sim,
    /// Real daemons, real MPI, real processes.
    System,
    /// Real processes killed at named phases.
    Fault,
    /// Verbs on soft-RoCE, in emulated guests; brings qemu and a kernel.
    Rdma,
    /// Jobs of a real Slurm of virtual nodes on this machine.
    Slurm,
    /// All of them but rdma and slurm.
    All,
}

/// Ten thousand histories run at the speed of optimised code, which the release build has compiled already.
const SIMULATED: &str = "sim_";
const OPTIMISED: [&str; 3] = ["--release", "--exclude", "xtask"];

/// The suites that are targets `NAME_*` of the package `tests`.
const OF_TARGETS: [(Suite, &str); 5] = [
    (Suite::Sim, SIMULATED),
    (Suite::System, "system_"),
    (Suite::Fault, "fault_"),
    (Suite::Rdma, "rdma_"),
    (Suite::Slurm, "slurm_"),
];

/// Suites that need more of a machine than the others.
const NEEDS_OTHERS: [Suite; 2] = [Suite::Rdma, Suite::Slurm];

/// What the suite slurm starts; its tests name them, too, where they are missing.
const SLURM_PACKAGES: &str = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins";

/// A target with tests of Intel MPI, one of each kind.
const NEEDS_INTEL: [&str; 3] = ["system_intel", "system_compiled_elsewhere", "fault_chaos"];

/// Targets with tests of Open MPI begin so.
const NEEDS_OPEN_MPI: [&str; 4] = ["system_openmpi", "system_pmix", "fault_chaos", "fault_reconfigure"];

/// Tests that need older releases of MPICH.
const NEEDS_OLDER: &str = "system_compiled_elsewhere";

/// Targets with tests that drive a browser begin so.
const NEEDS_BROWSER: &str = "system_dashboard";

/// Targets with tests that filter packets begin so.
const NEEDS_FILTER: &str = "fault_fabric";

/// Targets beside which nothing else runs: tests in them hold a limit of milliseconds, or wait until nodes are idle.
const NEED_QUIET: [&str; 4] = [NEEDS_BROWSER, "system_links", "system_render_idle", "system_topology"];

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) suite: Suite,
    /// Only tests whose name contains this.
    pub(crate) filter: Option<&'a str>,
    /// Rounds of the tests that strike at random.
    pub(crate) rounds: Option<u64>,
    /// With C programs that stop at what the compiler's checks find.
    pub(crate) is_checked: bool,
}

/// Names the rounds of the tests that strike at random.
const ROUNDS_VARIABLE: &str = "PCM_CHAOS_ROUNDS";

/// Targets with tests that compile Fortran.
const NEEDS_FORTRAN: [&str; 5] = [
    "system_languages",
    "system_guides",
    "system_gallery",
    "system_intel",
    NEEDS_BINDINGS,
];

/// The target with tests of an MPI that has Fortran.
const NEEDS_BINDINGS: &str = "system_fortran";

/// Targets with tests that render a film begin so.
const NEEDS_RENDERER: &str = "system_render";

/// What they render with.
const RENDERERS: [&str; 2] = ["povray", "ffmpeg"];

/// Targets with tests that install packages begin so.
const NEEDS_PACKAGES: &str = "system_packages";

/// What those tests use packages with.
const USERS_OF_PACKAGES: [(&str, &str); 4] = [
    ("cmake", "cmake"),
    ("lintian", "lintian"),
    ("pkg-config", "pkg-config"),
    ("tclsh", "tcl"),
];

fn has(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

fn has_slurm() -> bool {
    ["slurmctld", "slurmd", "sbatch", "munged"].into_iter().all(in_path)
}

/// Where Debian has it, for any machine.
fn has_pmix_header() -> bool {
    let of_machines = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut folders = of_machines.map(|entry| entry.path());
    env::var_os("PCM_PMIX_INCLUDE").is_some() || folders.any(|folder| folder.join("pmix2/include/pmix.h").is_file())
}

fn in_path(program: &str) -> bool {
    let folders = env::var("PATH").unwrap_or_default();
    let mut folders = folders.split(':').chain(["/usr/sbin"]);
    folders.any(|folder| Path::new(folder).join(program).is_file())
}

/// Memory that MPI itself does not give back, for the compiler's checks.
const LEAKS_OF_OTHERS: &str = "tests/leaks-of-others.txt";

/// The variables of all that a run starts.
struct Dress {
    skipped_log: PathBuf,
    rounds: Option<u64>,
    /// Where what the compiler checks is built.
    checked: Option<PathBuf>,
    leaks_of_others: PathBuf,
    own: Option<PathBuf>,
}

impl Dress {
    fn new(repository: &Repository, chosen: Chosen<'_>) -> Self {
        Self {
            skipped_log: repository.target.join(format!(".skipped-{}", process::id())),
            rounds: chosen.rounds,
            checked: chosen.is_checked.then(|| repository.target.join("checked")),
            leaks_of_others: repository.root.join(LEAKS_OF_OTHERS),
            // Asked for now: the unit tests' build may put another file in this one's place.
            own: env::current_exe().ok(),
        }
    }

    fn put_on(&self, mut command: Command) -> Command {
        command.env("PCM_SKIPPED_LOG", &self.skipped_log);
        command.envs(self.rounds.map(|rounds| (ROUNDS_VARIABLE, rounds.to_string())));
        command.envs(self.own.as_ref().map(|own| ("PCM_XTASK", own)));
        if let Some(folder) = &self.checked {
            command.env("PCM_BIN_DIR", folder);
            let leaks = format!("suppressions={}", self.leaks_of_others.display());
            command.env("LSAN_OPTIONS", leaks);
        }
        command
    }
}

/// Runs a suite and closes with the counts over all runners.
pub(crate) fn run(repository: &Repository, environment: &Environment, chosen: Chosen<'_>) -> Result<(), Failure> {
    let Chosen { suite, filter, .. } = chosen;
    let dress = Dress::new(repository, chosen);
    fs::write(&dress.skipped_log, "").on("write", &dress.skipped_log)?;
    let cargo = |arguments: &[String]| {
        let mut cargo = dress.put_on(environment.cargo());
        cargo.current_dir(&repository.root);
        cargo.args(["test", "--no-fail-fast"]).args(arguments).args(filter);
        cargo
    };
    let (mut counts, mut reader) = (Counts::default(), Reader::default());
    if matches!(suite, Suite::Unit | Suite::All) {
        if !has_pmix_header() {
            // Its test says itself that it cannot run without.
            wheel::install_system_package("libpmix-dev");
        }
        count(
            cargo(&["--workspace", "--exclude", "tests"].map(str::to_owned)),
            &mut reader,
            &mut counts,
        )?;
    }
    let targets = chosen_targets(&target_names(repository, environment)?, suite);
    bring_programs(repository, environment, &targets);
    if !targets.is_empty() {
        let is_of_packages = targets.iter().any(|name| name.starts_with(NEEDS_PACKAGES));
        let mut built = compile::release(repository, environment);
        if let Some(folder) = &dress.checked {
            built = built.and_then(|()| c_parts::build_checked(repository, environment, folder));
        }
        let packed = built.and_then(|()| {
            if is_of_packages {
                dist::pack(repository, environment)
            } else {
                Ok(())
            }
        });
        if let Err(failure) = packed {
            println!("{failure}");
            counts.failed += 1;
        }
        let (simulated, real) = targets.into_iter().partition(|name| name.starts_with(SIMULATED));
        if let Some(arguments) = of_targets(simulated, &OPTIMISED) {
            count(cargo(&arguments), &mut reader, &mut counts)?;
        }
        match of_targets(real, &[]) {
            Some(arguments) if NEEDS_OTHERS.contains(&suite) => count(cargo(&arguments), &mut reader, &mut counts)?,
            Some(arguments) => {
                let program = |program: &Program| {
                    let mut command = dress.put_on(environment.command(&program.file));
                    command.current_dir(&program.folder).args(filter);
                    command.env("RUST_TEST_THREADS", "1");
                    command
                };
                count_side_by_side(cargo(&arguments), program, &mut reader, &mut counts)?;
            }
            None => {}
        }
    } else if !matches!(suite, Suite::Unit | Suite::All) {
        return Err(Failure::Missing {
            what: format!("any {suite:?} test"),
            advice: "the package `tests` has none yet".into(),
        });
    }
    close(counts, &reader, &dress.skipped_log)
}

/// The last lines: what was skipped, what failed, and the counts.
fn close(mut counts: Counts, reader: &Reader, skipped_log: &Path) -> Result<(), Failure> {
    let reasons = fs::read_to_string(skipped_log).on("read", skipped_log)?;
    fs::remove_file(skipped_log).on("remove", skipped_log)?;
    for reason in reasons.lines() {
        println!("skipped: {reason}");
    }
    counts.move_to_skipped(reasons.lines().count());
    for failure in reader.failures() {
        println!("{failure}");
    }
    println!("{counts}");
    if counts.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Tests { failed: counts.failed })
    }
}

fn is_of_any(target: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| target.starts_with(start))
}

/// Programs that tests use and a machine may lack: without them the tests say that they cannot run.
fn bring_programs(repository: &Repository, environment: &Environment, targets: &[String]) {
    if targets.iter().any(|name| name.starts_with("system_"))
        && let Err(failure) = tools::bring(repository)
    {
        println!("programs from PyPI are missing, so their tests cannot run: {failure}");
    }
    if targets.iter().any(|name| NEEDS_INTEL.contains(&name.as_str()))
        && let Err(failure) = setup::intel(repository)
    {
        println!("Intel MPI is missing, so its tests cannot run: {failure}");
    }
    if targets.iter().any(|name| is_of_any(name, &NEEDS_OPEN_MPI))
        && let Err(failure) = setup::open_mpi(repository)
    {
        println!("Open MPI is missing, so its tests cannot run: {failure}");
    }
    if targets.iter().any(|name| name == NEEDS_OLDER)
        && let Err(failure) = setup::older(repository)
    {
        println!("older releases of MPICH are missing, so their tests cannot run: {failure}");
    }
    if targets.iter().any(|name| name.starts_with(NEEDS_BROWSER))
        && let Err(failure) = browser::bring()
    {
        println!("the dashboard's tests in a browser cannot run: {failure}");
    }
    if targets.iter().any(|name| NEEDS_FORTRAN.contains(&name.as_str())) && !has("gfortran") {
        // Its tests say themselves that they cannot run without.
        wheel::install_system_package("gfortran");
    }
    if targets.iter().any(|name| name == NEEDS_BINDINGS)
        && let Err(failure) = fortran::bring(repository)
    {
        println!("an MPI with Fortran is missing, so its tests cannot run: {failure}");
    }
    if targets.iter().any(|name| name.starts_with(NEEDS_FILTER)) && !has("nft") {
        // Its tests say themselves that they cannot run without.
        wheel::install_system_package("nftables");
    }
    if targets.iter().any(|name| name.starts_with(NEEDS_RENDERER)) {
        // Its tests say themselves that they cannot run without.
        for program in RENDERERS.into_iter().filter(|program| !in_path(program)) {
            wheel::install_system_package(program);
        }
    }
    if targets.iter().any(|name| name.starts_with(NEEDS_PACKAGES)) {
        // Its tests say themselves that they cannot run without.
        let missing = USERS_OF_PACKAGES.iter().filter(|(program, _)| !in_path(program));
        let mut missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
        let mut python = Command::new("/usr/bin/python3");
        if !python
            .args(["-c", "import ensurepip"])
            .status()
            .is_ok_and(|status| status.success())
        {
            missing.push("python3 python3-venv");
        }
        if !missing.is_empty() {
            wheel::install_system_package(&missing.join(" "));
        }
    }
    if targets.iter().any(|name| name.starts_with("slurm_")) && !has_slurm() {
        wheel::install_system_package(SLURM_PACKAGES);
    }
    if targets.iter().any(|name| name.starts_with("rdma_"))
        && let Err(failure) = softroce::bring(repository, environment)
    {
        println!("what the verbs tests need is missing, so they cannot run: {failure}");
    }
}

/// What cargo is asked for, of the whole workspace: of the package alone, packages would have fewer features, and all
/// be built a second time.
fn of_targets(names: Vec<String>, options: &[&str]) -> Option<Vec<String>> {
    let asked = ["--workspace"].iter().chain(options).map(|&word| word.to_owned());
    let targets = names.iter().flat_map(|name| ["--test".into(), name.clone()]);
    (!names.is_empty()).then(|| asked.chain(targets).collect())
}

fn chosen_targets(names: &[String], suite: Suite) -> Vec<String> {
    let wanted = |name: &String| {
        OF_TARGETS.iter().any(|(of, prefix)| {
            (suite == *of || (suite == Suite::All && !NEEDS_OTHERS.contains(of))) && name.starts_with(prefix)
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
    let output = cargo.output().map_err(Failure::start("cargo"))?;
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
fn count(mut cargo: Command, reader: &mut Reader, counts: &mut Counts) -> Result<(), Failure> {
    let failed_before = counts.failed;
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(Failure::start("cargo"))?;
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
    let status = child.wait().map_err(Failure::start("cargo"))?;
    if !status.success() && counts.failed == failed_before {
        println!("cargo test failed ({status}) before or beside the tests");
        counts.failed += 1;
    }
    Ok(())
}

/// The same with what this cargo would run: half as many programs again as there are CPUs, since tests wait a third of
/// their time.
fn count_side_by_side(
    cargo: Command,
    command: impl Fn(&Program) -> Command + Sync,
    reader: &mut Reader,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let (alone, together): (Vec<Program>, Vec<Program>) = side_by_side::built(cargo)?
        .into_iter()
        .partition(|program| NEED_QUIET.contains(&program.name.as_str()));
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    for (programs, at_a_time) in [(together, cpus + cpus.div_ceil(2)), (alone, 1)] {
        side_by_side::run(&programs, at_a_time, &command, |program, ended| {
            side_by_side::show(program, &ended)?;
            let failed_before = counts.failed;
            ended.lines.iter().for_each(|line| reader.take(line, counts));
            reader.end(counts);
            if !ended.status.success() && counts.failed == failed_before {
                println!("{} failed ({}) before or beside its tests", program.name, ended.status);
                counts.failed += 1;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_takes_only_the_targets_of_its_name() {
        let names = ["system_heat2d", "fault_kill", "sim_agents", "helper"].map(str::to_owned);
        assert_eq!(chosen_targets(&names, Suite::System), ["system_heat2d"]);
        assert_eq!(chosen_targets(&names, Suite::All).len(), 3);
        assert!(chosen_targets(&names, Suite::Rdma).is_empty());
    }
}
