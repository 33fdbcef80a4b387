//! Nodes that join by themselves, as an engine such as Slurm starts them: the process that was started is the keeper,
//! a signal to it is a notice, and its exit code says how the node ended.

use pcm_proto::handshake::PROTOCOL_VERSION;
use rustix::process::Signal;
use serde_json::Value;
use std::{collections::BTreeSet, fs, time::Duration};
use tests::{
    background::Background,
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    crashing::Crashing,
    processes, wait,
};

/// Left because of a notice.
const LEFT: i32 = 75;

/// A node that has the time of `PCM_NOTICE_SECONDS` ends well within it when its ranks can leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(30);

fn join(cluster: &Cluster, node: &str, options: &[&str]) -> Background {
    let arguments = [&["join", "--node", node, "--address", "127.0.0.1"], options].concat();
    let mut command = cluster.daemon(&arguments);
    command.envs([CRASH_PATIENCE]);
    Background::start(&mut command)
}

/// A cluster whose nodes have joined one after the other.
fn joined<const N: usize>(cluster: &mut Cluster, nodes: [&str; N]) -> [Background; N] {
    let mut is_first = true;
    let keepers = nodes.map(|node| {
        let options: &[&str] = if std::mem::take(&mut is_first) {
            &["--first"]
        } else {
            &[]
        };
        join(cluster, node, options)
    });
    wait_for_nodes(cluster, &nodes);
    cluster.note_id();
    keepers
}

fn wait_for_nodes(cluster: &Cluster, nodes: &[&str]) {
    let found = wait::within(LIMIT, || {
        let told = cluster.run(&["nodes", "--json"]).stdout;
        let known: Value = serde_json::from_str(&told).ok()?;
        let up: BTreeSet<&str> = known
            .as_array()?
            .iter()
            .filter(|node| node["state"] == "up")
            .filter_map(|node| node["name"].as_str())
            .collect();
        (up == nodes.iter().copied().collect()).then_some(())
    });
    assert!(
        found.is_some(),
        "{nodes:?}: {:?}\n{}",
        cluster.run(&["nodes"]),
        cluster.logs()
    );
}

