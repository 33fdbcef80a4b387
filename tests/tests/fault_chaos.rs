//! Jobs with checkpoints under kill -9 of ranks, agents, daemons and whole nodes at random times, mixed with
//! migrations, some with a disk that fills up and some whose files are damaged afterwards: each ends with the result of
//! an undisturbed run, or says that its checkpoints are gone, and nothing is left. `PCM_CHAOS_ROUNDS` (`cargo xtask
//! test fault --rounds N`) asks for another number of rounds, `PCM_CHAOS_SEED` for one round again.

use pcm_proto::random::Random;
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use tests::{
    asked,
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    crashing::{Crashing, PROGRAM, kill_node},
    heat2d::Closing,
    limited, open_mpi, processes,
    shared_memory::SMALL_DISK_VARIABLE,
};

const NODES: usize = 4;

/// Rounds of a normal run: about seven seconds each, two at a time.
const ROUNDS: u64 = 45;

/// The same on Intel MPI.
#[cfg(target_arch = "x86_64")]
const ROUNDS_ON_INTEL: u64 = 8;

/// Clusters at a time; most of a round is waiting.
const WORKERS: usize = 2;

/// Jobs on one cluster: what a job leaves behind is found when its cluster goes down.
const JOBS_PER_CLUSTER: usize = 10;

/// Things that happen to one job.
const BLOWS_MAX: usize = 3;

/// Iterations of about three milliseconds.
const LENGTH: (u64, u32) = (500, 2500);

/// Time between two blows; shorter than a recovery, so that some strike in one.
const PAUSE_MS: usize = 600;

/// One of so many jobs writes files too, and as many onto a disk that is too small for them.
const FILES_ONE_IN: usize = 6;

/// What a job says that lost every copy of its data, or everybody who knew of it.
const LOST: [&str; 3] = [
    "no checkpoint is left",
    "or their copies were lost with their nodes",
    "most nodes of the cluster cannot be reached",
];

/// The same on Open MPI.
const ROUNDS_ON_OPEN_MPI: u64 = 8;

/// A build of heat2d, and what ranks of it have in their environment.
#[derive(Clone, Copy)]
struct Program<'a> {
    program: &'a str,
    variables: &'a [(&'a str, &'a str)],
}

#[derive(Clone, Copy, Debug)]
enum Blow {
    Rank(usize),
    Daemon(usize),
    Agent(usize),
    Node(usize),
    /// Two at once: both copies of a part may be gone.
    Nodes(usize),
    Migrate(usize, usize),
}

fn blow(random: &mut Random, may_lose_node: bool) -> Blow {
    match random.index(if may_lose_node { 50 } else { 40 }) {
        0..=19 => Blow::Rank(random.index(4)),
        20..=29 => Blow::Daemon(random.index(NODES)),
        30..=34 => Blow::Agent(random.index(NODES)),
        35..=39 => Blow::Migrate(random.index(4), random.index(NODES)),
        40..=48 => Blow::Node(random.index(NODES)),
        _ => Blow::Nodes(random.index(NODES)),
    }
}

fn strike(cluster: &Cluster, blow: Blow, job: &Crashing<'_>) {
    let name = |node: usize| format!("n{}", node % NODES);
    match blow {
        Blow::Rank(rank) => _ = job.kill_rank(rank),
        Blow::Daemon(node) => {
            for pid in daemons(cluster, &name(node)) {
                processes::send(pid, Signal::KILL);
            }
        }
        Blow::Agent(node) => {
            for daemon in daemons(cluster, &name(node)) {
                for agent in processes::children(daemon) {
                    processes::send(agent, Signal::KILL);
                }
            }
        }
        Blow::Node(node) => strike_node(cluster, &name(node)),
        Blow::Nodes(node) => {
            strike_node(cluster, &name(node));
            strike_node(cluster, &name(node + 1));
        }
        // It may be refused, or given up: the job may be coming back just now.
        Blow::Migrate(rank, node) => {
            let (rank, node) = (rank.to_string(), name(node));
            let arguments = ["migrate", tests::crashing::JOB, "--rank", &rank, "--to", &node];
            _ = cluster.run(&arguments);
        }
    }
}

