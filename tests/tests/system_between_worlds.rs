//! `run --between-worlds shm`: a job that changes on one host keeps its speed, and loses nothing when a rank is killed.

use serde_json::Value;
use std::{
    thread,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    processes, wait,
};

/// Two ranks that exchange 4 MB in each iteration and compute little.
const MESSAGE_BOUND: [&str; 6] = ["--rows", "4", "--cols", "500000", "--iterations", "100000000"];

/// The share of its fresh speed that a moved job must reach: over TCP between worlds it has about half.
const KEPT: f64 = 0.8;

/// How long its speed is watched, and how often to learn what it is when nothing disturbs it.
const WATCHED: Duration = Duration::from_millis(500);
const FRESH_LOOKS: usize = 4;

fn ranks(cluster: &Cluster) -> Vec<Value> {
    cluster.json(&["ps", "1"])["ranks"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn iteration(cluster: &Cluster) -> Option<f64> {
    ranks(cluster).first()?["iteration"].as_f64()
}

/// Iterations a second.
fn speed(cluster: &Cluster) -> Option<f64> {
    let (before, since) = (iteration(cluster)?, Instant::now());
    thread::sleep(WATCHED);
    Some((iteration(cluster)? - before) / since.elapsed().as_secs_f64())
}

fn migrate(cluster: &Cluster, to: &str) {
    let moved = cluster.run(&["migrate", "1", "--rank", "1", "--to", to, "--mode", "live"]);
    assert!(moved.status.success(), "{moved:?}");
}

#[test]
fn a_job_over_shared_memory_keeps_its_speed_when_it_moves_and_recovers_from_kill_9() {
    let cluster = Cluster::that_crashes(3);
    let options = ["--between-worlds", "shm", "--checkpoint-every", "0.5"];
    let mut command = cluster.pcmctl(&["run", "-n", "2"]);
    command
        .args(options)
        .arg("--")
        .arg(built("heat2d-c"))
        .args(MESSAGE_BOUND);
    let job = Background::start(&mut command);
    cluster.wait_until_ranks_of_iterate("1");
    let looks = (0..FRESH_LOOKS).filter_map(|_| speed(&cluster));
    let fresh = looks.fold(0.0, f64::max);
    migrate(&cluster, "n2");
    migrate(&cluster, "n0");
    // Other tests take the CPUs now and then: what counts is what the job can reach.
    let mut seen = Vec::new();
    wait::until("the speed of a fresh job", LIMIT, || {
        seen.push(speed(&cluster)?);
        (seen.last()? / fresh >= KEPT).then_some(())
    });
    println!("fresh {fresh:.0}, after two moves {seen:.0?}");
    let pid = ranks(&cluster)[1]["pid"].as_u64().expect("a process") as u32;
    processes::send(pid, rustix::process::Signal::KILL);
    wait::until("the recovery", LIMIT, || {
        (!cluster.events(Some("1"), "recovered").is_empty()).then_some(())
    });
    cluster.wait_until_ranks_of_iterate("1");
    assert!(cluster.run(&["kill", "1"]).status.success());
    let ended = job.end(LIMIT);
    assert!(
        !ended.status.success() && ended.stderr.contains("pcmctl kill"),
        "{ended:?}"
    );
    // Shared memory that the killed rank left is gone with the job: `down` looks for it.
    cluster.down();
}

#[test]
fn a_way_between_worlds_that_the_user_s_own_variable_names_is_kept() {
    let cluster = Cluster::up(1);
    let show = [
        "sh",
        "-c",
        "echo ${FI_PROVIDER-unset} ${MPIR_CVAR_CH4_OFI_ENABLE_RMA-unset}",
    ];
    let run = |options: &[&str], own: Option<&str>| {
        let mut command = cluster.pcmctl(&[&["run", "--between-worlds", "shm"], options, &["--"], &show[..]].concat());
        command.env_remove("MPIR_CVAR_CH4_NETMOD").env_remove("FI_PROVIDER");
        own.map(|value| command.env("FI_PROVIDER", value));
        tests::limited::run(&mut command, LIMIT).stdout
    };
    assert_eq!(run(&[], None), "shm 0\n");
    assert_eq!(run(&[], Some("tcp")), "tcp 0\n");
    assert_eq!(run(&["--mpi", "FI_PROVIDER=sockets"], None), "sockets unset\n");
    cluster.down();
}
