//! What a rank is started with, what a failed start says, and what a start costs.

use crate::node::{Node, await_that, is_alive, key};
use pcm_daemon::keeper_link::{FromKeeper, Handed};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessSpec};
use pcm_proto::refusal;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// What a process prints until it ends.
async fn printed(handed: Handed) -> String {
    let read = move || std::io::read_to_string(std::fs::File::from(handed.ends.stdout)).unwrap();
    tokio::task::spawn_blocking(read).await.unwrap()
}

async fn shell(node: &Node, script: &str, change: impl FnOnce(&mut ProcessSpec)) -> String {
    let mut spec = node.spec(key(1, 0), "/bin/sh", &["-c", script]);
    change(&mut spec);
    let text = printed(node.start(spec).await).await;
    let (key, status) = node.hear_exit().await;
    assert_eq!(status, ExitStatus::Code(0), "{text}");
    node.link.send(&DaemonToKeeper::Forget { key }).await.unwrap();
    text
}

#[tokio::test]
async fn a_rank_has_exactly_its_own_descriptors() {
    let (node, _) = Node::boot().await;
    let other = node.start(node.spec(key(2, 0), "/bin/sleep", &["1000"])).await;
    let list = node.start(node.spec(key(1, 0), "/bin/ls", &["/proc/self/fd"])).await;
    let mut numbers: Vec<u32> = printed(list)
        .await
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    // 3 is the folder that `ls` itself opened.
    assert_eq!(numbers, [0, 1, 2, 3, 230, 231, 232]);
    drop(other);
    node.quit().await;
}

#[tokio::test]
async fn a_rank_gets_its_environment_its_directory_and_its_arguments_byte_for_byte() {
    let (node, _) = Node::boot().await;
    let text = shell(
        &node,
        r#"printf '%s|' "$PWD" "$ODD" "$PMI_FD" "$PCM_CHANNEL_FD" "$PCM_PAGE_FD" "$0" "$1""#,
        |spec| {
            spec.env.push((b"ODD".to_vec(), b"a \"b\"\n=c\\".to_vec()));
            spec.args.extend([b"zero".to_vec(), b"one two".to_vec()]);
        },
    )
    .await;
    let directory = node.directory.path().display();
    assert_eq!(text, format!("{directory}|a \"b\"\n=c\\|230|231|232|zero|one two|"));
    node.quit().await;
}

#[tokio::test]
async fn an_environment_larger_than_a_packet_arrives_whole() {
    let (node, _) = Node::boot().await;
    let large = vec![b'x'; 100_000];
    let text = shell(&node, "printf %s \"$A$B$C\" | wc -c", |spec| {
        for name in ["A", "B", "C"] {
            spec.env.push((name.as_bytes().to_vec(), large.clone()));
        }
    })
    .await;
    assert_eq!(text.trim(), "300000");
    node.quit().await;
}

#[tokio::test]
async fn a_rank_starts_with_default_signals_its_own_group_and_the_usual_limits() {
    let (node, _) = Node::boot().await;
    let status = printed(
        node.start(node.spec(key(2, 0), "/bin/cat", &["/proc/self/status"]))
            .await,
    )
    .await;
    node.hear_exit().await;
    let mask = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
    };
    // The C library keeps signals 32 and 33 to itself and does not let anybody set them.
    assert_eq!((mask("SigBlk"), mask("SigIgn") & !0x1_8000_0000), (0, 0));
    let text = shell(&node, "ulimit -Sn; cut -d' ' -f1,5 /proc/$$/stat", |_| {}).await;
    let lines: Vec<&str> = text.lines().collect();
    let usual = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap();
    assert_eq!(lines[0], usual.to_string());
    let (pid, group) = lines[1].split_once(' ').unwrap();
    assert_eq!(pid, group);
    node.quit().await;
}

#[tokio::test]
async fn a_rank_is_bound_to_the_cpus_it_was_given() {
    let (node, _) = Node::boot().await;
    let text = shell(&node, "grep Cpus_allowed_list /proc/$$/status", |spec| {
        spec.cpus = vec![0]
    })
    .await;
    assert_eq!(text.split_whitespace().last(), Some("0"));
    node.quit().await;
}

#[tokio::test]
async fn a_start_that_fails_says_at_which_step_and_why() {
    let (node, _) = Node::boot().await;
    std::fs::write(node.directory.path().join("plain"), "no program").unwrap();
    let plain = node.directory.path().join("plain").display().to_string();
    let cases: BTreeMap<&str, (ProcessSpec, &str, &str)> = [
        (
            "missing",
            (
                node.spec(key(1, 0), "/no/such", &[]),
                refusal::UNKNOWN_PROGRAM,
                "no program",
            ),
        ),
        (
            "not executable",
            (node.spec(key(1, 0), &plain, &[]), refusal::NOT_EXECUTABLE, "chmod"),
        ),
        ("no such CPU", {
            let spec = node.spec(key(1, 0), "/bin/true", &[]);
            (
                ProcessSpec {
                    cpus: vec![1000],
                    ..spec
                },
                refusal::START_FAILED,
                "binding it to its CPUs",
            )
        }),
        ("no such directory", {
            let spec = node.spec(key(1, 0), "/bin/true", &[]);
            (
                ProcessSpec {
                    cwd: "/no/such".into(),
                    ..spec
                },
                refusal::BAD_DIRECTORY,
                "working directory",
            )
        }),
    ]
    .into();
    for (case, (spec, expected, step)) in cases {
        node.order_start(spec).await;
        match node.hear().await {
            FromKeeper::StartRefused { code, reason, .. } => {
                assert_eq!(code, expected, "{case}: {reason}");
                assert!(reason.contains(step), "{case}: {reason}");
            }
            other => panic!("{case}: {other:?}"),
        }
    }
    assert_eq!(node.end_job(1).await, (0, 0));
    node.quit().await;
}

