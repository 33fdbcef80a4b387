//! kill -9 of ranks, daemons, keepers and pcmctl: the job ends or goes on as promised, and nothing is left.

use pcm_proto::random::Random;
use rustix::process::Signal;
use std::{
    fs,
    time::{Duration, Instant},
};
use tests::{
    asked,
    cluster::{Cluster, LIMIT},
    limited::Outcome,
    processes, wait,
};

/// From the death of a part of a job to the end of all of it: SIGTERM, half a second, SIGKILL, and a loaded machine.
const ENDED_MAX: Duration = Duration::from_secs(10);

fn code(outcome: &Outcome) -> i32 {
    outcome
        .status
        .code()
        .unwrap_or_else(|| panic!("pcmctl was ended by a signal: {outcome:?}"))
}

#[test]
fn a_killed_rank_ends_the_job_with_its_code_and_a_reason() {
    let cluster = Cluster::that_crashes(2);
    let mut job = cluster.trial_beside(4, &["ring", "60"]);
    job.wait_for("round 50", LIMIT);
    let ranks = cluster.ranks_of("pcm-trial");
    assert_eq!(ranks.len(), 4);
    let begun = Instant::now();
    processes::send(ranks[2], Signal::KILL);
    let outcome = job.end(ENDED_MAX);
    assert_eq!(code(&outcome), 137, "{outcome:?}");
    assert!(
        outcome.stderr.contains("SIGKILL") || outcome.stderr.contains("signal 9"),
        "{outcome:?}"
    );
    assert!(begun.elapsed() < ENDED_MAX);
    assert_eq!(cluster.ranks_of("pcm-trial"), Vec::<u32>::new());
    assert!(cluster.trial(2, &["ring", "0"]).status.success());
    cluster.down();
}

/// As when all processes of a node are killed at once: no other knows the job, and none has it open.
#[test]
fn shared_memory_of_a_node_that_was_killed_goes_with_the_cluster_and_what_is_not_of_mpi_stays() {
    let cluster = Cluster::up(2);
    let [left, other] = ["mpich_shm_1_left", "results_left"]
        .map(|name| cluster.shared_memory().join(format!("{name}_{}", std::process::id())));
    for file in [&left, &other] {
        fs::write(file, "left").expect("a file of the test");
    }
    assert!(cluster.trial(4, &["ring", "0"]).status.success());
    assert!(cluster.run(&["down"]).status.success());
    assert!(!left.exists());
    fs::remove_file(other).expect("it is still there");
    cluster.assert_nothing_left();
}

#[test]
fn a_killed_pcmctl_ends_its_job() {
    let cluster = Cluster::that_crashes(2);
    let mut job = cluster.trial_beside(4, &["ring", "60"]);
    job.wait_for("round 50", LIMIT);
    job.signal(Signal::KILL);
    cluster.wait_until_no_rank_of("pcm-trial", ENDED_MAX);
    drop(job);
    wait::until("the job to be told as ended", ENDED_MAX, || {
        (cluster.json(&["jobs"])[0]["state"] == "ended").then_some(())
    });
    cluster.down();
}

#[test]
fn a_killed_daemon_is_started_again_and_the_job_goes_on_to_its_end() {
    let cluster = Cluster::that_crashes(2);
    // n0 coordinates the job that pcmctl asked it for; n1 only runs ranks of it.
    for node in ["n0", "n1"] {
        let mut job = cluster.trial_beside(4, &["ring", "6"]);
        job.wait_for("round 50", LIMIT);
        let ranks = cluster.ranks_of("pcm-trial");
        let daemon = cluster.daemon_pid(node);
        processes::send(daemon, Signal::KILL);
        wait::until("another daemon", LIMIT, || {
            let outcome = cluster.run(&["nodes", "--json"]);
            let nodes: serde_json::Value = serde_json::from_str(&outcome.stdout).ok()?;
            let status = nodes.as_array()?.iter().find(|status| status["name"] == node)?.clone();
            let is_back = status["state"] == "up" && status["daemon_pid"] != daemon && status["daemon_pid"] != 0;
            is_back.then_some(())
        });
        assert_eq!(
            cluster.ranks_of("pcm-trial"),
            ranks,
            "the ranks go on while {node}'s daemon is away"
        );
        let outcome = job.end(LIMIT);
        assert_eq!(code(&outcome), 0, "{node}: {outcome:?}");
        let rounds: Vec<u32> = outcome
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("round ")?.parse().ok())
            .collect();
        let expected: Vec<u32> = (0..rounds.len() as u32).map(|index| index * 50).collect();
        assert_eq!(rounds, expected, "no line is lost or doubled ({node})");
        assert!(outcome.stdout.ends_with("ring done\n"), "{node}: {outcome:?}");
    }
    let events = cluster.run(&["events", "--json"]).stdout;
    assert!(events.contains("daemon_restarted"), "{events}");
    cluster.down();
}

