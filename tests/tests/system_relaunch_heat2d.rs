//! Relaunches of heat2d: real ranks park their arrays and values, the new set takes them up over MPI and goes on, and the
//! plate ends with the same bits.

use serde_json::Value;
use std::time::Duration;
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, reference_checksum},
    parked, processes, wait,
};

const ROWS: usize = 203;
const COLUMNS: usize = 150;

fn program(cluster: &Cluster, ranks: &str, iterations: u64, sleep_us: u64) -> Background {
    sized_program(cluster, ranks, (ROWS, COLUMNS), iterations, sleep_us)
}

fn sized_program(
    cluster: &Cluster,
    ranks: &str,
    (rows, columns): (usize, usize),
    iterations: u64,
    sleep_us: u64,
) -> Background {
    let heat2d = built("heat2d");
    let numbers = [
        rows.to_string(),
        columns.to_string(),
        iterations.to_string(),
        sleep_us.to_string(),
    ];
    let program = heat2d.to_str().expect("a path in UTF-8");
    let arguments = [
        "run",
        "-n",
        ranks,
        "--",
        program,
        "--rows",
        &numbers[0],
        "--cols",
        &numbers[1],
        "--iterations",
        &numbers[2],
        "--sleep-us",
        &numbers[3],
    ];
    let job = Background::start(&mut cluster.pcmctl(&arguments));
    cluster.wait_until_ranks_iterate();
    job
}

fn expect_same_bits(job: Background, iterations: u64, ranks: u32) {
    let outcome = job.end(LIMIT + Duration::from_secs(60));
    assert!(outcome.status.success(), "{outcome:?}");
    let closing = Closing::read(&outcome.stdout);
    assert_eq!(
        (closing.ranks, closing.checksum),
        (ranks, reference_checksum(ROWS, COLUMNS, iterations)),
        "{outcome:?}"
    );
}

#[test]
fn heat2d_is_relaunched_by_every_verb_across_nodes_and_ends_with_the_same_bits() {
    let cluster = Cluster::up(3);
    let iterations = 3000;
    let job = program(&cluster, "2", iterations, 2000);
    for (arguments, plan, size) in [
        (vec!["migrate", "1", "--rank", "1", "--to", "n2"], "migrate", 2),
        (vec!["expand", "1", "--to", "4"], "expand", 4),
        (vec!["rebalance", "1"], "rebalance", 4),
        (vec!["shrink", "1", "--to", "3"], "shrink", 3),
    ] {
        let done = cluster.json(&[&arguments[..], &["--mode", "relaunch"]].concat());
        assert_eq!(
            (done["plan"].as_str(), done["ranks_after"].as_u64()),
            (Some(plan), Some(size)),
            "{done}"
        );
        assert_eq!(done["mode"], "relaunch", "{done}");
        parked::expect_none(&cluster, &["n0", "n1", "n2"]);
        cluster.wait_until_ranks_iterate();
    }
    expect_same_bits(job, iterations, 3);
    cluster.down();
}

#[test]
fn live_reconfigurations_and_relaunches_follow_each_other_as_the_count_of_worlds_wants() {
    let mut cluster = Cluster::place();
    let up = cluster.boot_with(&["--local", "3"], &[("PCM_LIMITS", "worlds_met_max=4")]);
    assert!(up.status.success(), "{up:?}");
    let iterations = 4000;
    let job = program(&cluster, "2", iterations, 2000);
    let mut modes = Vec::new();
    for round in 0..8 {
        let (rank, to) = ((round % 2).to_string(), format!("n{}", (round + 2) % 3));
        let done = cluster.json(&["migrate", "1", "--rank", &rank, "--to", &to]);
        modes.push(done["mode"].as_str().expect("a mode").to_owned());
        cluster.wait_until_ranks_iterate();
    }
    for mode in ["live", "relaunch"] {
        assert!(modes.iter().any(|other| other == mode), "{modes:?}");
    }
    expect_same_bits(job, iterations, 2);
    cluster.down();
}

