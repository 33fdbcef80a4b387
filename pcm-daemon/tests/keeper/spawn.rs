//! `MPI_Comm_spawn` of an application, served by our process manager.

use crate::node::Node;
use crate::world::{Job, command};
use pcm_proto::keeper::ExitStatus;

#[tokio::test]
async fn an_application_spawns_children_that_know_their_parent_and_their_command() {
    let (node, _) = Node::boot().await;
    let mut job = Job::new(1);
    job.world_start(&node, &[command(1, &["spawn", "2"])], false).await;
    job.serve(&node, |_| false).await;
    let mut lines = job.outcome.lines.clone();
    lines.sort();
    let expected = [
        "child a of command 0 together 4",
        "child a of command 0 together 4",
        "child b of command 1 together 4",
        "spawned 3 together 4",
    ];
    assert_eq!(lines, expected);
    assert!(
        job.outcome.codes.values().all(|status| *status == ExitStatus::Code(0)),
        "{:?}",
        job.outcome
    );
    assert_eq!(node.end_job(1).await, (0, 0));
    node.quit().await;
}
