//! Programs whose data is chosen at random, changed at random, with kills, some of them in the middle of a change, and
//! a restart from files: every rank checks every element it holds in every iteration (`tests/programs/various.c`).
//! `PCM_CHAOS_ROUNDS` (`cargo xtask test fault --rounds N`) asks for another number of programs, `PCM_CHAOS_SEED` for
//! one of them again.

use rustix::process::Signal;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};
use tests::{
    asked,
    background::Background,
    binaries::built,
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    example::{Course, Example, NODES, assert_survives_all, micros},
    moving::Moving,
    processes, wait,
};

/// Programs of a normal run, about ten seconds each, two at a time.
const PROGRAMS: u64 = 6;
const WORKERS: usize = 2;

const CHANGES: u64 = 8;

fn various(seed: u64) -> Example {
    let program = vec![built("pcm-various").into_os_string()];
    Example {
        name: "various",
        plain: program.clone(),
        malleable: program,
        arguments: |_, iterations, pause| vec![iterations.to_string(), micros(pause)],
        variables: vec![("VARIOUS_SEED", seed.to_string().into())],
        changes: CHANGES,
        iterations_each: 90,
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &[],
    }
}

/// A program with custom data.
const WITH_RECORDS: u64 = 367;

fn boot() -> Cluster {
    let mut cluster = Cluster::place();
    let nodes = NODES.to_string();
    let up = cluster.boot_with(&["--local", &nodes], &[CRASH_PATIENCE]);
    assert!(up.status.success(), "{up:?}");
    cluster
}

#[test]
fn whatever_a_program_registers_no_change_loses_it() {
    let asked = asked::number("PCM_CHAOS_SEED");
    let first = asked.unwrap_or(1);
    let programs = asked::number("PCM_CHAOS_ROUNDS").unwrap_or(if asked.is_some() { 1 } else { PROGRAMS });
    let next = AtomicU64::new(first);
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(programs as usize) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + programs {
                        break;
                    }
                    eprintln!("program {seed}; again with PCM_CHAOS_SEED={seed}");
                    let course = Course {
                        changes: CHANGES,
                        seed,
                        kills_in_changes: true,
                    };
                    assert_survives_all(&various(seed), boot(), &course);
                }
            });
        }
    });
}

#[test]
fn custom_data_comes_back_on_as_many_ranks_as_made_its_checkpoint() {
    let cluster = boot();
    let mut command = cluster.pcmctl(&["run", "-n", "3", "--checkpoint-every", "600", "--"]);
    command.arg(built("pcm-various")).args(["1000", "3000"]);
    command
        .env("VARIOUS_SEED", WITH_RECORDS.to_string())
        .current_dir(cluster.files());
    let job = Background::start(&mut command);
    cluster.wait_until_ranks_of_iterate("1");
    for words in [["checkpoint", "1"].as_slice(), &["expand", "1", "--to", "5"]] {
        let outcome = cluster.run(words);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    processes::send(cluster.ranks_of("pcm-various")[0], Signal::KILL);
    wait::until("the job to recover", LIMIT, || {
        (!cluster.events(Some("1"), "recovered").is_empty()).then_some(())
    });
    assert_eq!(cluster.events(Some("1"), "recovered")[0]["ranks"], 3);
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}

/// How long the ranks stay in a change after its data has moved, and when a newcomer is killed since it is there.
const STAY: (&str, &str) = ("PCM_HOLD", "moving:600");
const KILLED_AFTER_MS: [u64; 5] = [100, 400, 700, 1000, 1300];

/// Rows or records of some megabytes a rank: what comes lies beside what is in use.
fn newcomers_are_killed(kind: &str) {
    let cluster = Cluster::that_crashes(3);
    let job = Moving::start(&cluster, kind, 24, &["--checkpoint-every", "0.3"], "", &[STAY]);
    let checkpoints = || cluster.events(Some("1"), "checkpoint_complete").len();
    for ms in KILLED_AFTER_MS {
        cluster.wait_until_ranks_of_iterate("1");
        // A rank that hangs with the newcomer has data that cannot be taken out of it: the job goes on from this.
        let before = checkpoints();
        wait::until("a checkpoint", LIMIT, || (checkpoints() > before).then_some(()));
        let answer = thread::scope(|scope| {
            scope.spawn(|| {
                let newcomer = wait::within(LIMIT, || cluster.processes_with("PCM_ROLE", "newcomer").pop());
                thread::sleep(Duration::from_millis(ms));
                processes::send(newcomer.expect("a newcomer"), Signal::KILL);
            });
            job.try_change(&["expand", "1", "--to", "4", "--mode", "live"])
        });
        println!("{kind}, killed after {ms} ms: {}", answer.stderr.trim_end());
        // By whatever way it goes on, its data is right on another number of ranks.
        wait::until("the job to go on", LIMIT, || {
            cluster.wait_until_ranks_of_iterate("1");
            let ranks = cluster.json(&["ps", "1"])["ranks"].as_array().map_or(0, Vec::len);
            let to = if ranks == 2 {
                ["expand", "1", "--to", "3"]
            } else {
                ["shrink", "1", "--to", "2"]
            };
            job.try_change(&to).status.success().then_some(())
        });
        job.change(&["expand", "1", "--to", "5"]);
        job.change(&["shrink", "1", "--to", "2"]);
    }
    job.kill();
    cluster.down();
}

#[test]
fn newcomers_killed_while_rows_move_cost_no_row() {
    newcomers_are_killed("lengths");
}

#[test]
fn newcomers_killed_while_records_move_cost_no_record() {
    newcomers_are_killed("records");
}
