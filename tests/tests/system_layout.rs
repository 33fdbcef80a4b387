//! Reconfigurations through real daemons, with ranks that have neither data nor MPI: what the daemons, the keepers and
//! `pcmctl` do about them.

use rustix::process::Signal;
use std::time::{Duration, Instant};
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    processes, wait,
};

const RANK: &str = env!("CARGO_BIN_EXE_stand_in_rank");

fn job(cluster: &Cluster, ranks: &str, iterations: &str) -> Background {
    let arguments = ["run", "-n", ranks, "--label", "--", RANK, iterations, "2000"];
    let job = Background::start(&mut cluster.pcmctl(&arguments));
    wait::until("every rank to iterate", LIMIT, || {
        let status = cluster.run(&["ps", "1", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
        let rows = document["ranks"].as_array()?;
        let all = !rows.is_empty() && rows.iter().all(|row| row["iteration"].as_u64() > Some(0));
        all.then_some(())
    });
    job
}

fn nodes_of_ranks(cluster: &Cluster) -> Vec<String> {
    let ps = cluster.json(&["ps", "1"]);
    let rows = ps["ranks"].as_array().expect("rows").iter();
    rows.map(|row| row["node"].as_str().expect("a node").to_owned())
        .collect()
}

fn change(cluster: &Cluster, arguments: &[&str]) -> serde_json::Value {
    cluster.json(arguments)
}

#[test]
fn a_rank_moves_to_another_node_and_the_job_goes_on_to_its_end() {
    let cluster = Cluster::up(4);
    let job = job(&cluster, "2", "2000");
    let before = nodes_of_ranks(&cluster);
    let done = change(&cluster, &["migrate", "1", "--rank", "1", "--to", "n3"]);
    assert_eq!(
        (done["plan"].as_str(), done["ranks_after"].as_u64()),
        (Some("migrate"), Some(2)),
        "{done}"
    );
    let after = nodes_of_ranks(&cluster);
    assert_eq!(after, [before[0].as_str(), "n3"]);
    assert_eq!(cluster.json(&["ps", "1"])["epoch"], 1);
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(
        outcome.stdout.contains("leaves at") && outcome.stdout.contains("takes up rank 1"),
        "{outcome:?}"
    );
    cluster.down();
}

#[test]
fn a_job_grows_and_shrinks_through_every_size_and_back() {
    let cluster = Cluster::up(4);
    let job = job(&cluster, "1", "4000");
    for (verb, size) in [
        ("expand", 2),
        ("expand", 6),
        ("shrink", 3),
        ("expand", 8),
        ("shrink", 1),
        ("expand", 2),
    ] {
        let done = change(&cluster, &[verb, "1", "--to", &size.to_string()]);
        assert_eq!(done["ranks_after"].as_u64(), Some(size), "{done}");
        assert_eq!(nodes_of_ranks(&cluster).len() as u64, size);
    }
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}

#[test]
fn the_first_node_is_emptied_although_it_coordinates() {
    let cluster = Cluster::up(3);
    let job = job(&cluster, "3", "3000");
    let outcome = cluster.run(&["drain", "n0"]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(!nodes_of_ranks(&cluster).contains(&"n0".to_owned()));
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}

#[test]
fn what_makes_no_layout_is_refused_and_changes_nothing() {
    let cluster = Cluster::up(2);
    let job = job(&cluster, "2", "2000");
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
    drop(job);
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

#[test]
fn a_daemon_killed_in_the_middle_leaves_the_job_in_one_layout_or_the_other() {
    let cluster = Cluster::up(3);
    let job = job(&cluster, "3", "8000");
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
            let living = ps["ranks"]
                .as_array()?
                .iter()
                .filter(|row| row["pid"].as_u64() > Some(0));
            (ps["state"] == "running" && living.count() == 3).then_some(())
        });
    }
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}
