//! Which way copies of checkpoints take between nodes, and that a job comes back from them whichever it was.

use rustix::process::Signal;
use tests::{
    cluster::{CRASH_PATIENCE, Cluster},
    crashing::{Crashing, kill_node},
    network::Network,
    processes, skip,
};

/// Long enough for a few checkpoints and a restart.
const LENGTH: (u64, u32) = (1500, 3000);

/// Long enough for two daemons to be killed: what one of them was to copy is ordered again after five seconds.
const LONG: (u64, u32) = (6000, 3000);

const EVERY: [&str; 2] = ["--checkpoint-every", "0.3"];

/// Every copy took this way, and the job goes on from copies when a node is killed.
fn copies_take(cluster: &Cluster, way: &str, reason: &str) {
    let job = Crashing::start(cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 3);
    job.wait_for("copy_way_changed", 2);
    kill_node(cluster, "n2");
    job.wait_for("recovered", 1);
    let turns = job.events("copy_way_changed");
    for turn in &turns {
        assert_eq!(
            (&turn["way"], &turn["reason"]),
            (&way.into(), &reason.into()),
            "{turns:?}"
        );
    }
    assert!(job.events("recovered")[0]["from"].as_u64() > Some(0));
    job.ends_right();
}

#[test]
fn daemons_of_one_host_copy_through_memory() {
    let cluster = Cluster::that_crashes(3);
    copies_take(&cluster, "shared", "it is on the same host");
    cluster.down();
}

#[test]
fn copies_come_over_the_link_where_that_is_wanted() {
    let cluster = Cluster::place().booted(&["--local", "3"], &[CRASH_PATIENCE, ("PCM_COPIES", "link")]);
    copies_take(&cluster, "link", "PCM_COPIES says so");
    cluster.down();
}

fn with_bulk() -> Cluster {
    Cluster::place().booted(&["--local", "3"], &[CRASH_PATIENCE, ("PCM_COPIES", "bulk")])
}

#[test]
fn copies_come_over_connections_of_their_own_where_that_is_wanted() {
    let cluster = with_bulk();
    copies_take(&cluster, "bulk", "PCM_COPIES says so");
    cluster.down();
}

#[test]
fn daemons_that_are_killed_while_they_copy_hold_no_checkpoint_up() {
    let cluster = with_bulk();
    let job = Crashing::start(&cluster, &EVERY, LONG);
    job.wait_for("checkpoint_complete", 1);
    let coordinator = job.coordinator();
    for node in ["n0", "n1", "n2"].into_iter().filter(|node| *node != coordinator) {
        let made = job.events("checkpoint_complete").len();
        let daemon = cluster.daemon_pid(node);
        processes::send(daemon, Signal::KILL);
        job.wait_for("checkpoint_complete", made + 2);
    }
    job.wait_for("copy_way_changed", 2);
    job.ends_right();
    cluster.down();
}

#[test]
fn nodes_of_one_machine_whose_networks_are_apart_share_no_memory() {
    let cluster = Cluster::place();
    let Some(network) = Network::of(3, cluster.files()) else {
        return skip::cannot_run("making networks of its own needs root and iproute2");
    };
    let cluster = cluster.booted_in(network, &[], &[CRASH_PATIENCE]);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("copy_way_changed", 2);
    let turns = job.events("copy_way_changed");
    for turn in &turns {
        let told = (&turn["way"], &turn["reason"]);
        assert_eq!(told, (&"bulk".into(), &"it is on another host".into()), "{turns:?}");
    }
    job.ends_right();
    cluster.down();
}
