//! Agents that look at the network, on real clusters of nodes with networks and memory of their own: ranks that talk to
//! each other come together, and a job stays within a site.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tests::{
    adapting::{Adapting, wait_until_idle},
    cluster::Cluster,
    network::Network,
    own_share::OwnShare,
    skip,
};

/// Several times as long as a decision takes.
const QUIET: Duration = Duration::from_secs(10);

/// More than twice as long as it takes until the owner of a node counts, and two decisions.
const OWNED: Duration = Duration::from_secs(25);

/// Between two sites, as agents take it to be where nobody tells them: 20 MB/s.
const TRUNK_MBIT: u32 = 160;

/// The nodes of one test are not idle while the other loads the machine.
static ALONE: Mutex<()> = Mutex::new(());

/// Nodes in two sites, in turn.
fn two_sites(nodes: usize, cluster: &Cluster) -> Option<Network> {
    let network = Network::of_sites(nodes, 2, cluster.files());
    let slow = network.filter(|network| network.slow_between_sites(TRUNK_MBIT));
    if slow.is_none() {
        skip::cannot_run("networks of its own with a slow link need root, iproute2 and the kernel's tbf");
    }
    slow
}

#[test]
fn two_pairs_that_are_placed_crosswise_come_together() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::place();
    let Some(network) = two_sites(2, &cluster) else { return };
    let cluster = cluster.booted_in(network, &[], &[]);
    wait_until_idle(&cluster);
    let options = ["-n", "4", "--policy", "ats", "--wait", "adaptive"];
    let job = Adapting::start_program(&cluster, &options, "pcm-changing", &["pairs", "100000000", "10000"]);
    let pairs = |places: &[String]| [places[0] == places[2], places[1] == places[3]];
    let begun = job.places().expect("the ranks are somewhere");
    assert_eq!(pairs(&begun), [false, false], "{begun:?} is not crosswise");
    // All of them on one node may be a step on the way.
    job.wait_until("both pairs on a node each", |places| {
        pairs(places) == [true, true] && places[0] != places[1]
    });
    let decisions = job.events("decision");
    let chosen = decisions.iter().find(|decision| !decision["chosen"].is_null());
    assert_eq!(chosen.expect("what was done was decided")["policy"], "ats");
    job.goes_on();
    job.stays(QUIET);
    job.end();
    cluster.down();
}

#[test]
fn a_job_is_gathered_in_one_site_and_not_spread_when_the_owner_of_a_node_wants_it_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::place();
    let Some(network) = two_sites(4, &cluster) else { return };
    let Some(own) = OwnShare::up_in(network, 4, cluster) else {
        return;
    };
    wait_until_idle(&own.cluster);
    let job = Adapting::start_program(
        &own.cluster,
        &["-n", "2", "--policy", "nts", "--wait", "adaptive"],
        "heat2d-c",
        &["--rows", "400", "--cols", "20000", "--iterations", "100000000"],
    );
    let site = |node: &String| if ["n0", "n2"].contains(&node.as_str()) { 0 } else { 1 };
    let begun = job.places().expect("the ranks are somewhere");
    assert_ne!(site(&begun[0]), site(&begun[1]), "{begun:?} is one site");
    let gathered = job.wait_until("all ranks in one site", |places| site(&places[0]) == site(&places[1]));
    // What came of the change is known then, and another one is affordable.
    job.settles(QUIET);
    // The nodes of the other site are idle, while the neighbour has a rank already.
    let load = own.load(&gathered[0], 3);
    let end = Instant::now() + OWNED;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_secs(1));
        let Some(places) = job.places() else { continue };
        // All of them may go to the other site together.
        let is_together = places.iter().all(|node| site(node) == site(&places[0]));
        assert!(is_together, "{places:?} after {gathered:?}\n{}", job.explained());
    }
    job.goes_on();
    drop(load);
    job.end();
    own.down();
}