/// Its daemon may have been killed a moment ago: there is none to ask for until it is back.
fn strike_node(cluster: &Cluster, node: &str) {
    tests::wait::until("a daemon to kill", LIMIT, || {
        let living = daemons(cluster, node).into_iter().any(processes::is_alive);
        living.then_some(())
    });
    kill_node(cluster, node);
}

/// The daemon of a node that is up and told its process id.
fn daemons(cluster: &Cluster, node: &str) -> Vec<u32> {
    let nodes: serde_json::Value = serde_json::from_str(&cluster.run(&["nodes", "--json"]).stdout).unwrap_or_default();
    let of_node = nodes
        .as_array()
        .into_iter()
        .flatten()
        .filter(|status| status["name"] == node);
    let pids = of_node.filter_map(|status| u32::try_from(status["daemon_pid"].as_u64()?).ok());
    pids.filter(|pid| *pid != 0).collect()
}

/// Where a job writes files besides, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    No,
    Kept,
    SmallDisk,
}

fn small_disk(cluster: &Cluster) -> PathBuf {
    cluster.files().join("small disk")
}

fn boot() -> Cluster {
    let mut cluster = Cluster::place();
    let disk = small_disk(&cluster);
    fs::create_dir(&disk).expect("a folder of the test");
    let disk = disk.to_str().expect("a path in UTF-8").to_owned();
    let nodes = NODES.to_string();
    let up = cluster.boot_with(&["--local", &nodes], &[(SMALL_DISK_VARIABLE, &disk), CRASH_PATIENCE]);
    assert!(up.status.success(), "{up:?}");
    cluster
}

/// One round; whether a node was lost.
fn round(cluster: &Cluster, seed: u64, program: Program<'_>) -> bool {
    let mut random = Random::new(seed);
    let files = match random.index(FILES_ONE_IN) {
        0 => Files::Kept,
        1 => Files::SmallDisk,
        _ => Files::No,
    };
    let kept = cluster.files().join(format!("kept {seed}"));
    let place = if files == Files::Kept {
        kept.clone()
    } else {
        small_disk(cluster)
    };
    let place = place.to_str().expect("a path in UTF-8");
    let mut options = vec!["--checkpoint-every", "0.2"];
    if files != Files::No {
        options.extend(["--checkpoint-dir", place]);
    }
    let job = Crashing::start_program(cluster, program.program, &options, LENGTH, program.variables);
    job.wait_for("checkpoint_complete", 1);
    let (mut has_lost_node, mut may_be_lost) = (false, false);
    for _ in 0..=random.index(BLOWS_MAX) {
        thread::sleep(Duration::from_millis(random.index(PAUSE_MS) as u64));
        let blow = blow(&mut random, !has_lost_node);
        has_lost_node |= matches!(blow, Blow::Node(_) | Blow::Nodes(_));
        may_be_lost |= matches!(blow, Blow::Nodes(_));
        eprintln!("seed {seed}: {files:?} {blow:?}");
        strike(cluster, blow, &job);
    }
    if may_be_lost {
        let is_right = job.ends_right_or_says(&LOST);
        eprintln!(
            "seed {seed}: with two nodes lost at once it {}",
            if is_right { "ended right" } else { "was lost" }
        );
    } else {
        job.ends_right();
    }
    if files == Files::Kept && !has_lost_node {
        damage_and_restart(cluster, &kept, &mut random, program);
    }
    has_lost_node
}

