//! Datagrams between daemons that the network loses or does not pass at all: jobs run and recover as ever, and
//! everybody can see what carries the messages and why not something else.

use serde_json::Value;
use std::time::Duration;
use tests::{cluster::Cluster, crashing::Crashing, network::Network, skip, wait};

/// A way is taken for blocked after a few messages, and tried again every ten seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// Iterations of about three milliseconds.
const LENGTH: (u64, u32) = (3000, 2500);

/// Loses three packets of UDP out of ten.
const LOSSY: &str = "meta l4proto udp numgen random mod 10 < 3 drop";

/// Passes no UDP.
const BLOCKED: &str = "meta l4proto udp drop";

/// A cluster of three nodes whose networks have these rules before it is booted.
fn cluster(rules: &[(&str, &str)]) -> Option<Cluster> {
    let cluster = Cluster::place();
    let Some(network) = Network::of(3, cluster.files()) else {
        skip::cannot_run("making networks of its own needs root and iproute2");
        return None;
    };
    if !network.filter("n0", "counter") {
        skip::cannot_run("filtering packets needs nftables");
        return None;
    }
    network.open("n0");
    for (node, rule) in rules {
        assert!(network.filter(node, rule), "{rule}");
    }
    Some(cluster.booted_in(network, &[], &[]))
}

fn fabric(cluster: &Cluster, node: &str) -> Value {
    let nodes = cluster.json(&["nodes"]);
    let found = nodes
        .as_array()
        .into_iter()
        .flatten()
        .find(|found| found["name"] == node);
    found.map_or(Value::Null, |found| found["fabric"].clone())
}

/// Turns of the way to a node, as the events tell them.
fn turns(cluster: &Cluster, node: &str) -> Vec<String> {
    let lines = cluster.run(&["events", "--json"]).stdout;
    let events = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let turns = events.filter(|event| event["kind"] == "fabric_changed" && event["name"] == node);
    turns
        .filter_map(|event| event["by"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn jobs_run_and_recover_where_three_packets_of_ten_are_lost() {
    let Some(cluster) = cluster(&[("n0", LOSSY), ("n1", LOSSY), ("n2", LOSSY)]) else {
        return;
    };
    assert_eq!(fabric(&cluster, "n0")["datagrams"], "udp");
    for _ in 0..5 {
        let outcome = cluster.run(&["run", "-n", "3", "--", "sh", "-c", "echo $PCM_NODE"]);
        assert!(outcome.status.success(), "{outcome:?}\n{}", cluster.logs());
        assert_eq!(outcome.stdout.lines().count(), 3, "{outcome:?}");
    }
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], LENGTH);
    job.wait_for("checkpoint_complete", 2);
    assert!(job.kill_rank(1), "the second rank runs");
    job.wait_for("recovered", 1);
    job.ends_right();
    cluster.down();
}

#[test]
fn where_udp_is_blocked_connections_carry_everything_and_everybody_says_why() {
    let Some(cluster) = cluster(&[]) else { return };
    let network = cluster.network().expect("the test's own");
    assert!(network.filter("n1", BLOCKED));
    let why = wait::until("n1 to say that no datagrams are confirmed", LIMIT, || {
        let fabric = fabric(&cluster, "n1");
        (fabric["datagrams"] == "none").then(|| fabric["why_not"].to_string())
    });
    assert!(why.contains("udp to n0") && why.contains("may be blocked"), "{why}");
    let of_n0 = wait::until("n0 to say that n1 confirms none", LIMIT, || {
        let fabric = fabric(&cluster, "n0");
        fabric["why_not"].to_string().contains("udp to n1").then_some(fabric)
    });
    assert_eq!(of_n0["datagrams"], "udp", "there is n2: {of_n0}");
    assert!(cluster.run(&["nodes"]).stdout.contains("udp+tcp"));
    let doctor = cluster.run(&["doctor"]);
    let said = doctor.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("udp to n1: it confirms no datagrams"), "{doctor:?}");
    assert!(turns(&cluster, "n1").contains(&"connections".to_owned()));

    let outcome = cluster.run(&["run", "-n", "2", "--nodes", "n1", "--", "sh", "-c", "echo $PCM_NODE"]);
    assert!(outcome.status.success() && outcome.stdout == "n1\nn1\n", "{outcome:?}");
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], LENGTH);
    job.wait_for("checkpoint_complete", 2);
    job.ends_right();

    network.open("n1");
    wait::until("datagrams to be used again", LIMIT, || {
        let is_used = |node| fabric(&cluster, node)["why_not"].to_string().contains("udp to");
        (!is_used("n0") && !is_used("n1")).then_some(())
    });
    assert_eq!(fabric(&cluster, "n1")["datagrams"], "udp");
    assert_eq!(turns(&cluster, "n1").last().map(String::as_str), Some("udp"));
    cluster.down();
}
