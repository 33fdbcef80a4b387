//! A cluster of many nodes is booted along a tree, and a job on all of them starts.

use std::collections::BTreeMap;
use tests::{
    cluster::{Cluster, LIMIT},
    limited, processes,
};

/// Deeper than one level of four, and light enough for a small machine.
const NODES: usize = 20;
/// Most daemons one daemon boots itself (`BOOT_FANOUT_MAX`).
const FANOUT_MAX: usize = 4;

/// The keepers, each with the one whose node booted it: a keeper adopts what its node starts.
fn boot_tree(cluster: &Cluster) -> BTreeMap<u32, Option<u32>> {
    let nodes = cluster.json(&["nodes"]);
    let daemons = nodes.as_array().expect("a list").iter();
    let keepers: Vec<u32> = daemons
        .map(|node| node["daemon_pid"].as_u64().expect("a pid") as u32)
        .map(processes::parent)
        .collect();
    let booted_by = |keeper: &u32| Some(processes::parent(*keeper)).filter(|parent| keepers.contains(parent));
    keepers.iter().map(|keeper| (*keeper, booted_by(keeper))).collect()
}

fn depth(tree: &BTreeMap<u32, Option<u32>>, keeper: u32) -> usize {
    tree[&keeper].map_or(0, |parent| 1 + depth(tree, parent))
}

#[test]
fn many_nodes_are_booted_along_a_tree_and_a_job_starts_on_all_of_them() {
    let cluster = Cluster::up_with(&["--local", &NODES.to_string()]);
    let tree = boot_tree(&cluster);
    assert_eq!(tree.len(), NODES);
    assert_eq!(
        tree.values().filter(|parent| parent.is_none()).count(),
        1,
        "one root: {tree:?}"
    );
    for keeper in tree.keys() {
        let children = tree.values().filter(|parent| **parent == Some(*keeper)).count();
        assert!(children <= FANOUT_MAX, "{children} booted by one node: {tree:?}");
    }
    let deepest = tree.keys().map(|keeper| depth(&tree, *keeper)).max();
    assert_eq!(deepest, Some(2), "one, four, and the other fifteen: {tree:?}");
    let ranks = NODES.to_string();
    let mut command = cluster.pcmctl(&["run", "-n", &ranks, "--", "sh", "-c", "echo $PCM_NODE"]);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let mut seen: Vec<&str> = outcome.stdout.lines().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), NODES, "a rank on every node: {outcome:?}");
    cluster.down();
}