/// What was written is damaged or cut short: it is refused, and an older one gives the right result.
fn damage_and_restart(cluster: &Cluster, directory: &Path, random: &mut Random, program: Program<'_>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut made: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    made.retain(|path| path.join("SEAL").is_file());
    made.sort();
    let Some(newest) = made.pop() else { return };
    let parts = fs::read_dir(&newest).expect("a checkpoint").flatten();
    let mut parts: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    let part = &parts[random.index(parts.len())];
    let length = fs::metadata(part).expect("a file").len();
    let file = fs::File::options().read(true).write(true).open(part).expect("a file");
    let at = random.index(length as usize) as u64;
    if random.index(2) == 0 {
        file.set_len(at).expect("it is cut short");
    } else {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("a byte");
        file.write_all_at(&[byte[0] ^ 0x10], at).expect("a byte");
    }
    let restart = |path: &Path, ranks: &str| {
        let mut command = cluster.pcmctl(&["restart", path.to_str().expect("UTF-8"), "-n", ranks]);
        limited::run(command.envs(program.variables.iter().copied()), LIMIT)
    };
    let ranks = (1 + random.index(5)).to_string();
    let refused = restart(&newest, &ranks);
    assert!(
        !refused.status.success(),
        "{} was restored damaged: {refused:?}",
        part.display()
    );
    assert!(!refused.stderr.is_empty(), "nobody says why: {refused:?}");
    if let Some(older) = made.pop() {
        let restarted = restart(&older, &ranks);
        assert!(restarted.status.success(), "{restarted:?}");
        let checksum = Closing::read(&restarted.stdout).checksum;
        assert_eq!(checksum, Crashing::expected_checksum(LENGTH.0), "{restarted:?}");
    }
}

fn work(next: &AtomicU64, end: u64, begun: Instant, program: Program<'_>) {
    let mut cluster: Option<(Cluster, usize)> = None;
    loop {
        let seed = next.fetch_add(1, Relaxed);
        if seed >= end {
            break;
        }
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("seed {seed} after {seconds:.0} s; again with PCM_CHAOS_SEED={seed}");
        let (here, jobs) = cluster.take().unwrap_or_else(|| (boot(), 0));
        if round(&here, seed, program) || jobs + 1 == JOBS_PER_CLUSTER {
            here.down();
        } else {
            cluster = Some((here, jobs + 1));
        }
    }
    if let Some((cluster, _)) = cluster {
        cluster.down();
    }
}

fn rounds(usual: u64, program: Program<'_>) {
    let seed = asked::number("PCM_CHAOS_SEED");
    let first = seed.unwrap_or(1);
    let rounds = asked::number("PCM_CHAOS_ROUNDS").unwrap_or(if seed.is_some() { 1 } else { usual });
    let (next, begun) = (AtomicU64::new(first), Instant::now());
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(rounds as usize) {
            scope.spawn(|| work(&next, first + rounds, begun, program));
        }
    });
    eprintln!("{rounds} rounds in {:.0} s", begun.elapsed().as_secs_f64());
}

#[test]
fn whatever_is_killed_the_result_is_that_of_an_undisturbed_run() {
    let (program, variables) = (PROGRAM, &[][..]);
    rounds(ROUNDS, Program { program, variables });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_same_on_intel_mpi() {
    let prefix = tests::intel::prefix();
    let variables = [("PCM_MPI", prefix.to_str().expect("UTF-8"))];
    let (program, variables) = (PROGRAM, &variables[..]);
    rounds(ROUNDS_ON_INTEL, Program { program, variables });
}

#[test]
fn the_same_on_open_mpi() {
    let folder = tempfile::tempdir().expect("a folder of the test");
    let program = open_mpi::compiled("examples/heat2d/heat2d.c", folder.path(), true);
    let prefix = open_mpi::prefix();
    let variables = [("PCM_MPI", prefix.to_str().expect("UTF-8"))];
    let (program, variables) = (program.to_str().expect("UTF-8"), &variables[..]);
    rounds(ROUNDS_ON_OPEN_MPI, Program { program, variables });
}
