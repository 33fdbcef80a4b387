//! Standbys, played by a shell that speaks for libpcm: it says that it waits, and goes on when it is called.

use crate::node::{Node, await_that, is_alive, key};
use pcm_daemon::keeper_link::FromKeeper;
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessSpec, Standby};
use std::time::Duration;

const WAITS: &str = "printf waits >&231; head -c 1 <&231 >/dev/null; echo called as $0";

fn spec(node: &Node, process: u32, script: &str) -> ProcessSpec {
    node.spec(key(1, process), "/bin/bash", &["-c", script])
}

/// Asks for so many and hears which there are.
async fn ask(node: &Node, count: u32, spec: &ProcessSpec) -> Vec<Standby> {
    let spec = Box::new(spec.clone());
    let order = DaemonToKeeper::Standbys { count, spec };
    node.link.send(&order).await.unwrap();
    match node.hear().await {
        FromKeeper::StandbysHeld { job, standbys } => {
            assert_eq!(job, JobId(1));
            standbys
        }
        other => panic!("{other:?} instead of standbys"),
    }
}

/// Asks until so many wait; their process numbers.
async fn ready(node: &Node, count: u32, spec: &ProcessSpec) -> Vec<u32> {
    for _ in 0..1000 {
        let standbys = ask(node, count, spec).await;
        if standbys.len() == count as usize && standbys.iter().all(|one| one.is_ready) {
            return standbys.iter().map(|one| one.pid).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no {count} standbys are ready");
}

fn living(pid: u32) -> bool {
    is_alive(pid.cast_signed())
}

#[tokio::test]
async fn a_start_of_the_same_program_takes_one_that_waits_and_no_other_does() {
    let (node, _) = Node::boot().await;
    let of_pool = spec(&node, u32::MAX, WAITS);
    let waiting = ready(&node, 2, &of_pool).await;
    let other = node.start(spec(&node, 0, "echo another program")).await;
    assert!(!waiting.contains(&other.pid));
    assert_eq!(node.hear_exit().await, (key(1, 0), ExitStatus::Code(0)));
    let taken = node.start(spec(&node, 7, WAITS)).await;
    assert!(waiting.contains(&taken.pid), "{} of {waiting:?}", taken.pid);
    let (pid, stdout) = (taken.pid, taken.ends.stdout);
    let read = move || std::io::read_to_string(std::fs::File::from(stdout)).unwrap();
    let said = tokio::task::spawn_blocking(read).await.unwrap();
    assert!(said.starts_with("called as"), "{said}");
    assert_eq!(node.hear_exit().await, (key(1, 7), ExitStatus::Code(0)));
    node.end_job(1).await;
    let left: Vec<u32> = waiting.into_iter().filter(|other| *other != pid).collect();
    assert!(left.iter().all(|pid| living(*pid)), "the job may come back to the node");
    node.link
        .send(&DaemonToKeeper::EndStandbys { job: JobId(1) })
        .await
        .unwrap();
    await_that("the end of the standby", || left.iter().all(|pid| !living(*pid)));
    node.quit().await;
}

#[tokio::test]
async fn fewer_are_kept_when_fewer_are_asked_for_and_none_of_a_program_that_is_another_now() {
    let (node, _) = Node::boot().await;
    let before = ready(&node, 3, &spec(&node, 0, WAITS)).await;
    let left = ready(&node, 1, &spec(&node, 0, WAITS)).await;
    assert_eq!(left, before[..1]);
    await_that("the end of the others", || before[1..].iter().all(|pid| !living(*pid)));
    let next = ready(&node, 1, &spec(&node, 0, &format!("{WAITS}; true"))).await;
    assert_ne!(next, left);
    await_that("the end of the one before", || !living(left[0]));
    assert_eq!(ask(&node, 0, &spec(&node, 0, WAITS)).await, []);
    await_that("the end of the last", || !living(next[0]));
    node.quit().await;
}

#[tokio::test]
async fn a_program_that_does_not_wait_is_not_started_again_and_again() {
    let (node, _) = Node::boot().await;
    let program = spec(&node, 0, "echo $$ >> began; exit 3");
    let began = || std::fs::read_to_string(node.directory.path().join("began")).unwrap_or_default();
    for _ in 0..100 {
        ask(&node, 1, &program).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(ask(&node, 1, &program).await, []);
    assert_eq!(began().lines().count(), 3);
    node.quit().await;
}

#[tokio::test]
async fn standbys_end_with_their_keeper() {
    let (node, _) = Node::boot().await;
    let waiting = ready(&node, 2, &spec(&node, 0, WAITS)).await;
    node.quit().await;
    assert!(waiting.iter().all(|pid| !living(*pid)), "{waiting:?}");
}
