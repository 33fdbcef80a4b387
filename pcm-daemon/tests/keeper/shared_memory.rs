//! What killed ranks leave in `/dev/shm` is removed, and nothing else.

use crate::node::{Node, await_that, is_alive, kill};
use crate::world::{Job, command, run};
use std::fs;

#[tokio::test]
async fn a_rank_killed_after_its_start_leaves_no_shared_memory() {
    let (node, _) = Node::boot().await;
    let mut job = Job::new(1);
    job.world_start(&node, &[command(2, &["hang"])], false).await;
    job.serve(&node, |job| job.outcome.lines.len() == 2).await;
    assert_eq!(node.segments_left().len(), 1, "MPI has a file of the name we expect");
    let victim = job.ranks.values().next().unwrap().pid().cast_signed();
    kill(victim);
    job.serve(&node, |job| !job.outcome.codes.is_empty()).await;
    assert_eq!(node.segments_left().len(), 1);
    assert_eq!(node.end_job(1).await.1, 1);
    assert!(node.segments_left().is_empty());
    node.quit().await;
}

#[tokio::test]
async fn what_ranks_leave_that_died_with_their_keeper_is_swept_by_the_daemon() {
    let (node, _) = Node::boot().await;
    let mut job = Job::new(1);
    job.world_start(&node, &[command(2, &["hang"])], false).await;
    job.serve(&node, |job| job.outcome.lines.len() == 2).await;
    kill(node.keeper);
    await_that("the end of the ranks", || {
        !job.ranks.values().any(|rank| is_alive(rank.pid().cast_signed()))
    });
    assert_eq!(node.segments_left().len(), 1);
    let swept = pcm_daemon::keeper::sweep(&node.cluster_id, &node.name, &node.segments.borrow());
    assert_eq!((swept.segments, node.segments_left().len()), (1, 0));
}

#[tokio::test]
async fn ranks_killed_at_any_moment_of_their_start_leave_no_shared_memory() {
    let (node, _) = Node::boot().await;
    for steps in 0..24 {
        let mut job = Job::new(steps + 1);
        job.world_start(&node, &[command(2, &["hang"])], false).await;
        let mut served = 0;
        job.serve(&node, |job| {
            served += 1;
            served > steps || job.outcome.lines.len() == 2
        })
        .await;
        for rank in job.ranks.values() {
            kill(rank.pid().cast_signed());
        }
        node.end_job(steps + 1).await;
        assert_eq!(node.segments_left(), Vec::<String>::new(), "after {steps} steps");
    }
    node.quit().await;
}

#[tokio::test]
async fn shared_memory_that_another_process_holds_is_not_removed() {
    let (node, _) = Node::boot().await;
    let path = format!("/dev/shm/ucx_shm_posix_test_{}", std::process::id());
    let mut job = Job::new(1);
    job.world_start(&node, &[command(2, &["hang"])], false).await;
    job.serve(&node, |job| job.outcome.lines.len() == 2).await;
    let held = fs::File::create_new(&path).unwrap();
    kill(job.ranks.values().next().unwrap().pid().cast_signed());
    node.end_job(1).await;
    let is_there = fs::exists(&path).unwrap();
    drop(held);
    fs::remove_file(&path).unwrap();
    assert!(is_there, "a file that somebody has open is somebody's");
    node.quit().await;
}

#[tokio::test]
async fn fifty_jobs_of_four_ranks_leave_no_descriptor_process_or_file() {
    let (node, _) = Node::boot().await;
    let descriptors = |pid: i32| proc_files::file_count(pid.cast_unsigned()).unwrap();
    let children = || proc_files::children(node.keeper.cast_unsigned()).unwrap().len();
    run(&node, 1, 4, &["sum"]).await;
    node.end_job(1).await;
    let before = (
        descriptors(node.keeper),
        descriptors(std::process::id().cast_signed()),
        children(),
    );
    for number in 2..=51 {
        let outcome = run(&node, number, 4, &["sum"]).await;
        assert_eq!(outcome.finalized.len(), 4, "job {number}");
        assert_eq!(node.end_job(number).await, (0, 0), "job {number}");
    }
    await_that("as many children as before", || children() == before.2);
    assert_eq!(descriptors(node.keeper), before.0);
    node.quit().await;
}