/// `PCM_RECONFIGURATIONS=1100` does it with the limits that MPICH needs, which takes some ten minutes; every run does it with
/// low ones.
#[test]
fn a_job_outlives_more_reconfigurations_than_mpi_can_meet_worlds() {
    let asked: Option<u64> = std::env::var("PCM_RECONFIGURATIONS")
        .ok()
        .map(|text| text.parse().expect("a number"));
    let (rounds, limits) = asked.map_or((30, "worlds_met_max=10"), |rounds| (rounds, ""));
    let mut cluster = Cluster::place();
    let up = cluster.boot_with(&["--local", "3"], &[("PCM_LIMITS", limits)]);
    assert!(up.status.success(), "{up:?}");
    // Long enough for the rounds on a quiet machine; on a loaded one both take longer.
    let iterations = rounds * 60;
    let job = sized_program(&cluster, "2", (24, 16), iterations, 10_000);
    let (mut done_so_far, mut relaunched) = (0, 0);
    for round in 0..rounds {
        let to = format!("n{}", round % 3);
        let outcome = cluster.run(&[
            "migrate",
            "1",
            "--rank",
            &(round % 2).to_string(),
            "--to",
            &to,
            "--json",
        ]);
        if outcome.stderr.contains("[bad_layout]") {
            // It is there already.
            continue;
        }
        assert!(outcome.status.success(), "round {round}: {outcome:?}");
        let done: Value = serde_json::from_str(&outcome.stdout).expect("one document");
        done_so_far += 1;
        relaunched += u64::from(done["mode"] == "relaunch");
        cluster.wait_until_ranks_iterate();
    }
    println!("{done_so_far} reconfigurations, {relaunched} of them by relaunch");
    assert!(relaunched >= rounds / if asked.is_some() { 1000 } else { 15 });
    let outcome = job.end(LIMIT * 30);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(
        Closing::read(&outcome.stdout).checksum,
        reference_checksum(24, 16, iterations)
    );
    cluster.down();
}

#[test]
fn a_rank_that_does_not_come_to_the_meeting_costs_a_relaunch_and_no_data() {
    let mut cluster = Cluster::place();
    let up = cluster.boot_with(&["--local", "3"], &[("PCM_LIMITS", "meet_max=1500,settle_max=500")]);
    assert!(up.status.success(), "{up:?}");
    let iterations = 600;
    let job = program(&cluster, "2", iterations, 20_000);
    let before: Vec<u32> = processes_of_job(&cluster);
    let asked = Background::start(&mut cluster.pcmctl(&["migrate", "1", "--rank", "0", "--to", "n2", "--json"]));
    // Initialised, and the ranks are on their way to the ceiling: they will wait for the newcomer in MPI.
    wait::until("the ranks to converge", LIMIT, || {
        log(&cluster).contains("phase=\"converging\"").then_some(())
    });
    let newcomers = newcomers(&cluster, &before);
    let [newcomer] = newcomers[..] else {
        panic!("one newcomer is wanted: {newcomers:?}");
    };
    assert!(processes::send(newcomer, rustix::process::Signal::STOP));
    let outcome = asked.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let done: Value = serde_json::from_str(&outcome.stdout).expect("one document");
    assert_eq!(
        (done["plan"].as_str(), done["mode"].as_str()),
        (Some("migrate"), Some("relaunch")),
        "{done}"
    );
    let salvaged = log(&cluster).contains("its data is salvaged");
    assert!(salvaged, "the rank of n0 waits in MPI for longer than it may");
    expect_same_bits(job, iterations, 2);
    cluster.down();
}

fn processes_of_job(cluster: &Cluster) -> Vec<u32> {
    let all = processes::with_variable("PCM_CLUSTER_ID", cluster.id());
    all.into_iter()
        .filter(|pid| processes::command_line(*pid).contains("heat2d --rows"))
        .collect()
}

/// What the daemon of the job's coordinator says.
fn log(cluster: &Cluster) -> String {
    std::fs::read_to_string(cluster.dir().join("nodes/n0/daemon.log")).unwrap_or_default()
}

/// Processes of the job that were not there before.
fn newcomers(cluster: &Cluster, before: &[u32]) -> Vec<u32> {
    let mut all = processes_of_job(cluster);
    all.retain(|pid| !before.contains(pid) && processes::is_alive(*pid));
    all
}
