//! Links that are known to be long and slow, between daemons that nobody told so: they measure it, `nodes` shows it,
//! and a job is gathered where it talks over short ones.

use serde_json::Value;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tests::{
    adapting::{Adapting, wait_until_idle},
    binaries::built,
    cluster::{Cluster, LIMIT},
    network::{FarSites, Network, Wire},
    skip, wait,
};

/// As agents take links between sites to be, and a quarter of the bandwidth.
const WIRE: Wire = Wire {
    delay: Duration::from_millis(10),
    bytes_per_s: 5_000_000,
};

/// One job at a time: its nodes have the same CPUs, and are not idle while another's compute.
static TURN: Mutex<()> = Mutex::new(());

fn over_wire(nodes: usize, cluster: &Cluster) -> Option<(Network, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let sites = FarSites {
        count: 2,
        wire: WIRE,
        program: &built("pcm-wire"),
        are_named: false,
    };
    let network = Network::over_wires(nodes, sites, cluster.files());
    if network.is_none() {
        skip::cannot_run("a wire between networks of its own needs root, iproute2 and TAP devices");
    }
    Some((network?, turn))
}

/// Nodes stand on the two sides in turn.
fn side(node: &str) -> u32 {
    let number: u32 = node.trim_start_matches('n').parse().expect("nodes are n0, n1, …");
    number % 2
}

/// A figure of the links from the node that answers, with whether each leads to the other side; nothing while one
/// lacks.
fn measured(cluster: &Cluster, figure: &str) -> Option<Vec<(bool, f64)>> {
    let nodes = cluster.json(&["nodes"]);
    let links = nodes.as_array()?.iter().filter_map(|node| {
        let link = &node["link"];
        let from = link["node"].as_str()?;
        Some((side(node["name"].as_str()?) != side(from), link[figure].as_f64()?))
    });
    let links: Vec<(bool, f64)> = links.collect();
    (links.len() == nodes.as_array()?.len() - 1).then_some(links)
}

#[test]
fn nodes_shows_how_long_links_take_and_what_copies_reach_on_them() {
    let cluster = Cluster::place();
    let Some((network, _turn)) = over_wire(2, &cluster) else {
        return;
    };
    let cluster = cluster.booted_in(network, &[], &[]);
    let latencies = wait::until("the latency of the link", LIMIT, || measured(&cluster, "latency_us"));
    assert!(
        latencies.iter().all(|(_, us)| (10_000.0..15_000.0).contains(us)),
        "{latencies:?}"
    );
    let options = [
        "-n",
        "2",
        "--policy",
        "none",
        "--wait",
        "adaptive",
        "--checkpoint-every",
        "2",
    ];
    let plate = ["--rows", "1000", "--cols", "1000", "--iterations", "100000000"];
    let job = Adapting::start_program(&cluster, &options, "heat2d-c", &plate);
    let rates = wait::until("the bandwidth of the link", LIMIT, || {
        measured(&cluster, "megabytes_per_s")
    });
    // What is sealed and acknowledged passes too, and the program's own messages.
    assert!(rates.iter().all(|(_, rate)| (2.0..5.0).contains(rate)), "{rates:?}");
    job.goes_on();
    job.end();
    cluster.down();
}

/// Two ranks of heat2d, one on each side: a job begins on the idlest nodes, and which they are is nobody's choice.
fn start_apart<'c>(cluster: &'c Cluster, options: &[&str], plate: &[&str]) -> Adapting<'c> {
    const STARTS_MAX: u32 = 10;
    for number in 1..=STARTS_MAX {
        let job = Adapting::start_nth(cluster, number, options, "heat2d-c", plate);
        let begun = job.places().expect("the ranks are somewhere");
        if side(&begun[0]) != side(&begun[1]) {
            return job;
        }
        job.end();
    }
    panic!("{STARTS_MAX} jobs began on one side each");
}

#[test]
fn a_job_is_gathered_on_the_nodes_that_were_measured_to_be_near_each_other() {
    let cluster = Cluster::place();
    let Some((network, _turn)) = over_wire(4, &cluster) else {
        return;
    };
    let cluster = cluster.booted_in(network.with_one_cpu_each(), &[], &[]);
    let latencies = wait::until("the latencies of all links", LIMIT, || measured(&cluster, "latency_us"));
    for (is_far, us) in &latencies {
        let expected = if *is_far { 10_000.0..15_000.0 } else { 0.0..2_000.0 };
        assert!(expected.contains(us), "{latencies:?}");
    }
    wait_until_idle(&cluster);
    // Its ranks hardly compute, so no node is loaded, though all of them are on the same few CPUs.
    let plate = [
        "--rows",
        "100",
        "--cols",
        "1000",
        "--iterations",
        "100000000",
        "--sleep-us",
        "5000",
    ];
    let options = ["-n", "2", "--policy", "nts", "--wait", "adaptive"];
    let job = start_apart(&cluster, &options, &plate);
    job.wait_until("all ranks on one side", |places| side(&places[0]) == side(&places[1]));
    let decisions = job.events("decision");
    let chosen: Vec<&Value> = decisions
        .iter()
        .filter(|decision| !decision["chosen"].is_null())
        .collect();
    let reason = chosen
        .first()
        .and_then(|decision| decision["reason"].as_str())
        .unwrap_or_default();
    assert!(reason.contains("as measured"), "{decisions:?}");
    job.goes_on();
    let places = job.places().expect("the ranks are somewhere");
    assert_eq!(side(&places[0]), side(&places[1]), "{}", job.explained());
    job.end();
    cluster.down();
}
