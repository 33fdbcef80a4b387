//! A node whose network is cut while it runs ranks: its ranks end by themselves, the others go on without it from the
//! newest checkpoint, and when the link is back nothing runs twice. The node may be the one that coordinates the job.

use std::time::Duration;
use tests::{
    cluster::{Cluster, DEFAULT_PATIENCE},
    crashing::{Crashing, PROGRAM},
    network::Network,
    skip, wait,
};

/// Iterations of about three milliseconds.
const LENGTH: (u64, u32) = (6000, 2500);

/// The same, for a job that outlasts the patience of an heir with a terminal.
const LONG: (u64, u32) = (24_000, 2500);

/// A node is taken for lost after three seconds; its job is ended and started again in a few more.
const LIMIT: Duration = Duration::from_secs(90);

fn cluster() -> Option<Cluster> {
    let cluster = Cluster::place();
    let Some(network) = Network::of(4, cluster.files()) else {
        skip::cannot_run("making networks of its own needs root and iproute2");
        return None;
    };
    Some(cluster.booted_in(network, &[], &[DEFAULT_PATIENCE]))
}

/// The living processes of ranks on a node.
fn ranks_on(cluster: &Cluster, node: &str) -> Vec<u32> {
    let there = cluster.processes_with("PCM_NODE", node);
    let mut ranks = cluster.ranks_of(PROGRAM);
    ranks.retain(|pid| there.contains(pid));
    ranks
}

#[test]
fn a_node_that_is_cut_off_ends_its_ranks_and_the_others_go_on_without_it() {
    let Some(cluster) = cluster() else { return };
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], LENGTH);
    job.wait_for("checkpoint_complete", 2);
    let coordinator = job.coordinator();
    let others = ["n1", "n2", "n3"].into_iter().find(|node| *node != coordinator);
    let node = others.expect("another node");
    assert!(!ranks_on(&cluster, node).is_empty(), "{node} has a rank");
    let network = cluster.network().expect("the test's own");
    network.cut(node);
    job.wait_for("recovered", 1);
    wait::until("the end of the ranks that are cut off", LIMIT, || {
        ranks_on(&cluster, node).is_empty().then_some(())
    });
    let from = job.events("recovered")[0]["from"].as_u64();
    assert!(from > Some(0), "from the beginning");
    network.mend(node);
    wait::until("the node to be back", LIMIT, || {
        (cluster.node_state(node) == "up").then_some(())
    });
    let made = job.events("checkpoint_complete").len();
    job.wait_for("checkpoint_complete", made + 2);
    assert!(ranks_on(&cluster, node).is_empty(), "the job runs twice");
    assert_eq!(cluster.ranks_of(PROGRAM).len(), 4, "the job runs twice");
    assert_eq!(
        job.events("recovered").len(),
        1,
        "the node's return cost another restart"
    );
    job.ends_right();
    cluster.down();
}

/// Cuts the coordinator's node off, heals the cut when the job goes on elsewhere, and sees that `pcmctl run` follows it
/// there and that nothing runs twice.
fn cuts_the_coordinator(cut: fn(&Network, &str), heal: fn(&Network, &str)) {
    let Some(cluster) = cluster() else { return };
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], LENGTH);
    job.wait_for("checkpoint_complete", 2);
    let (coordinator, before) = (job.coordinator(), job.ranks());
    let network = cluster.network().expect("the test's own");
    cut(network, &coordinator);
    let others = wait::until("the job to go on elsewhere", LIMIT, || {
        let cut_off = ranks_on(&cluster, &coordinator);
        let mut others = cluster.ranks_of(PROGRAM);
        others.retain(|pid| !cut_off.contains(pid) && !before.contains(pid));
        (others.len() == 4 && cut_off.is_empty()).then_some(others)
    });
    heal(network, &coordinator);
    wait::until("one coordinator, another one", LIMIT, || {
        let is_back = cluster.node_state(&coordinator) == "up";
        (is_back && job.coordinator() != coordinator).then_some(())
    });
    let made = job.events("checkpoint_complete").len();
    job.wait_for("checkpoint_complete", made + 2);
    let mut now = cluster.ranks_of(PROGRAM);
    now.sort_unstable();
    let mut expected = others;
    expected.sort_unstable();
    assert_eq!(now, expected, "the old coordinator's return changed the job");
    assert_eq!(job.events("inherited").len(), 1);
    job.ends_right();
    cluster.down();
}

#[test]
fn a_coordinator_that_is_cut_off_is_followed_by_an_heir_and_by_pcmctl() {
    cuts_the_coordinator(Network::cut, Network::mend);
}

#[test]
fn a_coordinator_that_is_cut_off_from_the_nodes_alone_lets_pcmctl_find_the_heir() {
    cuts_the_coordinator(Network::part, Network::join);
}

#[test]
fn a_job_goes_on_without_its_terminal_on_a_node_that_is_cut_off_and_the_terminal_finds_it_again() {
    let Some(cluster) = cluster() else { return };
    let job = Crashing::start_at(&cluster, "n0", &["--checkpoint-every", "0.3"], LONG);
    job.wait_for("checkpoint_complete", 2);
    assert_eq!(job.coordinator(), "n0", "the daemon beside the terminal");
    let network = cluster.network().expect("the test's own");
    network.cut("n0");
    // The heir writes the output itself when it has waited long enough for the terminal.
    let files = cluster.dir().join("jobs").join(job.number().to_string());
    wait::until("the job to go on without the terminal", LIMIT, || {
        files.join("stdout").exists().then_some(())
    });
    assert!(job.coordinator() != "n0");
    let made = job.events("checkpoint_complete").len();
    job.wait_for("checkpoint_complete", made + 2);
    assert_eq!(cluster.ranks_of(PROGRAM).len(), 4);
    network.mend("n0");
    let outcome = job.ends_right();
    let said = &outcome.stderr;
    assert!(said.contains("does not reach most of the cluster"), "{said}");
    assert!(said.contains("went on without this terminal"), "{said}");
    cluster.down();
}

#[test]
fn of_two_equal_halves_only_the_one_with_the_first_node_goes_on() {
    let Some(cluster) = cluster() else { return };
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], LENGTH);
    job.wait_for("checkpoint_complete", 2);
    let before = job.ranks();
    let network = cluster.network().expect("the test's own");
    // The data of each node is kept on the next one, too.
    let half = ["n0", "n2"];
    network.split(&half);
    let ranks_of = |nodes: [&str; 2]| nodes.map(|node| ranks_on(&cluster, node)).concat();
    let others = || ranks_of(["n1", "n3"]);
    let halves = wait::until("the job to run on the half of the first node", LIMIT, || {
        let mut first = ranks_of(half);
        first.retain(|pid| !before.contains(pid));
        (first.len() == 4 && others().is_empty()).then_some(first)
    });
    // An heir in the other half would have opened its will by the time that the first half has made checkpoints again.
    let made = job.events("checkpoint_complete").len();
    job.wait_for("checkpoint_complete", made + 5);
    assert!(others().is_empty(), "the job runs twice");
    network.unite(&half);
    wait::until("the halves to be one cluster", LIMIT, || {
        let is_back = |node| cluster.node_state(node) == "up";
        (is_back("n1") && is_back("n3")).then_some(())
    });
    let (mut now, mut expected) = (cluster.ranks_of(PROGRAM), halves);
    now.sort_unstable();
    expected.sort_unstable();
    assert_eq!(now, expected, "the other half's return changed the job");
    assert_eq!(job.events("inherited").len(), 0);
    job.ends_right();
    cluster.down();
}
