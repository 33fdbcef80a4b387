//! Programs of Open MPI with libpcm in front of MPI, under its own launcher and under daemons: they do what they do
//! without it.

use rustix::process::Signal;
use serde_json::Value;
use std::{fs, process::Command, time::Duration};
use tests::{
    background::Background,
    binaries::{built, mpiexec},
    cluster::{Cluster, LIMIT},
    conformance::read,
    conformance_runs::{CHANGES, CHECKS_MIN, RANKS, ROUND_MAX, differences, differences_around, round},
    example::{for_python, source},
    heat2d::{Closing, Plate},
    limited,
    open_mpi::{With, compiled, launcher, linked, prefix},
    wait,
};

/// Chapters of the conformance program whose checks pass after changes. Of requests, partitioned communication ends a
/// program whose ranks are of several worlds.
const CHAPTERS: [&str; 15] = [
    "point_to_point",
    "collectives",
    "begun_collectives",
    "communicators",
    "datatypes",
    "groups",
    "topologies",
    "windows",
    "files",
    "sessions",
    "errors",
    "caching",
    "operations",
    "environment",
    "dynamic",
];

const PLATE: Plate = Plate {
    rows: 61,
    cols: 83,
    iterations: 200,
    sleep_us: 0,
};

fn assert_right(command: &mut Command, ranks: u32) {
    let outcome = limited::run(command.args(PLATE.arguments()), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let closing = Closing::read(&outcome.stdout);
    assert_eq!((closing.ranks, closing.checksum), (ranks, PLATE.checksum()));
    assert!(!outcome.stderr.contains("pcm"), "{outcome:?}");
}

#[test]
fn a_malleable_program_and_a_plain_one_compute_what_they_should_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let malleable = compiled("examples/heat2d/heat2d.c", folder.path(), true);
    let plain = compiled("examples/heat2d/heat2d-plain.c", folder.path(), false);
    for ranks in 1..=4 {
        for program in [&malleable, &plain] {
            assert_right(launcher(&ranks.to_string(), With::Preload).arg(program), ranks);
        }
    }
}

/// It is loaded when Python imports mpi4py, and mpi4py asks which functions there are: those that Open MPI lacks are
/// not libpcm's either.
#[test]
fn a_program_in_python_finds_the_mpi_that_mpi4py_loads() {
    for program in ["heat2d/heat2d_plain.py", "heat2d/heat2d.py"] {
        let Some(mut python) = python() else { return };
        assert_right(python.arg(source(program)), 2);
    }
}

/// Python on two ranks, with libpcm in front of it.
fn python() -> Option<Command> {
    let variables = for_python()?;
    let mut run = launcher("2", With::Preload);
    run.args(["-x", "MPI4PY_MPIABI=openmpi"]);
    for (name, value) in variables.iter().filter(|(name, _)| name.starts_with("PYTHON")) {
        run.arg("-x").arg(format!("{name}={}", value.display()));
    }
    run.arg("python3");
    Some(run)
}

