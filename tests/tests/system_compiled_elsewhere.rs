//! Programs as they were compiled: with older releases of MPICH and with Intel MPI. On the MPI that they were compiled
//! with, and on another one of that ABI, they change live, let leavers go, and recover.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tests::{
    cell,
    cluster::{Cluster, LIMIT},
    crashing,
    example::{for_python, source},
    intel, limited,
    malleable::Malleable,
    older::{self, compiled_by},
    random_changes::{self, NODES},
};

const CHANGES: u32 = 50;

const REFUSED_WITHIN: Duration = Duration::from_secs(2);

/// The MPI of reference.
fn reference() -> PathBuf {
    let path = std::env::var_os("PCM_MPI").map(PathBuf::from);
    path.expect("PCM_MPI is not set: test through `cargo xtask test`, or `eval \"$(cargo xtask env)\"` first")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Random live changes with the bits of an undisturbed run, then a killed rank of another job.
fn changes_and_recovers(compiled_with: &Path, runs_on: &Path) {
    println!(
        "compiled with {}, runs on {}",
        compiled_with.display(),
        runs_on.display()
    );
    let cluster = Cluster::that_crashes(NODES);
    let program = compiled_by(compiled_with, "examples/heat2d/heat2d.c", cluster.files());
    let (program, on) = (text(&program), [("PCM_MPI", text(runs_on))]);

    let job = Malleable::start_with(&cluster, program, 2, random_changes::PACE, &on);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", job.ranks()[0].pid)).expect("the rank lives");
    let of_mpi = maps.lines().filter(|line| line.contains("/libmpi.so"));
    let library = text(runs_on).to_owned() + "/lib/";
    let loaded: Vec<&str> = of_mpi.collect();
    assert!(
        !loaded.is_empty() && loaded.iter().all(|line| line.contains(&library)),
        "{loaded:?}"
    );
    random_changes::survives(&cluster, job, CHANGES);
    crashing::loses_a_rank_and_ends_right(&cluster, program, &on);
    cluster.down();
}

/// On MPICH 3.4 itself leavers can hang (docs/limits.md).
#[test]
fn compiled_with_mpich_3_4_on_mpich_5() {
    changes_and_recovers(&older::prefix("3.4.3"), &reference());
}

#[test]
fn compiled_with_mpich_4_0_on_it_and_on_mpich_5() {
    let compiled_with = older::prefix("4.0.3");
    changes_and_recovers(&compiled_with, &reference());
    changes_and_recovers(&compiled_with, &compiled_with);
}

#[test]
fn compiled_with_mpich_4_3_on_it_and_on_mpich_5() {
    let compiled_with = older::prefix("4.3.2");
    changes_and_recovers(&compiled_with, &reference());
    changes_and_recovers(&compiled_with, &compiled_with);
}

#[test]
fn python_over_mpi4py_changes_and_recovers_on_mpich_4_3() {
    let Some(of_python) = for_python() else { return };
    let prefix = older::prefix("4.3.2");
    let of_python = of_python.iter().map(|(name, value)| (*name, text(Path::new(value))));
    let variables: Vec<(&str, &str)> = of_python.chain([("PCM_MPI", text(&prefix))]).collect();
    let cluster = Cluster::that_crashes(NODES);
    let program = source("heat2d/heat2d.py");
    cell::survives(
        &cluster,
        &program,
        cell::PACE_OF_PYTHON,
        &prefix.join("lib"),
        &variables,
    );
    cluster.down();
}

#[test]
fn compiled_with_mpich_5_on_intel_mpi() {
    changes_and_recovers(&reference(), &intel::prefix());
}

/// Intel's compiler links its layer for Fortran to programs in C, and that calls what only Intel MPI has.
#[test]
fn compiled_with_intel_mpi_on_another_is_refused_with_the_way_out() {
    let cluster = Cluster::up(1);
    let program = intel::compiled("examples/heat2d/heat2d.c", cluster.files());
    let began = Instant::now();
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    command.arg(&program).env("PCM_MPI", reference());
    let refused = limited::run(&mut command, LIMIT);
    assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    for part in [
        "was linked with libmpifort.so.12, which",
        "run it on the MPI that it was compiled with",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    cluster.down();
}

/// Names of the tests in a suite.
fn tests_of(suite: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(suite);
    let text = fs::read_to_string(file.with_extension("rs")).expect("a suite");
    let named = text.split("#[test]\nfn ").skip(1);
    named
        .map(|rest| rest.split('(').next().expect("a name").to_owned())
        .collect()
}

/// The rows of the table in docs/other-mpis.md: the last cell of each, which names a test.
#[test]
fn each_row_of_the_documented_table_is_a_test_and_each_of_these_tests_is_a_row() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/other-mpis.md");
    let page = fs::read_to_string(page).expect("the page");
    let rows = page.lines().skip_while(|line| !line.starts_with("| program |"));
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).skip(2).collect();
    let mut named = Vec::new();
    for row in rows {
        let cell = row.trim_end_matches([' ', '|']).rsplit("| ").next().expect("a cell");
        if cell != "most tests do this" {
            let name = cell.trim_matches('`').split_once("::").expect("a suite and its test");
            assert!(tests_of(name.0).iter().any(|test| test == name.1), "no test of {row}");
            named.push(name);
        }
    }
    assert!(named.len() >= 20, "{named:?}");
    let own = "each_row_of_the_documented_table_is_a_test_and_each_of_these_tests_is_a_row";
    for suite in ["system_compiled_elsewhere", "system_intel_languages", "system_fortran"] {
        for test in tests_of(suite) {
            assert!(
                test == own || named.contains(&(suite, &*test)),
                "no row of {suite}::{test}"
            );
        }
    }
}