/// The names in the list of nodes.
fn listed(cluster: &Cluster) -> Vec<String> {
    let record = fs::read(cluster.dir().join("cluster.json")).expect("the list");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let nodes = record["nodes"].as_array().cloned().unwrap_or_default();
    nodes
        .iter()
        .filter_map(|node| node["name"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn nodes_join_leave_and_come_back_and_the_list_follows() {
    let mut cluster = Cluster::place();
    let [a, b, c] = joined(&mut cluster, ["a", "b", "c"]);
    for (keeper, node) in [(&a, "a"), (&b, "b"), (&c, "c")] {
        assert_eq!(processes::parent(cluster.daemon_pid(node)), keeper.pid(), "{node}");
    }
    assert_eq!(listed(&cluster).len(), 3);
    // One notice, though it is said three times.
    for _ in 0..3 {
        c.signal(Signal::TERM);
    }
    assert_eq!(c.end(LEAVES_WITHIN).status.code(), Some(LEFT), "{}", cluster.logs());
    assert!(!listed(&cluster).contains(&"c".to_owned()), "{:?}", listed(&cluster));
    let again = join(&cluster, "c", &[]);
    wait_for_nodes(&cluster, &["a", "b", "c"]);
    // The first one is no more special than the others.
    let removed = cluster.run(&["remove", "a"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(a.end(LIMIT).status.code(), Some(0));
    wait_for_nodes(&cluster, &["b", "c"]);
    let down = cluster.run(&["down"]);
    assert!(down.status.success(), "{down:?}");
    for keeper in [b, again] {
        let ended = keeper.end(LIMIT);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(ended.stderr.contains("the cluster is down"), "{ended:?}");
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_node_that_was_killed_comes_back_under_its_name() {
    let mut cluster = Cluster::place();
    let [first, killed] = joined(&mut cluster, ["a", "b"]);
    processes::send(cluster.daemon_pid("b"), Signal::KILL);
    killed.signal(Signal::KILL);
    drop(killed);
    let again = join(&cluster, "b", &[]);
    wait::until("another daemon of b", LIMIT, || {
        (cluster.node_state("b") == "up" && processes::parent(cluster.daemon_pid("b")) == again.pid()).then_some(())
    });
    let down = cluster.run(&["down"]);
    assert!(down.status.success(), "{down:?}");
    assert_eq!(first.end(LIMIT).status.code(), Some(0));
    assert_eq!(again.end(LIMIT).status.code(), Some(0));
    cluster.assert_nothing_left();
}

/// Engines signal every process they find; the order is theirs.
fn survives_signals_to_all(is_keeper_last: bool) {
    let mut cluster = Cluster::place();
    let [a, b, c] = joined(&mut cluster, ["a", "b", "c"]);
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], (1500, 3000));
    job.wait_for("checkpoint_complete", 2);
    let there: Vec<usize> = job.ranks_on("c");
    let ranks: Vec<u32> = job
        .ranks()
        .into_iter()
        .enumerate()
        .filter(|(rank, _)| there.contains(rank))
        .map(|(_, pid)| pid)
        .collect();
    assert!(!ranks.is_empty(), "no rank on c");
    let keeper = c.pid();
    let order = if is_keeper_last {
        [&ranks[..], &[keeper]].concat()
    } else {
        [&[keeper], &ranks[..]].concat()
    };
    for pid in order {
        processes::send(pid, Signal::TERM);
    }
    assert_eq!(c.end(LEAVES_WITHIN).status.code(), Some(LEFT), "{}", cluster.logs());
    let told = job.events("crashed").first().map(Value::to_string).unwrap_or_default();
    assert!(told.is_empty() || told.contains("node c is taken away"), "{told}");
    job.ends_right();
    assert!(cluster.run(&["down"]).status.success());
    for keeper in [a, b] {
        assert_eq!(keeper.end(LIMIT).status.code(), Some(0));
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_rank_that_dies_of_a_signal_before_the_notice_to_its_node_is_a_node_taken_away() {
    survives_signals_to_all(true);
}

#[test]
fn a_rank_that_dies_of_a_signal_after_the_notice_to_its_node_is_a_node_taken_away() {
    survives_signals_to_all(false);
}

#[test]
fn a_rank_that_somebody_ends_by_a_signal_still_ends_its_job() {
    let mut cluster = Cluster::place();
    let [a, b] = joined(&mut cluster, ["a", "b"]);
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], (100_000, 3000));
    job.wait_for("checkpoint_complete", 1);
    processes::send(job.ranks()[0], Signal::TERM);
    let ended = job.end();
    assert_eq!(ended.status.code(), Some(143), "{ended:?}");
    assert!(cluster.run(&["down"]).status.success());
    drop((a, b));
    cluster.assert_nothing_left();
}

#[test]
fn a_specification_starts_a_node_in_the_foreground() {
    let mut cluster = Cluster::place();
    let [a] = joined(&mut cluster, ["a"]);
    let key = fs::read_to_string(cluster.dir().join("key")).expect("the key");
    let part = |name: &str| {
        key.lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("in the key")
    };
    let seed = fs::read_to_string(cluster.dir().join("nodes/a/address")).expect("the address of a");
    let spec = serde_json::json!({
        "version": PROTOCOL_VERSION, "cluster_id": part("cluster "), "key": part("secret "),
        "cluster_dir": cluster.dir(), "subtree": [], "seeds": [seed.trim()], "fabric": "auto",
        "is_rdma_sealed": false, "patience_ms": 5000,
        "node": {"name": "b", "address": "127.0.0.1", "site": "here", "cpus": [], "reach": "Local"},
    });
    let mut command = cluster.daemon(&["--foreground"]);
    command.envs([("PCM_CLUSTER_ID", part("cluster ")), ("PCM_NODE", "b")]);
    let mut keeper = Background::start(&mut command);
    keeper.write(spec.to_string().as_bytes());
    keeper.close_input();
    let ready = wait::until("the report", LIMIT, || {
        serde_json::from_str::<Value>(keeper.stdout().lines().next()?).ok()
    });
    assert_eq!(
        (&ready["outcome"], ready["keeper_pid"].as_u64()),
        (&"ready".into(), Some(keeper.pid().into()))
    );
    wait_for_nodes(&cluster, &["a", "b"]);
    keeper.signal(Signal::TERM);
    assert_eq!(keeper.end(LEAVES_WITHIN).status.code(), Some(LEFT));
    // Whoever described it keeps the list.
    assert_eq!(listed(&cluster), ["a"]);
    assert!(cluster.run(&["down"]).status.success());
    assert_eq!(a.end(LIMIT).status.code(), Some(0));
    cluster.assert_nothing_left();
}

#[test]
fn who_cannot_join_is_told_why() {
    let mut cluster = Cluster::place();
    let alone = join(&cluster, "x", &["--wait", "0.2"]).end(LIMIT);
    assert_eq!(alone.status.code(), Some(1));
    assert!(alone.stderr.contains("there is no cluster in"), "{alone:?}");
    assert!(!cluster.dir().exists(), "nothing was made");
    let [a] = joined(&mut cluster, ["a"]);
    let second = join(&cluster, "b", &["--first"]).end(LIMIT);
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stderr.contains("join it without --first"), "{second:?}");
    let same = join(&cluster, "a", &["--wait", "0.5"]).end(LIMIT);
    assert_eq!(same.status.code(), Some(1));
    assert!(same.stderr.contains("a node a is there already"), "{same:?}");
    let wrong = join(&cluster, "b", &["--nonsense"]).end(LIMIT);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(listed(&cluster), ["a"]);
    assert!(cluster.run(&["down"]).status.success());
    assert_eq!(a.end(LIMIT).status.code(), Some(0));
    cluster.assert_nothing_left();
}