/// Without mpi4py: the package calls MPI itself.
#[test]
fn the_package_for_python_knows_rank_and_size() {
    let Some(mut python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("ranks.py");
    fs::write(&script, "import pcm\nprint(f'{pcm.rank()} of {pcm.size()}')\n").expect("a script");
    let outcome = limited::run(python.arg(script), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 2", "1 of 2"]);
}

#[test]
fn pcmcc_links_the_libpcm_for_the_mpi_of_its_compiler() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("heat2d");
    let mut compile = Command::new(built("pcmcc"));
    compile.env("MPICC", prefix().join("bin/mpicc"));
    compile
        .args(["-std=gnu11", "-O2", "-ffp-contract=off", "-o"])
        .arg(&program);
    let outcome = limited::run(compile.arg(source("heat2d/heat2d.c")).arg("-lm"), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_right(launcher("2", With::Nothing).arg(program), 2);
}

/// `pcmctl run` with two ranks that find Open MPI where the user says.
fn under_daemons(cluster: &Cluster, words: &[&str]) -> Command {
    let mut run = cluster.pcmctl(&["run", "-n", "2", "--"]);
    run.args(words).env_remove("PCM_MPI");
    run.env("LD_LIBRARY_PATH", prefix().join("lib"));
    run
}

#[test]
fn daemons_start_programs_that_compute_what_they_should() {
    let cluster = Cluster::up(1);
    let malleable = compiled("examples/heat2d/heat2d.c", cluster.files(), true);
    let plain = compiled("examples/heat2d/heat2d-plain.c", cluster.files(), false);
    for program in [&malleable, &plain] {
        let program = program.to_str().expect("a path");
        assert_right(&mut under_daemons(&cluster, &[program]), 2);
        let shell = ["sh", "-c", "exec \"$0\" \"$@\"", program];
        assert_right(under_daemons(&cluster, &shell).env("PCM_MPI_ABI", "openmpi"), 2);
    }
    // Its file does not say so: libpcm does, in MPI_Init.
    let shell = [
        "sh",
        "-c",
        "exec \"$0\" --iterations 3",
        plain.to_str().expect("a path"),
    ];
    let late = limited::run(&mut under_daemons(&cluster, &shell), LIMIT);
    assert!(!late.status.success(), "{late:?}");
    assert!(
        late.stderr.contains("was compiled for Open MPI") && late.stderr.contains("PCM_MPI_ABI=openmpi"),
        "{late:?}"
    );
    cluster.down();
}

#[test]
fn ps_counts_iterations_and_calls_of_a_job_under_daemons() {
    let cluster = Cluster::up(1);
    let program = compiled("examples/heat2d/heat2d.c", cluster.files(), true);
    let plate = Plate {
        iterations: 100_000,
        sleep_us: 2_000,
        ..PLATE
    };
    let mut run = under_daemons(&cluster, &[program.to_str().expect("a path")]);
    let run = Background::start(run.args(plate.arguments()));
    cluster.wait_until_ranks_iterate();
    let ranks = || cluster.json(&["ps", "1"])["ranks"].as_array().cloned().expect("ranks");
    let counted = wait::within(LIMIT, || {
        let counts = |row: &Value| ["iteration", "sent", "received"].map(|what| row[what].as_u64() > Some(10));
        let ranks = ranks();
        (ranks.len() == 2 && ranks.iter().all(|row| counts(row) == [true; 3])).then_some(())
    });
    assert!(counted.is_some(), "{:?}", ranks());
    let in_call = wait::within(LIMIT, || {
        let is_inside = |row: &Value| row["call"].as_str().is_some_and(|call| call != "-");
        ranks().iter().any(is_inside).then_some(())
    });
    assert!(in_call.is_some(), "{:?}", ranks());
    run.signal(Signal::INT);
    assert!(!run.end(LIMIT).status.success());
    cluster.down();
}

#[test]
fn calls_of_mpi_do_what_they_do_without_libpcm() {
    let cluster = Cluster::up(2);
    let folder = |name: &str| {
        let folder = cluster.files().join(name);
        fs::create_dir(&folder).expect("a folder of the test");
        folder
    };
    let plain = compiled("tests/programs/conformance", &folder("plain"), false);
    let calling = compiled("tests/programs/conformance", &folder("calling"), true);
    let [expected, preloaded] = [With::Nothing, With::Preload].map(|with| {
        // The launcher's own status says that a spawn of a program that is not there has failed, which is one check.
        let outcome = limited::run(launcher(RANKS, with).arg(&plain), ROUND_MAX);
        let mut rounds = read(&outcome.stdout);
        assert_eq!(rounds.len(), 1, "{outcome:?}");
        rounds.remove(0)
    });
    let right = expected.values().filter(|outcome| outcome.word == "ok");
    assert!(right.count() >= CHECKS_MIN, "{expected:?}");
    let mut found = differences("mpirun with libpcm", &expected, &preloaded);
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--"]);
    found.extend(differences("pcmctl run", &expected, &round(command.arg(&plain))));
    found.extend(differences_around(
        &cluster,
        &calling,
        &CHANGES[..3],
        &CHAPTERS,
        &expected,
    ));
    cluster.down();
    // The daemons say how large the universe is, and start a child in the folder that it asks for.
    found.retain(|difference| !difference.trim_end().ends_with(" became ok"));
    // For Open MPI two nodes share no memory.
    found.retain(|difference| !difference.contains("communicators.split_by_shared_memory"));
    println!("{} checks, {} differ", expected.len(), found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_program_linked_with_another_libpcm_runs_under_mpirun_with_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = linked("tests/programs/linked_otherwise.c", folder.path(), Some("-lpcm"));
    let run = limited::run(launcher("2", With::Nothing).arg(program), Duration::from_secs(60));
    assert!(run.status.success(), "{run:?}");
    for rank in 0..2 {
        let line = format!("rank {rank} of 2, sum 1, word \"\", preload unset, before unset, libpcm called");
        assert_eq!(run.stdout.lines().filter(|found| *found == line).count(), 1, "{run:?}");
    }
}

#[test]
fn a_libpcm_of_another_abi_is_refused_with_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("examples/heat2d/heat2d-plain.c", folder.path(), false);
    let mut of_open_mpi = launcher("1", With::TheOther);
    let mut of_mpich = Command::new(mpiexec());
    of_mpich
        .args(["-n", "1", "-env", "LD_PRELOAD"])
        .arg(built("libpcm_openmpi.so"));
    for (command, program, words) in [
        (&mut of_open_mpi, program, "was compiled for Open MPI"),
        (
            &mut of_mpich,
            built("heat2d-c-plain"),
            "and this libpcm for Open MPI: link the program with libpcm.so in place of libpcm_openmpi.so",
        ),
    ] {
        let command = command.arg(program).args(PLATE.arguments());
        let outcome = limited::run(command, Duration::from_secs(20));
        assert!(outcome.status.code() == Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(words), "{outcome:?}");
        assert_eq!(outcome.stderr.matches("pcm: ").count(), 1, "{outcome:?}");
    }
}