#[test]
fn a_killed_keeper_ends_its_node_and_the_job_and_leaves_nothing() {
    let cluster = Cluster::that_crashes(2);
    let mut job = cluster.trial_beside(4, &["ring", "60"]);
    job.wait_for("round 50", LIMIT);
    let daemon = cluster.daemon_pid("n1");
    processes::send(processes::parent(daemon), Signal::KILL);
    let outcome = job.end(ENDED_MAX);
    assert_ne!(code(&outcome), 0, "{outcome:?}");
    cluster.wait_until_no_rank_of("pcm-trial", ENDED_MAX);
    cluster.down();
}

#[test]
fn everything_of_a_cluster_can_be_killed_and_down_clears_the_rest() {
    let cluster = Cluster::that_crashes(2);
    let mut job = cluster.trial_beside(4, &["ring", "60"]);
    job.wait_for("round 50", LIMIT);
    for node in ["n0", "n1"] {
        processes::send(cluster.daemon_pid(node), Signal::STOP);
    }
    let outcome = cluster.run(&["down"]);
    assert!(outcome.status.success(), "{outcome:?}");
    drop(job);
    cluster.assert_nothing_left();
}

#[test]
fn a_hundred_runs_in_a_row_leave_nothing() {
    let cluster = Cluster::that_crashes(2);
    let descriptors = |node: &str| processes::file_count(cluster.daemon_pid(node));
    let mut after_ten = 0;
    for number in 0..100 {
        let outcome = cluster.trial(2, &["init"]);
        assert_eq!(code(&outcome), 0, "run {number}: {outcome:?}");
        assert_eq!(outcome.stdout.matches("size 2").count(), 2, "run {number}: {outcome:?}");
        if number == 9 {
            after_ten = descriptors("n0");
        }
    }
    let at_end = descriptors("n0");
    assert!(
        at_end <= after_ten + 2,
        "{after_ten} descriptors after ten runs, {at_end} after a hundred"
    );
    assert_eq!(cluster.ranks_of("pcm-trial"), Vec::<u32>::new());
    cluster.down();
}

/// A failure names its seed and is replayed with `PCM_SEED`.
#[test]
fn twenty_random_kills_of_a_rank_a_daemon_or_pcmctl_neither_hang_nor_leave_anything() {
    let seed = asked::number("PCM_SEED").unwrap_or(u64::from(std::process::id()));
    eprintln!("replay with PCM_SEED={seed}");
    let mut random = Random::new(seed);
    let cluster = Cluster::that_crashes(3);
    for number in 0..20 {
        let mut job = cluster.trial_beside(4, &["ring", "3"]);
        // From before the ranks exist to the middle of the run.
        let moment = Duration::from_millis(random.below(1500));
        let _ = wait::within(moment, || job.stdout().contains("ring done").then_some(()));
        let what = random.below(3);
        let must_fail = match what {
            0 => {
                let ranks = cluster.ranks_of("pcm-trial");
                let chosen = ranks.get(random.index(ranks.len()));
                chosen.is_some_and(|pid| processes::send(*pid, Signal::KILL))
            }
            1 => {
                let node = format!("n{}", random.below(3));
                processes::send(cluster.daemon_pid(&node), Signal::KILL);
                false
            }
            _ => {
                job.signal(Signal::KILL);
                true
            }
        };
        if what == 2 {
            drop(job);
        } else {
            let outcome = job.end(LIMIT);
            assert!(
                !must_fail || code(&outcome) != 0,
                "kill {number} of seed {seed}: {outcome:?}"
            );
        }
        cluster.wait_until_no_rank_of("pcm-trial", ENDED_MAX);
        wait::until("every node to be up", LIMIT, || {
            ["n0", "n1", "n2"]
                .iter()
                .all(|node| cluster.node_state(node) == "up")
                .then_some(())
        });
        job = cluster.trial_beside(3, &["ring", "0"]);
        let outcome = job.end(LIMIT);
        assert_eq!(code(&outcome), 0, "after kill {number} of seed {seed}: {outcome:?}");
    }
    cluster.down();
}
