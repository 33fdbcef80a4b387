//! What carries the daemons' messages: small ones go as datagrams where those arrive, and everybody can see which way
//! was taken and why.

use serde_json::Value;
use std::fs;
use tests::cluster::{Cluster, LIMIT};
use tests::wait;

/// Ports of UDP sockets on this machine.
fn udp_ports() -> Vec<u16> {
    let table = fs::read_to_string("/proc/net/udp").expect("the table of UDP sockets");
    let port = |line: &str| {
        let local = line.split_whitespace().nth(1)?;
        u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
    };
    table.lines().skip(1).filter_map(port).collect()
}

fn port(node: &Value) -> u16 {
    let address = node["address"].as_str().expect("an address");
    let (_, port) = address.rsplit_once(':').expect("a port in it");
    port.parse().expect("a number")
}

#[test]
fn daemons_take_datagrams_beside_their_connections_and_say_so() {
    let cluster = Cluster::up_with(&["--local", "2"]);
    let nodes = wait::until("both nodes to say what they use", LIMIT, || {
        let nodes = cluster.json(&["nodes"]);
        let all = nodes
            .as_array()?
            .iter()
            .all(|node| node["fabric"]["datagrams"] == "udp");
        all.then_some(nodes)
    });
    let udp = udp_ports();
    for node in nodes.as_array().expect("a list") {
        assert!(udp.contains(&port(node)), "UDP on the same port: {node} among {udp:?}");
        assert_eq!(node["fabric"]["connections"], "tcp");
        let why_not = node["fabric"]["why_not"].to_string();
        assert!(why_not.contains("rdma"), "{why_not}");
    }
    assert_eq!(cluster.events(None, "fabric_chosen").len(), 2);
    assert!(cluster.run(&["nodes"]).stdout.contains("udp+tcp"));
    cluster.down();
}

#[test]
fn a_small_group_without_connections_is_told_to_start_by_datagrams() {
    // The sixth is booted by the second, so the first has no connection to it.
    let cluster = Cluster::up_with(&["--local", "6"]);
    assert!(cluster.run(&["ping", "n5"]).status.success());
    let outcome = cluster.run(&["run", "-n", "2", "--nodes", "n0,n5", "--", "sh", "-c", "echo $PCM_NODE"]);
    assert!(
        outcome.status.success() && outcome.stdout.contains("n0") && outcome.stdout.contains("n5"),
        "{outcome:?}"
    );
    let told = wait::until("the order to be in the log", LIMIT, || {
        let [told] = &cluster.events(None, "group_told")[..] else {
            return None;
        };
        Some(told.clone())
    });
    assert_eq!(
        (&told["by"], &told["members"]),
        (&"datagrams".into(), &1.into()),
        "{told}"
    );
    let reason = told["reason"].as_str().expect("a reason");
    assert!(reason.contains("us over datagrams"), "{reason}");
    // The connection that was made meanwhile is used from then on; its rank is known to be gone.
    assert!(
        cluster
            .run(&["run", "-n", "2", "--nodes", "n0,n5", "--", "true"])
            .status
            .success()
    );
    // Events are written beside the work of a daemon.
    let told = wait::until("the second order to be in the log", LIMIT, || {
        let told = cluster.events(None, "group_told");
        (told.len() == 2).then_some(told)
    });
    assert_eq!(told[1]["by"], "connections", "{told:?}");
    cluster.down();
}

#[test]
fn a_cluster_booted_with_tcp_has_no_datagrams_and_works() {
    let cluster = Cluster::up_with(&["--local", "3", "--fabric", "tcp"]);
    let nodes = wait::until("all nodes to say what they use", LIMIT, || {
        let nodes = cluster.json(&["nodes"]);
        let all = nodes
            .as_array()?
            .iter()
            .all(|node| node["fabric"]["datagrams"] == "none");
        all.then_some(nodes)
    });
    for node in nodes.as_array().expect("a list") {
        assert!(!udp_ports().contains(&port(node)), "{node}");
        let why_not = node["fabric"]["why_not"].to_string();
        assert!(why_not.contains("--fabric tcp"), "{why_not}");
    }
    let outcome = cluster.run(&["run", "-n", "3", "--", "sh", "-c", "echo $PCM_NODE"]);
    assert!(outcome.status.success() && outcome.stdout.contains("n2"), "{outcome:?}");
    assert!(
        cluster
            .events(None, "group_told")
            .iter()
            .all(|told| told["by"] == "connections")
    );
    cluster.down();
}

#[test]
fn a_fabric_that_daemons_cannot_use_is_refused_with_its_reason() {
    let mut cluster = Cluster::place();
    let outcome = cluster.boot(&["--local", "1", "--fabric", "rdma"]);
    assert!(
        !outcome.status.success() && outcome.stderr.contains("--fabric auto"),
        "{outcome:?}"
    );
    cluster.assert_nothing_left();
}