#[tokio::test]
async fn a_second_order_for_the_same_process_starts_nothing() {
    let (node, _) = Node::boot().await;
    let first = node.start(node.spec(key(1, 0), "/bin/sleep", &["1000"])).await;
    let second = node.start(node.spec(key(1, 0), "/bin/sleep", &["1000"])).await;
    assert_eq!(first.pid, second.pid);
    assert_eq!(node.end_job(1).await.0, 1);
    node.quit().await;
}

#[tokio::test]
async fn an_end_by_code_and_an_end_by_signal_are_told_apart() {
    let (node, _) = Node::boot().await;
    node.start(node.spec(key(1, 0), "/bin/sh", &["-c", "exit 7"])).await;
    assert_eq!(node.hear_exit().await, (key(1, 0), ExitStatus::Code(7)));
    let sleeper = node.start(node.spec(key(1, 1), "/bin/sleep", &["1000"])).await;
    node.link
        .send(&DaemonToKeeper::Signal {
            key: key(1, 1),
            signal: libc::SIGTERM,
        })
        .await
        .unwrap();
    assert_eq!(node.hear_exit().await, (key(1, 1), ExitStatus::Signal(libc::SIGTERM)));
    await_that("the end of a process", || !is_alive(sleeper.pid.cast_signed()));
    node.quit().await;
}

#[tokio::test]
async fn standard_input_ends_when_both_ends_are_closed() {
    let (node, _) = Node::boot().await;
    let spec = ProcessSpec {
        stdin: true,
        ..node.spec(key(1, 0), "/bin/cat", &[])
    };
    let mut handed = node.start(spec).await;
    let input = handed.ends.stdin.take().unwrap();
    rustix::io::write(&input, b"in and out\n").unwrap();
    drop(input);
    node.link
        .send(&DaemonToKeeper::CloseStdin { key: key(1, 0) })
        .await
        .unwrap();
    assert_eq!(printed(handed).await, "in and out\n");
    assert_eq!(node.hear_exit().await, (key(1, 0), ExitStatus::Code(0)));
    node.quit().await;
}

/// From the order to the loaded program, the way through both sockets and this test's own runtime included, beside
/// what the system needs to start the same program from here. The best of many, because other programs run on the
/// machine.
#[tokio::test]
async fn a_start_costs_little_more_than_the_program_itself() {
    let (node, _) = Node::boot().await;
    let (mut ours, mut plain) = (Duration::MAX, Duration::MAX);
    for process in 0..200 {
        let spec = node.spec(key(1, process), "/bin/true", &[]);
        let began = Instant::now();
        node.start(spec).await;
        ours = ours.min(began.elapsed());
        let (key, _) = node.hear_exit().await;
        node.link.send(&DaemonToKeeper::Forget { key }).await.unwrap();
        let began = Instant::now();
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        plain = plain.min(began.elapsed());
        child.wait().unwrap();
    }
    println!("order to loaded program: {ours:?}; started from here: {plain:?}");
    assert!(ours < 8 * plain, "{ours:?} against {plain:?}");
    node.quit().await;
}

#[test]
fn help_and_version_are_printed_and_anything_else_is_refused() {
    let run = |args: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_pcm-daemon"))
            .args(args)
            .output()
            .unwrap()
    };
    assert!(
        String::from_utf8(run(&["--help"]).stdout)
            .unwrap()
            .contains("pcmctl up")
    );
    assert!(
        String::from_utf8(run(&["--version"]).stdout)
            .unwrap()
            .starts_with("pcm-daemon ")
    );
    assert_eq!(run(&["fly"]).status.into_raw() >> 8, 2);
}

#[test]
fn a_sweep_ends_what_carries_the_clusters_id_and_nothing_else() {
    let id = format!("sweep-daemon-{}", std::process::id());
    let sleeper = |id: &str| {
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("60").env("PCM_CLUSTER_ID", id).spawn().unwrap()
    };
    let (mut theirs, mut other) = (sleeper(&id), sleeper("sweep-daemon-other"));
    let reaper = std::thread::spawn(move || theirs.wait().unwrap());
    let swept = std::process::Command::new(env!("CARGO_BIN_EXE_pcm-daemon"))
        .args(["sweep", &id])
        .output()
        .unwrap();
    let is_alive = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(swept.status.success(), "{swept:?}");
    assert_eq!(reaper.join().unwrap().into_raw(), 9);
    assert!(is_alive);
}

#[test]
fn a_keeper_without_a_specification_says_who_starts_it() {
    let daemon = std::process::Command::new(env!("CARGO_BIN_EXE_pcm-daemon"))
        .output()
        .unwrap();
    assert_eq!(daemon.status.code(), Some(78));
    assert!(String::from_utf8(daemon.stderr).unwrap().contains("pcmctl up"));
}
