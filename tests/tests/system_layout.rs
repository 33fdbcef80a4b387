//! Layouts through real daemons: what `pcmctl` refuses, what the daemons do when nodes are emptied or daemons die.

use rustix::process::Signal;
use std::time::{Duration, Instant};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    malleable::Malleable,
    processes, wait,
};

const PROGRAM: &str = "heat2d-c";

#[test]
fn a_job_grows_and_shrinks_through_every_size_and_back() {
    let cluster = Cluster::up(4);
    let job = Malleable::start(&cluster, PROGRAM, 1, 5000, 500);
    for size in [2, 6, 3, 8, 1, 2] {
        job.resize(size);
        assert_eq!(job.nodes().len(), size);
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn ranks_that_stay_are_on_two_nodes_and_the_answer_says_why() {
    let cluster = Cluster::up(4);
    let job = Malleable::start(&cluster, PROGRAM, 5, 5000, 500);
    let outcome = cluster.run(&["shrink", "1", "--to", "2"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let nodes = job.nodes();
    assert!(nodes.len() == 2 && nodes[0] != nodes[1], "{nodes:?}");
    let explained = cluster.run(&["explain", "1"]);
    for told in [&outcome.stdout, &explained.stdout] {
        let is_named = |node: &String| told.contains(&format!("1 rank on {node} ("));
        assert!(
            nodes.iter().all(is_named) && told.contains("CPUs free"),
            "{nodes:?}: {told}"
        );
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn the_first_node_is_emptied_although_it_coordinates() {
    let cluster = Cluster::up(3);
    let job = Malleable::start(&cluster, PROGRAM, 3, 3000, 500);
    let outcome = cluster.run(&["drain", "n0"]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(!job.nodes().contains(&"n0".to_owned()));
    let explained = cluster.run(&["explain", "1"]).stdout;
    let placements: Vec<&str> = explained.lines().filter(|line| line.contains("Ranks: ")).collect();
    let [start, drain] = placements[..] else {
        panic!("{explained}");
    };
    assert!(
        start.contains("1 rank on n0 (") && start.contains("CPUs free"),
        "{explained}"
    );
    assert!(
        drain.contains("1 rank on n") && !drain.contains(" on n0 ("),
        "{explained}"
    );
    job.ends_right();
    cluster.down();
}

#[test]
fn nodes_get_as_many_ranks_each_as_were_asked_for() {
    let cluster = Cluster::up(3);
    let job = Malleable::start_on(&cluster, PROGRAM, 3, &["--ppn", "2", "--policy", "none"]);
    assert_eq!(job.nodes(), ["n0", "n0", "n1"]);
    job.resize(6);
    let mut grown = job.nodes();
    grown.sort();
    assert_eq!(grown, ["n0", "n0", "n1", "n1", "n2", "n2"]);
    let grown = cluster.run(&["expand", "1", "--to", "7"]);
    let started = cluster.run(&["run", "-n", "7", "--ppn", "2", "--", "true"]);
    for refused in [grown, started] {
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        assert!(
            refused.stderr.contains("with 2 ranks on a node the 3 nodes"),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("[bad_size]"), "{refused:?}");
    }
    job.kill();
    cluster.down();
}

#[test]
fn what_makes_no_layout_is_refused_and_changes_nothing() {
    let cluster = Cluster::up(2);
    let job = Malleable::start(&cluster, PROGRAM, 2, 1_000_000, 1000);
    for (arguments, code) in [
        (vec!["migrate", "1", "--rank", "7", "--to", "n0"], "[bad_layout]"),
        (vec!["migrate", "1", "--rank", "0", "--to", "n9"], "[unknown_node]"),
        (vec!["expand", "1", "--to", "2"], "[bad_layout]"),
        (vec!["shrink", "1", "--to", "0"], "[bad_layout]"),
        (vec!["migrate", "1", "--rank", "0", "--to", "n0"], "[bad_layout]"),
        (vec!["shrink", "9", "--to", "1"], "[unknown_job]"),
    ] {
        let outcome = cluster.run(&arguments);
        assert!(outcome.stderr.contains(code), "{arguments:?}: {outcome:?}");
    }
    assert_eq!(cluster.json(&["ps", "1"])["epoch"], 0);
    job.kill();
    cluster.down();
}

#[test]
fn a_program_that_counts_no_iterations_is_not_started_a_second_time() {
    let cluster = Cluster::up(2);
    let mut job = Background::start(&mut cluster.pcmctl(&["run", "-n", "2", "--", "sleep", "60"]));
    wait::until("the job to run", LIMIT, || {
        (cluster.json(&["jobs"])[0]["state"] == "running").then_some(())
    });
    let begun = Instant::now();
    let outcome = cluster.run(&["expand", "1", "--to", "3"]);
    assert!(outcome.stderr.contains("[not_supported]"), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    job.signal(Signal::TERM);
    job.close_input();
    job.end(LIMIT);
    cluster.down();
}

/// The command that was typed next finds ranks that have not begun their loop.
#[test]
fn a_change_right_after_the_start_of_a_job_waits_for_its_ranks() {
    let cluster = Cluster::up(2);
    for round in 1..=5 {
        let mut command = cluster.pcmctl(&["run", "-n", "2", "--detach", "--"]);
        command.arg(built(PROGRAM)).args(["--rows", "64", "--cols", "64"]);
        command.args(["--iterations", "20000", "--sleep-us", "500"]);
        let started = command.output().expect("pcmctl");
        assert!(started.status.success(), "{started:?}");
        let job = round.to_string();
        let outcome = cluster.run(&["expand", &job, "--to", "3"]);
        assert!(outcome.status.success(), "{outcome:?}");
        assert!(cluster.run(&["kill", &job]).status.success());
    }
    cluster.down();
}

/// Of two nodes that a job may use one is drained, then the other: nothing can leave that one.
#[test]
fn a_drain_without_a_deadline_ends_no_job_that_has_no_other_node() {
    let cluster = Cluster::up(3);
    let job = Malleable::start_on(&cluster, PROGRAM, 2, &["--nodes", "n0,n1"]);
    let outcome = cluster.run(&["drain", "n0"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let outcome = cluster.run(&["drain", "n1"]);
    assert_eq!(outcome.status.code(), Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("job 1 does not leave it"), "{outcome:?}");
    assert_eq!(job.nodes(), ["n1", "n1"]);
    job.ends_right();
    cluster.down();
}

#[test]
fn a_daemon_killed_in_the_middle_leaves_the_job_in_one_layout_or_the_other() {
    let cluster = Cluster::up(3);
    let job = Malleable::start(&cluster, PROGRAM, 3, 20_000, 500);
    for (round, node) in ["n0", "n1", "n2", "n0", "n1"].into_iter().enumerate() {
        let rank = (round % 3).to_string();
        let to = format!("n{}", (round + 1) % 3);
        let asked = Background::start(&mut cluster.pcmctl(&["migrate", "1", "--rank", &rank, "--to", &to]));
        // Somewhere in the phases, which take a few milliseconds each.
        std::thread::sleep(Duration::from_millis(5 + 17 * round as u64));
        processes::send(cluster.daemon_pid(node), Signal::KILL);
        let _ = asked.end(LIMIT);
        wait::until("a layout with every rank on a living node", LIMIT, || {
            // A daemon that is being started again answers a moment later.
            let ps = cluster.run(&["ps", "1", "--json"]);
            let ps: serde_json::Value = serde_json::from_str(&ps.stdout).ok()?;
            let rows = ps["ranks"].as_array()?.iter();
            let living = rows.filter(|row| row["pid"].as_u64() > Some(0)).count();
            (ps["state"] == "running" && living == 3).then_some(())
        });
    }
    job.ends_right();
    cluster.down();
}
