//! Relaunches of heat2d: real ranks park their arrays and values, the new set takes them up over MPI and goes on, and
//! the plate ends with the same bits.

use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use tests::{
    asked,
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, reference_checksum},
    limited::Outcome,
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
    assert_eq!(expect_bits(job, iterations), ranks);
}

/// Waits for the end of a job, which must be the right one; the number of ranks it ended with.
fn expect_bits(job: Background, iterations: u64) -> u32 {
    let outcome = job.end(LIMIT + Duration::from_secs(60));
    assert!(outcome.status.success(), "{outcome:?}");
    let closing = Closing::read(&outcome.stdout);
    assert_eq!(
        closing.checksum,
        reference_checksum(ROWS, COLUMNS, iterations),
        "{outcome:?}"
    );
    closing.ranks
}

#[test]
fn heat2d_is_relaunched_by_every_verb_across_nodes_and_ends_with_the_same_bits() {
    let cluster = Cluster::up(3);
    let iterations = 3000;
    let job = program(&cluster, "2", iterations, 2000);
    for (arguments, plan, size) in [
        (vec!["migrate", "1", "--rank", "1", "--to", "n2"], "migrate", 2),
        (vec!["expand", "1", "--to", "4"], "expand", 4),
        (vec!["rebalance", "1", "--shares", "2,1,1,1"], "rebalance", 4),
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

/// `PCM_RECONFIGURATIONS=1100` does it with the limits that MPICH needs, which takes some ten minutes; every run does
/// it with low ones.
#[test]
fn a_job_outlives_more_reconfigurations_than_mpi_can_meet_worlds() {
    let asked = asked::number("PCM_RECONFIGURATIONS");
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
    assert!(processes::send(newcomer, Signal::STOP));
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

#[test]
fn a_daemon_killed_while_data_is_parked_finds_it_with_its_keeper() {
    let cluster = Cluster::up(3);
    let iterations = 4000;
    let job = program(&cluster, "3", iterations, 2000);
    for (round, node) in ["n1", "n2", "n0"].into_iter().enumerate() {
        let asked = Background::start(&mut cluster.pcmctl(&[
            "expand",
            "1",
            "--to",
            &(4 + round).to_string(),
            "--mode",
            "relaunch",
        ]));
        let daemon = cluster.daemon_pid(node);
        wait::until("data to be parked", LIMIT, || {
            (parked::images(daemon) > 0).then_some(())
        });
        processes::send(daemon, Signal::KILL);
        let _ = asked.end(LIMIT);
        wait::until("one layout with every rank alive", LIMIT, || {
            // A daemon that is being started again answers a moment later.
            let ps = cluster.run(&["ps", "1", "--json"]);
            let ps: Value = serde_json::from_str(&ps.stdout).ok()?;
            let rows = ps["ranks"].as_array()?;
            let all = rows
                .iter()
                .all(|row| row["pid"].as_u64() > Some(0) && row["iteration"].as_u64() > Some(0));
            (ps["state"] == "running" && rows.len() >= 3 && all).then_some(())
        });
    }
    // Which of the three changes were carried out depends on the moment of each kill.
    expect_bits(job, iterations);
    cluster.down();
}

#[test]
fn a_daemon_killed_while_its_ranks_are_restored_gives_them_their_data_when_it_is_back() {
    let cluster = Cluster::up(3);
    let iterations = 3000;
    let job = program(&cluster, "3", iterations, 2000);
    let daemon = cluster.daemon_pid("n1");
    let asked = Background::start(&mut cluster.pcmctl(&["expand", "1", "--to", "6", "--mode", "relaunch", "--json"]));
    wait::until("a restored rank of the node", LIMIT, || {
        let restored = processes::with_variable("PCM_ROLE", "restored");
        let here = restored
            .into_iter()
            .any(|pid| processes::parent(pid) == processes::parent(daemon));
        here.then_some(())
    });
    processes::send(daemon, Signal::KILL);
    let outcome = asked.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    parked::expect_none(&cluster, &["n0", "n1", "n2"]);
    expect_same_bits(job, iterations, 6);
    cluster.down();
}

#[test]
fn a_node_is_drained_of_a_running_job() {
    let cluster = Cluster::up(3);
    let iterations = 2500;
    let job = program(&cluster, "3", iterations, 2000);
    let outcome = cluster.run(&["drain", "n1"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let ps = cluster.json(&["ps", "1"]);
    let rows = ps["ranks"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["node"] != "n1"), "{ps}");
    let events = cluster.run(&["events", "1", "--json"]);
    let moved: Vec<Value> = events
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["kind"] == "reconfigured")
        .collect();
    assert_eq!(moved.len(), 1, "{events:?}");
    for field in [
        "time",
        "job",
        "epoch",
        "plan",
        "cause",
        "ranks_before",
        "ranks_after",
        "moved",
        "bytes_moved",
        "bytes_ahead",
        "pause_ms",
        "total_ms",
        "phases_ms",
        "mode",
    ] {
        assert!(!moved[0][field].is_null(), "{field}: {}", moved[0]);
    }
    assert!(moved[0]["cause"].as_str().expect("a cause").contains("drain"));
    expect_same_bits(job, iterations, 3);
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

/// Two ranks grow to three by a relaunch whose new ranks take three seconds to start and then do `next`; an old rank is
/// killed meanwhile. The answer to `expand`, and the job.
fn with_an_old_rank_killed_while_new_ones_start(
    cluster: &Cluster,
    next: &str,
    iterations: u64,
) -> (Outcome, Background) {
    let marks = cluster.files().display().to_string();
    let program = built("heat2d").display().to_string();
    let script = format!(
        "mkdir '{marks}'/first-$PMI_RANK 2>/dev/null || {{ touch '{marks}'/again; sleep 3; {next}; }}; exec {program} \
         --rows {ROWS} --cols {COLUMNS} --iterations {iterations} --sleep-us 2000"
    );
    let job = Background::start(&mut cluster.pcmctl(&["run", "-n", "2", "--", "sh", "-c", &script]));
    cluster.wait_until_ranks_iterate();
    let ranks = cluster.json(&["ps", "1"])["ranks"].clone();
    let old = ranks[1]["pid"].as_u64().expect("a process") as u32;
    let change = Background::start(&mut cluster.pcmctl(&["expand", "1", "--to", "3", "--mode", "relaunch"]));
    let again = cluster.files().join("again");
    wait::until("new ranks start", LIMIT, || again.exists().then_some(()));
    assert!(processes::send(old, Signal::KILL));
    let answer = change.end(LIMIT);
    (answer, job)
}

#[test]
fn an_old_rank_killed_after_its_data_was_parked_costs_nothing() {
    let iterations = 3000;
    let cluster = Cluster::up(3);
    let (answer, job) = with_an_old_rank_killed_while_new_ones_start(&cluster, "true", iterations);
    assert!(answer.status.success(), "{answer:?}");
    expect_same_bits(job, iterations, 3);
    parked::expect_none(&cluster, &["n0", "n1", "n2"]);
    cluster.down();
}

#[test]
fn an_old_rank_killed_before_the_new_ones_failed_is_the_end_of_a_job_without_a_checkpoint() {
    let cluster = Cluster::up(3);
    let (answer, job) = with_an_old_rank_killed_while_new_ones_start(&cluster, "exit 9", 30_000);
    assert!(!answer.status.success(), "{answer:?}");
    let outcome = job.end(LIMIT);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot go on without"), "{outcome:?}");
    cluster.down();
}
