//! Programs as they were compiled: with older releases of MPICH and with Intel MPI. On the MPI that they were compiled
//! with, and on another one of that ABI, they change live, let leavers go, and recover.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use pcm_proto::random::Random;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tests::{
    asked,
    cluster::{Cluster, LIMIT},
    crashing, intel, limited,
    malleable::Malleable,
    older::{self, compiled_by},
    random_changes::{self, NODES},
};

const CHANGES: u32 = 50;

/// A leaver is gone so soon after the commit.
const GONE_MAX_MS: f64 = 200.0;

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
    let seed = asked::number("PCM_TEST_SEED").unwrap_or(u64::from(std::process::id()));
    println!(
        "compiled with {}, runs on {}; seed {seed}: PCM_TEST_SEED={seed} replays the changes",
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
    let done = random_changes::make(&cluster, &job, CHANGES, &mut Random::new(seed));
    let closing = done.iter().map(|done| done["phases_ms"]["closing"].as_f64());
    let mut closing: Vec<f64> = closing.map(|ms| ms.expect("a time")).collect();
    closing.sort_by(f64::total_cmp);
    let (median, longest) = (closing[closing.len() / 2], closing[closing.len() - 1]);
    println!("closing: median {median} ms, longest {longest} ms");
    assert!(median <= GONE_MAX_MS, "leavers are gone late: {closing:?}");
    if job.ranks().len() > 1 {
        job.resize(1);
    }
    job.ends_right();

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
