//! Relaunches through real daemons and keepers, with ranks that park and restore numbers but have no MPI: who asks,
//! what is parked where, and what is left of it.

use rustix::process::Signal;
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    limited::Outcome,
    parked, processes, wait,
};

const RANK: &str = env!("CARGO_BIN_EXE_stand_in_rank");

fn job(cluster: &Cluster, ranks: &str, arguments: &[&str]) -> Background {
    let arguments = [&["run", "-n", ranks, "--label", "--", RANK], arguments].concat();
    let job = Background::start(&mut cluster.pcmctl(&arguments));
    cluster.wait_until_ranks_iterate();
    job
}

fn places(cluster: &Cluster) -> Vec<String> {
    let ps = cluster.json(&["ps", "1"]);
    let rows = ps["ranks"].as_array().expect("rows").iter();
    rows.map(|row| row["node"].as_str().expect("a node").to_owned())
        .collect()
}

fn expect_nothing_parked(cluster: &Cluster) {
    parked::expect_none(cluster, &["n0", "n1", "n2"]);
}

fn expect_success(outcome: &Outcome, restored: usize) {
    assert!(outcome.status.success(), "{outcome:?}");
    let count = outcome.stdout.matches("is restored as rank").count();
    assert_eq!(count, restored, "{outcome:?}");
}

#[test]
fn each_verb_by_relaunch_ends_with_the_same_numbers_and_leaves_nothing_parked() {
    let cluster = Cluster::up(3);
    let job = job(&cluster, "2", &["3000", "2000"]);
    let mut restored = 0;
    for (arguments, plan, size) in [
        (vec!["migrate", "1", "--rank", "1", "--to", "n2"], "migrate", 2),
        (vec!["expand", "1", "--to", "5"], "expand", 5),
        (vec!["rebalance", "1", "--shares", "2,1,1,1,1"], "rebalance", 5),
        (vec!["shrink", "1", "--to", "3"], "shrink", 3),
    ] {
        let done = cluster.json(&[&arguments[..], &["--mode", "relaunch"]].concat());
        assert_eq!(
            (done["plan"].as_str(), done["ranks_after"].as_u64()),
            (Some(plan), Some(size)),
            "{done}"
        );
        assert_eq!(done["mode"], "relaunch", "{done}");
        assert!(done["bytes_moved"].as_u64() >= Some(300_007 * 8), "{done}");
        assert!(done["total_ms"].as_f64() >= done["pause_ms"].as_f64(), "{done}");
        assert_eq!(places(&cluster).len() as u64, size);
        expect_nothing_parked(&cluster);
        restored += size as usize;
    }
    expect_success(&job.end(LIMIT), restored);
    cluster.down();
}

#[test]
fn a_live_reconfiguration_whose_ranks_hang_becomes_a_relaunch_from_salvaged_data() {
    is_carried_out_although_ranks_hang("auto");
}

#[test]
fn what_was_to_be_done_live_or_not_at_all_is_done_by_the_relaunch_that_saves_ranks_that_hang() {
    is_carried_out_although_ranks_hang("live");
}

fn is_carried_out_although_ranks_hang(mode: &str) {
    let mut cluster = Cluster::place();
    let limits = "meet_max=300,settle_max=300";
    let up = cluster.boot_with(&["--local", "3"], &[("PCM_LIMITS", limits)]);
    assert!(up.status.success(), "{up:?}");
    let job = job(&cluster, "3", &["1500", "2000", "hang"]);
    let done = cluster.json(&["migrate", "1", "--rank", "0", "--to", "n2", "--mode", mode]);
    assert_eq!(
        (done["plan"].as_str(), done["mode"].as_str()),
        (Some("migrate"), Some("relaunch")),
        "{done}"
    );
    assert_eq!(places(&cluster)[0], "n2");
    expect_nothing_parked(&cluster);
    expect_success(&job.end(LIMIT), 3);
    cluster.down();
}

#[test]
fn before_too_many_worlds_are_met_the_job_is_consolidated_into_one() {
    let mut cluster = Cluster::place();
    let up = cluster.boot_with(&["--local", "3"], &[("PCM_LIMITS", "worlds_met_max=6")]);
    assert!(up.status.success(), "{up:?}");
    let job = job(&cluster, "2", &["6000", "1000"]);
    let mut modes = Vec::new();
    for round in 0..20 {
        let to = format!("n{}", (round + 2) % 3);
        let rank = (round % 2).to_string();
        let done = cluster.json(&["migrate", "1", "--rank", &rank, "--to", &to]);
        modes.push(done["mode"].as_str().expect("a mode").to_owned());
    }
    let relaunched = modes.iter().filter(|mode| *mode == "relaunch").count();
    assert!(
        (3..=5).contains(&relaunched),
        "one world of six is new in each round: {modes:?}"
    );
    let refused = cluster.run(&["ps", "1", "--json"]);
    assert!(refused.status.success(), "{refused:?}");
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}

#[test]
fn ranks_that_cannot_take_their_data_up_are_given_up_and_those_before_them_go_on() {
    let cluster = Cluster::up(3);
    let job = job(&cluster, "3", &["3000", "1000", "refuse"]);
    for _ in 0..2 {
        let refused = cluster.run(&["expand", "1", "--to", "4", "--mode", "relaunch"]);
        assert!(refused.stderr.contains("not to its taste"), "{refused:?}");
        assert_eq!(places(&cluster).len(), 3);
        expect_nothing_parked(&cluster);
    }
    expect_success(&job.end(LIMIT), 0);
    expect_nothing_parked(&cluster);
    cluster.down();
}

#[test]
fn a_restored_rank_that_dies_before_it_runs_costs_the_relaunch_and_not_the_job() {
    let cluster = Cluster::up(3);
    let job = job(&cluster, "3", &["3000", "1000", "restores-slowly"]);
    let asked = Background::start(&mut cluster.pcmctl(&["expand", "1", "--to", "4", "--mode", "relaunch"]));
    let keepers: Vec<u32> = ["n0", "n1", "n2"]
        .map(|node| processes::parent(cluster.daemon_pid(node)))
        .into();
    wait::until("a restored rank killed", LIMIT, || {
        let mut restored = processes::with_variable("PCM_ROLE", "restored");
        restored.retain(|pid| keepers.contains(&processes::parent(*pid)));
        restored
            .first()
            .is_some_and(|pid| processes::send(*pid, Signal::KILL))
            .then_some(())
    });
    let answer = asked.end(LIMIT);
    assert!(
        !answer.status.success() && answer.stderr.contains("aborted"),
        "{answer:?}"
    );
    expect_nothing_parked(&cluster);
    expect_success(&job.end(LIMIT), 0);
    cluster.down();
}
