//! `cargo xtask fuzz`: builds the fuzz targets with the compiler of the checkout and runs each for a while. What they
//! have learnt and found lies in the target folder. Must never write into the checkout, but for the lock file of the
//! targets.

use crate::{
    environment::{describe, must},
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{
    env, fs,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// Makes code count where it has been, for libFuzzer; debug assertions make more of what is wrong stop it.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions --cfg=fuzzing";

/// libFuzzer's line with the number of inputs it has tried.
const TRIED: &str = "stat::number_of_executed_units:";

/// Each computes on one CPU.
const SIDE_BY_SIDE: usize = 2;

/// Runs the target called `name`, or all of them, for `seconds` each.
pub(crate) fn run(repository: &Repository, name: Option<&str>, seconds: u32) -> Result<(), Failure> {
    let known = targets(repository)?;
    let chosen: Vec<String> = known
        .iter()
        .filter(|known| name.is_none_or(|name| name == *known))
        .cloned()
        .collect();
    if chosen.is_empty() {
        return Err(Failure::Missing {
            what: format!("a fuzz target '{}'", name.unwrap_or_default()),
            advice: format!("there are {}", known.join(", ")),
        });
    }
    let folder = repository.target.join("fuzz");
    let machine = machine()?;
    build(repository, &folder, &machine, name)?;
    let one = |target: &String| {
        let program = folder.join(&machine).join("release").join(target);
        let tried = explore(&program, &folder, target, seconds)?;
        println!("fuzz {target}: {tried} inputs in {seconds} s, nothing found");
        Ok(())
    };
    for side_by_side in chosen.chunks(SIDE_BY_SIDE) {
        thread::scope(|scope| {
            let running: Vec<_> = side_by_side.iter().map(|target| scope.spawn(|| one(target))).collect();
            let mut running = running.into_iter();
            running.try_for_each(|target| target.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })?;
    }
    Ok(())
}

/// One file is one target.
fn targets(repository: &Repository) -> Result<Vec<String>, Failure> {
    let folder = repository.root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).on("read", &folder)?;
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| stem(entry.path())).collect();
    names.sort();
    Ok(names)
}

/// The name of this machine as the compiler says it. With a target named, what runs during the build is not
/// instrumented.
pub(crate) fn machine() -> Result<String, Failure> {
    let output = Command::new("rustc").args(["--print", "host-tuple"]).output();
    let output = output.map_err(Failure::start("rustc"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn build(repository: &Repository, folder: &Path, machine: &str, name: Option<&str>) -> Result<(), Failure> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository.root.join("fuzz")).stdin(Stdio::null());
    cargo.args(["build", "--quiet", "--release", "--target", machine]);
    cargo.args(name.iter().flat_map(|name| ["--bin", *name]));
    cargo.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", FLAGS);
    must(cargo, "see what it says above; libFuzzer needs a C++ compiler")
}

/// How many inputs were tried, when none of them was one too many.
fn explore(program: &Path, folder: &Path, target: &str, seconds: u32) -> Result<u64, Failure> {
    let (corpus, findings) = (folder.join("corpus").join(target), folder.join("findings").join(target));
    for made in [&corpus, &findings] {
        fs::create_dir_all(made).on("make", made)?;
    }
    let mut fuzzer = Command::new(program);
    fuzzer.arg(&corpus).stdin(Stdio::null());
    fuzzer.arg(format!("-artifact_prefix={}/", findings.display()));
    fuzzer.args([
        format!("-max_total_time={seconds}"),
        "-timeout=10".into(),
        "-rss_limit_mb=2048".into(),
    ]);
    fuzzer.args(["-print_final_stats=1", "-verbosity=0"]);
    let output = fuzzer.output().map_err(Failure::start(describe(&fuzzer)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprint!("{said}");
        return Err(Failure::Ended {
            program: format!("fuzz {target}"),
            status: output.status,
            advice: format!(
                "the input lies in {}; make a test of it beside the code that it found wanting",
                findings.display()
            ),
        });
    }
    let tried = said
        .lines()
        .find_map(|line| line.strip_prefix(TRIED)?.trim().parse().ok());
    tried.ok_or_else(|| Failure::Answer {
        program: format!("fuzz {target}"),
        problem: format!("it does not say how many inputs it tried\n{said}"),
    })
}
