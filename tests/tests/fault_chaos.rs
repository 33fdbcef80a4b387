//! Jobs with checkpoints under kill -9 of ranks, agents, daemons and whole nodes at random times, mixed with migrations:
//! each ends with the result of an undisturbed run, and nothing is left. `PCM_CHAOS_ROUNDS` asks for more rounds than the
//! few of a normal run, `PCM_CHAOS_SEED` for one round again.

use rustix::process::Signal;
use std::{
    env, thread,
    time::{Duration, Instant},
};
use tests::{
    cluster::Cluster,
    crashing::{Crashing, kill_node},
    processes,
    simulation::random::Random,
};

const NODES: usize = 4;

/// Rounds of a normal run: each takes five to fifteen seconds on two processors.
const ROUNDS: u64 = 8;

/// Things that happen to one job.
const BLOWS_MAX: usize = 3;

/// Iterations of about three milliseconds.
const LENGTH: (u64, u32) = (900, 2500);

/// Time between two blows; shorter than a recovery, so that some strike in one.
const PAUSE_MS: usize = 900;

#[derive(Clone, Copy, Debug)]
enum Blow {
    Rank(usize),
    Daemon(usize),
    Agent(usize),
    Node(usize),
    Migrate(usize, usize),
}

fn blow(random: &mut Random, may_lose_node: bool) -> Blow {
    match random.below(if may_lose_node { 9 } else { 8 }) {
        0..=3 => Blow::Rank(random.below(4)),
        4 | 5 => Blow::Daemon(random.below(NODES)),
        6 => Blow::Agent(random.below(NODES)),
        7 => Blow::Migrate(random.below(4), random.below(NODES)),
        // The first node coordinates the job, which does not outlive it.
        _ => Blow::Node(1 + random.below(NODES - 1)),
    }
}

fn strike(cluster: &Cluster, job: &Crashing<'_>, blow: Blow) {
    let name = |node: usize| format!("n{node}");
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
        Blow::Node(node) => kill_node(cluster, &name(node)),
        // It may be refused, or given up: the job may be coming back just now.
        Blow::Migrate(rank, node) => {
            let (rank, node) = (rank.to_string(), name(node));
            let arguments = ["migrate", tests::crashing::JOB, "--rank", &rank, "--to", &node];
            _ = cluster.run(&arguments);
        }
    }
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

/// One round; whether a node was lost.
fn round(cluster: &Cluster, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let job = Crashing::start(cluster, &["--checkpoint-every", "0.2"], LENGTH);
    job.wait_for("checkpoint_complete", 1);
    let mut has_lost_node = false;
    for _ in 0..=random.below(BLOWS_MAX) {
        thread::sleep(Duration::from_millis(random.below(PAUSE_MS) as u64));
        let blow = blow(&mut random, !has_lost_node);
        has_lost_node |= matches!(blow, Blow::Node(_));
        eprintln!("seed {seed}: {blow:?}");
        strike(cluster, &job, blow);
    }
    job.ends_right();
    has_lost_node
}

#[test]
fn whatever_is_killed_the_result_is_that_of_an_undisturbed_run() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PCM_CHAOS_SEED");
    let rounds = number("PCM_CHAOS_ROUNDS").unwrap_or(if first.is_some() { 1 } else { ROUNDS });
    let seeds = first.unwrap_or(1)..;
    let begun = Instant::now();
    let mut cluster = None;
    for seed in seeds.take(rounds as usize) {
        eprintln!(
            "seed {seed} after {:.0} s; again with PCM_CHAOS_SEED={seed}",
            begun.elapsed().as_secs_f64()
        );
        let here = cluster.take().unwrap_or_else(|| Cluster::up(NODES as u32));
        if round(&here, seed) {
            here.down();
        } else {
            cluster = Some(here);
        }
    }
    if let Some(cluster) = cluster {
        cluster.down();
    }
}
