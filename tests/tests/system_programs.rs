//! Several programs in one job: each rank keeps its own through moves, crashes and restarts from files.

use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    processes, wait,
};

const JOB: &str = "1";

/// The heat equation under names that the environment of each rank shows: one rank, then two.
fn words(iterations: &str) -> Vec<String> {
    let program = |name: &str| {
        let heat2d = built("heat2d-c");
        let plate = format!("--rows 64 --cols 64 --iterations {iterations} --sleep-us 1000");
        format!("env NAME={name} {} {plate}", heat2d.display())
    };
    let line = format!("-- {} : -n 2 {}", program("ocean"), program("ice"));
    line.split(' ').map(str::to_owned).collect()
}

fn ranks(cluster: &Cluster, job: &str) -> Vec<Value> {
    cluster.json(&["ps", job])["ranks"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn names(cluster: &Cluster, job: &str) -> Vec<String> {
    let name = |rank: Value| {
        let environ = fs::read(format!("/proc/{}/environ", rank["pid"])).unwrap_or_default();
        let mut variables = environ.split(|byte| *byte == 0);
        let name = variables.find_map(|variable| variable.strip_prefix(b"NAME="));
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    };
    ranks(cluster, job).into_iter().map(name).collect()
}

/// Waits until all ranks iterate, each with its program.
fn assert_each_runs_its_own(cluster: &Cluster, job: &str) {
    cluster.wait_until_ranks_of_iterate(job);
    assert_eq!(names(cluster, job), ["ocean", "ice", "ice"], "{}", cluster.logs());
}

#[test]
fn each_rank_keeps_its_program() {
    let cluster = Cluster::that_crashes(3);
    let mut line = cluster.pcmctl(&["run", "-n", "1", "--checkpoint-every", "0.3"]);
    let running = Background::start(line.args(words("1000000")));
    assert_each_runs_its_own(&cluster, JOB);

    let away = |rank: &Value| if rank["node"] == "n2" { "n0" } else { "n2" };
    for (rank, mode) in [("0", "live"), ("2", "live"), ("1", "relaunch")] {
        let to = away(&ranks(&cluster, JOB)[rank.parse::<usize>().expect("a number")]);
        let moved = cluster.json(&["migrate", JOB, "--rank", rank, "--to", to, "--mode", mode]);
        assert_eq!(moved["mode"], mode, "{moved}");
        assert_each_runs_its_own(&cluster, JOB);
    }

    for change in [["expand", "4"], ["shrink", "2"]] {
        let refused = cluster.run(&[change[0], JOB, "--to", change[1]]);
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        assert!(refused.stderr.contains("[bad_layout]"), "{refused:?}");
    }

    wait::until("a checkpoint", LIMIT, || {
        (!cluster.events(Some(JOB), "checkpoint_complete").is_empty()).then_some(())
    });
    let pid = ranks(&cluster, JOB)[1]["pid"].as_u64().expect("a number");
    assert!(processes::send(u32::try_from(pid).expect("a process id"), Signal::KILL));
    wait::until("the restart", LIMIT, || {
        (!cluster.events(Some(JOB), "recovered").is_empty()).then_some(())
    });
    assert_each_runs_its_own(&cluster, JOB);

    let folder = cluster.files().join("kept");
    let kept = folder.to_str().expect("UTF-8");
    let made = cluster.run(&["checkpoint", JOB, "--dir", kept]);
    assert!(made.status.success(), "{made:?}");
    assert!(cluster.run(&["kill", JOB]).status.success());
    running.end(LIMIT);

    let refused = cluster.run(&["restart", "--newest", kept, "-n", "2"]);
    assert!(refused.stderr.contains("keeps its 3 ranks"), "{refused:?}");
    let started = cluster.run(&["restart", "--newest", kept, "--detach"]);
    assert!(started.status.success(), "{started:?}");
    assert!(
        started.stderr.contains("\"NAME=ocean\"") && started.stderr.contains(" : -n 2 "),
        "{started:?}"
    );
    assert_each_runs_its_own(&cluster, "2");
    assert!(cluster.run(&["kill", "2"]).status.success());
    cluster.down();
}

#[test]
fn what_is_no_program_of_several_is_refused() {
    let cluster = Cluster::up(1);
    for (words, said) in [
        (
            &["-n", "2", "--max", "4", "--", "true", ":", "-n", "1", "true"][..],
            "leave --min and --max out",
        ),
        (&["--", "true", ":", "-n", "none", "true"], "': -n none'"),
        (&["--", "true", ":", "-n", "2"], "after ': -n N'"),
    ] {
        let refused = cluster.run(&[&["run"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let shown = cluster.run(&["run", "--label", "--", "echo", "a", ":", "-n", "2", "echo", "b"]);
    let mut lines: Vec<&str> = shown.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] a", "[1] b", "[2] b"], "{shown:?}");
    let one = cluster.run(&["run", "--", "echo", "a", ":", "b"]);
    assert_eq!(one.stdout, "a : b\n", "{one:?}");
    cluster.down();
}
