//! The real keeper with real processes: the test plays the daemon.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "all of this is test code")]

mod death;
mod node;
mod open_files;
mod program;
mod relay;
mod shared_memory;
mod spawn;
mod standbys;
mod start;
mod world;

use pcm_daemon::keeper_link::{KeeperLink, LinkError};
use pcm_proto::ids::ProcessId;
use pcm_proto::keeper::ExitStatus;
use std::os::fd::FromRawFd;

/// The keeper under test starts this test binary as its daemon, with the argument `serve`, which is this test's name.
/// Started by hand there is no keeper, and that has to be noticed.
#[test]
#[allow(unsafe_code, reason = "takes over the descriptor that the keeper left")]
fn serve() {
    let (number, test) = (std::env::var("PCM_KEEPER_FD"), std::env::var_os(relay::RELAY));
    if let (Ok(number), Some(test)) = (number, test) {
        // SAFETY: the keeper opened it for this process; nobody else here uses it.
        let socket = unsafe { std::os::fd::OwnedFd::from_raw_fd(number.parse().unwrap()) };
        relay::serve(socket, test.as_ref());
    }
    assert!(matches!(KeeperLink::inherit(), Err(LinkError::NoKeeper)));
}

#[tokio::test]
async fn four_ranks_start_as_one_world_and_end_well() {
    let (node, welcome) = node::Node::boot().await;
    assert_eq!((welcome.restarts, welcome.held.len()), (0, 0));
    let outcome = world::run(&node, 1, 4, &["sum"]).await;
    let mut lines = outcome.lines;
    lines.sort();
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4 sum 6")).collect();
    assert_eq!(lines, expected);
    assert_eq!(
        outcome.codes,
        (0..4)
            .map(|process| (ProcessId(process), ExitStatus::Code(0)))
            .collect()
    );
    assert_eq!(outcome.finalized.len(), 4);
    assert_eq!(node.end_job(1).await, (0, 0));
    node.quit().await;
}

/// Two keepers on one machine whose ranks MPI takes for ranks of different hosts: business cards and barriers pass
/// between the nodes.
#[tokio::test]
async fn one_world_over_two_nodes_exchanges_its_keys_through_barriers() {
    let (here, there) = (node::Node::boot().await.0, node::Node::boot().await.0);
    let (root, child) = world::Tree::pair();
    let (mut first, mut second) = (world::Job::new(1), world::Job::new(1));
    (first.tree, second.tree) = (Some(root), Some(child));
    let part = |ranks| world::Part {
        kvsname: format!("kvs_{}", here.cluster_id),
        size: 4,
        ranks,
        mapping: "(vector,(0,2,2))".to_owned(),
    };
    let commands = [world::command(4, &["sum"])];
    let (lower, upper) = (part(0..2), part(2..4));
    first.part_start(&here, &commands, &lower, false).await;
    second.part_start(&there, &commands, &upper, false).await;
    tokio::join!(first.serve(&here, |_| false), second.serve(&there, |_| false));
    let mut lines = [first.outcome.lines, second.outcome.lines].concat();
    lines.sort();
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4 sum 6")).collect();
    assert_eq!(lines, expected);
    assert_eq!((here.end_job(1).await, there.end_job(1).await), ((0, 0), (0, 0)));
    here.quit().await;
    there.quit().await;
}
