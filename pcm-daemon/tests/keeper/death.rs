//! Who dies, who lives on, and what is left, when the daemon, the keeper or a rank is killed.

use crate::node::{Node, PATIENCE, await_that, is_alive, key, kill};
use crate::world::{Job, command, run};
use pcm_proto::ids::ProcessId;
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus};
use std::process::Command;
use std::time::Duration;

/// A rank that starts a child in a session of its own, and a grandchild that loses its parent; prints their numbers.
const FAMILY: &str = "setsid sleep 1000 & echo $!; (sleep 1000 & echo $!; exec true) ; echo; wait";

fn numbers(handed: &pcm_daemon::keeper_link::Handed) -> Vec<i32> {
    let mut text = String::new();
    while !text.contains("\n\n") {
        let mut bytes = [0; 256];
        let length = rustix::io::read(&handed.ends.stdout, &mut bytes[..]).unwrap();
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[tokio::test]
async fn what_a_rank_started_ends_with_its_job_and_not_before() {
    let (node, _) = Node::boot().await;
    let living = node.start(node.spec(key(1, 0), "/bin/sh", &["-c", FAMILY])).await;
    let mut strays = numbers(&living);
    let script = FAMILY.replace("wait", "exit 0");
    let gone = node.start(node.spec(key(1, 1), "/bin/sh", &["-c", &script])).await;
    strays.extend(numbers(&gone));
    assert_eq!(node.hear_exit().await, (key(1, 1), ExitStatus::Code(0)));
    let bystander = node.start(node.spec(key(2, 0), "/bin/sh", &["-c", FAMILY])).await;
    let others = numbers(&bystander);
    assert_eq!(strays.len(), 4);
    assert!(strays.iter().all(|pid| is_alive(*pid)));
    let (killed, _) = node.end_job(1).await;
    assert!(
        killed >= 3,
        "one rank and the strays outside its group, {killed} killed"
    );
    assert!(!strays.iter().any(|pid| is_alive(*pid)));
    assert!(
        others.iter().all(|pid| is_alive(*pid)),
        "another job's processes are not touched"
    );
    node.quit().await;
    await_that("the end of the other job", || !others.iter().any(|pid| is_alive(*pid)));
}

/// Becomes a program for which the ends of children are ignored, as `busybox nc` starts programs after its first one,
/// and whoever else does not want to wait for its children. Not every shell does so.
fn ignoring(program: &str, argument: &str) -> Command {
    let mut command = Command::new("bash");
    let script = "trap '' CHLD; exec \"$@\"";
    command.args(["-c", script, "bash", program]);
    command.args((!argument.is_empty()).then_some(argument));
    command
}

#[tokio::test]
async fn a_node_that_is_booted_by_what_ignores_the_ends_of_children_hears_of_its_own() {
    let status = ignoring("cat", "/proc/self/status").output().unwrap().stdout;
    let status = String::from_utf8(status).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    assert_ne!(ignored & (1 << (libc::SIGCHLD - 1)), 0, "{status}");
    let (node, _) = Node::boot_by(ignoring(env!("CARGO_BIN_EXE_pcm-daemon"), "")).await;
    node.start(node.spec(key(1, 0), "/bin/sh", &["-c", "exit 7"])).await;
    assert_eq!(node.hear_exit().await, (key(1, 0), ExitStatus::Code(7)));
    node.quit().await;
}

#[tokio::test]
async fn a_stray_that_hides_its_environment_ends_with_its_rank() {
    let (node, _) = Node::boot().await;
    let script = "env -i setsid sleep 1000 & echo $!; echo; wait";
    let rank = node.start(node.spec(key(1, 0), "/bin/sh", &["-c", script])).await;
    let stray = numbers(&rank)[0];
    await_that("a process without environment", || {
        std::fs::read(format!("/proc/{stray}/environ")).is_ok_and(|environment| environment.is_empty())
    });
    node.end_job(1).await;
    assert!(!is_alive(stray));
    node.quit().await;
}

#[tokio::test]
async fn a_killed_daemon_is_followed_by_one_that_finds_its_ranks_and_the_world_goes_on() {
    let (mut node, _) = Node::boot().await;
    let mut job = Job::new(1);
    job.world_start(&node, &[command(4, &["input"])], false).await;
    let mut restarts = 0;
    // Once before anything is answered, once in between, once after MPI_Init.
    for stop in [0, 10, 4] {
        if stop == 4 {
            job.serve(&node, |job| job.outcome.lines.len() == stop).await;
        } else {
            let mut events = 0;
            job.serve(&node, |_| {
                events += 1;
                events > stop
            })
            .await;
        }
        kill(node.daemon);
        job.lose_descriptors();
        restarts += 1;
        let welcome = node.succeed().await;
        assert_eq!((welcome.restarts, welcome.held.len()), (restarts, 4));
        job.restore(&node, welcome.held).await;
    }
    let stdin = job.ranks.get_mut(&ProcessId(0)).unwrap();
    stdin.stdin().unwrap().send(b"good morning\n".to_vec()).await.unwrap();
    job.serve(&node, |_| false).await;
    assert_eq!(
        job.outcome
            .lines
            .iter()
            .filter(|line| line.ends_with("heard good morning"))
            .count(),
        4
    );
    assert!(job.outcome.codes.values().all(|status| *status == ExitStatus::Code(0)));
    assert_eq!(node.end_job(1).await, (0, 0));
    node.quit().await;
}

#[tokio::test]
async fn an_end_that_no_daemon_heard_is_told_to_the_next_one_until_it_is_forgotten() {
    let (mut node, _) = Node::boot().await;
    node.start(node.spec(key(1, 0), "/bin/sh", &["-c", "read x < /dev/zero; exit 5"]))
        .await;
    let rank = node.start(node.spec(key(1, 1), "/bin/sleep", &["1000"])).await;
    kill(node.daemon);
    kill(rank.pid.cast_signed());
    let welcome = node.succeed().await;
    assert_eq!(welcome.held.len(), 2);
    let heard = match welcome.held.iter().find(|held| held.key == key(1, 1)).unwrap().ended {
        Some(status) => status,
        None => node.hear_exit().await.1,
    };
    assert_eq!(heard, ExitStatus::Signal(libc::SIGKILL));
    node.link
        .send(&DaemonToKeeper::Forget { key: key(1, 1) })
        .await
        .unwrap();
    node.end_job(1).await;
    kill(node.daemon);
    assert!(node.succeed().await.held.is_empty());
    node.quit().await;
}

#[tokio::test]
async fn a_daemon_that_cannot_be_kept_alive_ends_the_ranks_and_the_keeper() {
    let (mut node, _) = Node::boot().await;
    let rank = node.start(node.spec(key(1, 0), "/bin/sh", &["-c", FAMILY])).await;
    let strays = numbers(&rank);
    node.refuse_daemons();
    kill(node.daemon);
    node.daemon_end(false);
    await_that("the end of the keeper", || !is_alive(node.keeper));
    assert!(!is_alive(rank.pid.cast_signed()) && !strays.iter().any(|pid| is_alive(*pid)));
    assert!(node.log().contains("cannot be kept alive"), "{}", node.log());
}

#[tokio::test]
async fn a_daemon_that_asks_not_to_be_started_again_is_the_end_of_the_keeper() {
    let (mut node, _) = Node::boot().await;
    node.daemon_end(true);
    await_that("the end of the keeper", || !is_alive(node.keeper));
    assert_eq!(node.log().matches("started again").count(), 1, "{}", node.log());
}

#[tokio::test]
async fn a_killed_keeper_takes_its_ranks_along_and_the_daemon_hears_it() {
    let (node, _) = Node::boot().await;
    let rank = node.start(node.spec(key(1, 0), "/bin/sh", &["-c", FAMILY])).await;
    let strays = numbers(&rank);
    kill(node.keeper);
    let heard = tokio::time::timeout(PATIENCE, node.link.receive())
        .await
        .expect("the end of the socket");
    assert!(heard.unwrap().is_none());
    await_that("the end of the rank", || !is_alive(rank.pid.cast_signed()));
    assert!(
        strays.iter().any(|pid| is_alive(*pid)),
        "what the rank started has no such tie"
    );
    let swept = pcm_daemon::keeper::sweep(&node.cluster_id, &node.name, &[]);
    assert!(swept.killed >= 1);
    await_that("the end of the strays", || !strays.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn a_keeper_that_is_asked_to_end_by_a_signal_leaves_nothing() {
    let (node, _) = Node::boot().await;
    let rank = node.start(node.spec(key(1, 0), "/bin/sh", &["-c", FAMILY])).await;
    let strays = numbers(&rank);
    let keeper = rustix::process::Pid::from_raw(node.keeper).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::TERM).unwrap();
    await_that("the end of the keeper", || !is_alive(node.keeper));
    assert!(!strays.iter().any(|pid| is_alive(*pid)));
    assert!(!is_alive(node.daemon), "a daemon that does not go by itself is killed");
}

#[tokio::test]
async fn an_abort_carries_its_code_and_ends_all_ranks() {
    let (node, _) = Node::boot().await;
    let outcome = run(&node, 1, 3, &["abort"]).await;
    assert_eq!(outcome.aborted, Some(42));
    assert_eq!(outcome.codes.len(), 3);
    assert!(
        outcome
            .codes
            .values()
            .any(|status| *status == ExitStatus::Signal(libc::SIGKILL))
    );
    node.quit().await;
}

#[tokio::test]
async fn output_that_nobody_takes_holds_the_rank_back_and_is_not_lost() {
    let (node, _) = Node::boot().await;
    let lines = 40_000;
    let script = format!("i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); done");
    let handed = node.start(node.spec(key(1, 0), "/bin/sh", &["-c", &script])).await;
    let (output, mut receiver) = tokio::sync::mpsc::channel(1);
    let (events, _events) = tokio::sync::mpsc::channel(16);
    let mut rank = pcm_daemon::rank::RankHandle::attach(handed, events).unwrap();
    rank.read_output(&output);
    let early = tokio::time::timeout(Duration::from_millis(300), node.link.receive()).await;
    assert!(early.is_err(), "a rank that is held back does not end");
    let mut text = Vec::new();
    let mut ends = 0;
    while ends < 2 {
        match tokio::time::timeout(PATIENCE, receiver.recv()).await.unwrap().unwrap() {
            pcm_daemon::rank::Output::Lines { bytes, .. } => text.extend(bytes),
            pcm_daemon::rank::Output::End { .. } => ends += 1,
        }
    }
    assert_eq!(text.split(|byte| *byte == b'\n').count(), lines + 1);
    drop(rank);
    node.quit().await;
}
