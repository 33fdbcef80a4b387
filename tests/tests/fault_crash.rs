//! kill -9 of ranks, daemons and whole nodes under a job with checkpoints in memory: it goes on by itself, its result
//! is that of an undisturbed run bit for bit, and nothing is left.

use rustix::process::Signal;
use tests::{
    cluster::{CRASH_PATIENCE, Cluster},
    crashing::{Crashing, kill_node},
    processes,
};

/// Long enough for a few checkpoints and restarts.
const LENGTH: (u64, u32) = (1500, 3000);

const EVERY: [&str; 2] = ["--checkpoint-every", "0.3"];

#[test]
fn a_killed_rank_costs_the_iterations_since_the_last_checkpoint_and_nothing_else() {
    let cluster = Cluster::that_crashes(3);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 2);
    assert!(job.kill_rank(2));
    job.wait_for("recovered", 1);
    let recovered = job.events("recovered").remove(0);
    let crashed = job.events("crashed").remove(0);
    let (from, reached) = (recovered["from"].as_u64(), crashed["reached"].as_u64());
    assert!(from > Some(0) && from <= reached, "{crashed} {recovered}");
    assert_eq!(recovered["ranks"], 4, "{recovered}");
    let placement = recovered["placement"].as_str().unwrap_or_default();
    assert!(
        placement.contains(" on n") && placement.contains("CPUs free"),
        "{recovered}"
    );
    let outcome = job.ends_right();
    let told = &outcome.stderr;
    assert!(told.contains("restart 1 from the checkpoint at iteration"), "{told}");
    assert!(told.contains("what they print is printed again"), "{told}");
    cluster.down();
}

#[test]
fn ranks_killed_one_after_the_other_cost_no_more() {
    let cluster = Cluster::that_crashes(2);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    for (round, rank) in [0, 3, 1].into_iter().enumerate() {
        let made = job.events("checkpoint_complete").len();
        job.wait_for("checkpoint_complete", made + 1);
        assert!(job.kill_rank(rank));
        job.wait_for("recovered", round + 1);
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn a_killed_node_s_ranks_go_on_elsewhere_from_the_copies_of_their_data() {
    let cluster = Cluster::that_crashes(3);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 2);
    kill_node(&cluster, "n2");
    job.wait_for("recovered", 1);
    let reason = job.events("crashed")[0]["reason"].to_string();
    assert!(reason.contains("node n2"), "a neighbour's abort is no cause: {reason}");
    job.ends_right();
    cluster.down();
}

#[test]
fn a_job_whose_coordinator_s_node_is_killed_is_led_by_another() {
    let cluster = Cluster::that_crashes(4);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 2);
    let coordinator = job.coordinator();
    kill_node(&cluster, &coordinator);
    job.wait_for("recovered", 1);
    let inherited = job.events("inherited").remove(0);
    assert_eq!(inherited["from"], coordinator.as_str(), "{inherited}");
    assert!(job.events("recovered")[0]["from"].as_u64() > Some(0));
    // The heir has heirs.
    let made = job.events("checkpoint_complete").len();
    job.wait_for("checkpoint_complete", made + 1);
    let heir = job.coordinator();
    assert_ne!(heir, coordinator);
    kill_node(&cluster, &heir);
    job.wait_for("inherited", 1);
    let outcome = job.ends_right();
    let told = &outcome.stderr;
    assert!(
        told.contains(&format!("node {coordinator}, which coordinated the job")),
        "{told}"
    );
    assert!(told.contains("what they print is printed again"), "{told}");
    cluster.down();
}

#[test]
fn a_first_heir_whose_daemon_is_killed_in_that_moment_leaves_the_job_to_the_second() {
    let cluster = Cluster::that_crashes(4);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 2);
    let lost = job.coordinator();
    let number: usize = lost.trim_start_matches('n').parse().expect("a number");
    let heir = cluster.daemon_pid(&format!("n{}", (number + 1) % 4));
    kill_node(&cluster, &lost);
    assert!(processes::send(heir, Signal::KILL));
    job.ends_right();
    cluster.down();
}

#[test]
fn a_job_without_checkpoints_ends_clearly_with_its_coordinator_s_node() {
    let cluster = Cluster::that_crashes(3);
    let job = Crashing::start(&cluster, &[], LENGTH);
    tests::wait::until("its ranks", tests::cluster::LIMIT, || {
        (job.ranks().len() == 4).then_some(())
    });
    let coordinator = job.coordinator();
    kill_node(&cluster, &coordinator);
    let outcome = job.end();
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    let told = &outcome.stderr;
    assert!(
        told.contains(&format!("node {coordinator}, which coordinated the job")),
        "{told}"
    );
    cluster.down();
}

#[test]
fn a_daemon_that_was_killed_still_has_its_checkpoints() {
    let cluster = Cluster::that_crashes(2);
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 2);
    // n0 coordinates the job.
    for node in ["n1", "n0"] {
        let (daemon, restarted) = (cluster.daemon_pid(node), job.events("recovered").len());
        processes::send(daemon, Signal::KILL);
        tests::wait::until("another daemon", tests::cluster::LIMIT, || {
            let nodes: serde_json::Value = serde_json::from_str(&cluster.run(&["nodes", "--json"]).stdout).ok()?;
            let status = nodes.as_array()?.iter().find(|status| status["name"] == node)?.clone();
            let is_back = status["state"] == "up" && status["daemon_pid"] != daemon && status["daemon_pid"] != 0;
            is_back.then_some(())
        });
        assert!(job.kill_rank(3));
        job.wait_for("recovered", restarted + 1);
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn a_job_is_started_again_as_often_as_it_may_and_says_why_it_ends() {
    let cluster = Cluster::that_crashes(2);
    let options = ["--checkpoint-every", "0.3", "--max-restarts", "1"];
    let job = Crashing::start(&cluster, &options, LENGTH);
    for _ in 0..2 {
        let made = job.events("checkpoint_complete").len();
        job.wait_for("checkpoint_complete", made + 1);
        assert!(job.kill_rank(1));
    }
    let outcome = job.end();
    assert_eq!(outcome.status.code(), Some(137), "{outcome:?}");
    let told = &outcome.stderr;
    assert!(told.contains("the job was started again 1 times"), "{told}");
    cluster.down();
}

/// Milliseconds that pass at least before each of a row of restarts from one checkpoint.
const WAITS_MS: [f64; 4] = [0.0, 500.0, 1000.0, 2000.0];

/// A start that is due is ordered within this time, on a machine that does much else.
const LATE_MS_MAX: f64 = 450.0;

#[test]
fn restarts_from_one_checkpoint_wait_longer_each_time() {
    let cluster = Cluster::up(2);
    let job = Crashing::start(&cluster, &[], LENGTH);
    tests::wait::until("its ranks", tests::cluster::LIMIT, || {
        (job.ranks().len() == 4).then_some(())
    });
    cluster.json(&["checkpoint", tests::crashing::JOB]);
    for count in 1..=WAITS_MS.len() {
        tests::wait::until("a rank to kill", tests::cluster::LIMIT, || {
            job.kill_rank(1).then_some(())
        });
        job.wait_for("recovered", count);
    }
    let (crashed, recovered) = (job.events("crashed"), job.events("recovered"));
    let between = crashed.iter().zip(&recovered).map(|(from, to)| {
        let passed = seconds(to) - seconds(from);
        // The day may end between the two.
        passed.rem_euclid(86_400.0) * 1000.0
    });
    for ((event, between), at_least) in recovered.iter().zip(between).zip(WAITS_MS) {
        let waited = event["phases_ms"]["placed"].as_f64().expect("a time");
        assert!(
            (at_least..at_least + LATE_MS_MAX).contains(&waited) && between >= waited,
            "waited {waited} ms instead of {at_least}, {between} ms from event to event: {crashed:?} {recovered:?}"
        );
    }
    job.ends_right();
    cluster.down();
}

/// The time of day of an event.
fn seconds(event: &serde_json::Value) -> f64 {
    let time = event["time"].as_str().expect("a time");
    let of_day = time.split(['T', 'Z']).nth(1).expect("a time of day");
    of_day
        .split(':')
        .fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().expect("a number"))
}

fn two_sites() -> Cluster {
    let cluster = Cluster::place();
    let hosts = cluster.files().join("hosts");
    let sites = ["east", "east", "west", "west"];
    let lines = (0..)
        .zip(sites)
        .map(|(node, site)| format!("n{node} 127.0.0.1 site={site}\n"));
    std::fs::write(&hosts, lines.collect::<String>()).expect("a file of the test");
    let hosts = hosts.to_str().expect("a path in UTF-8");
    cluster.booted(&["--hosts", hosts], &[CRASH_PATIENCE])
}

/// Kills these nodes of a job that n0 coordinates, and sees that it goes on from a checkpoint. Returns who coordinates
/// it then.
fn goes_on_without(lost: [&str; 2]) -> String {
    let cluster = two_sites();
    let job = Crashing::start(&cluster, &EVERY, LENGTH);
    job.wait_for("checkpoint_complete", 2);
    assert_eq!(job.coordinator(), "n0");
    lost.iter().for_each(|node| kill_node(&cluster, node));
    job.wait_for("recovered", 1);
    assert!(job.events("recovered")[0]["from"].as_u64() > Some(0));
    let coordinator = job.coordinator();
    job.ends_right();
    cluster.down();
    coordinator
}

#[test]
fn a_site_that_is_lost_whole_leaves_its_data_on_the_other() {
    goes_on_without(["n2", "n3"]);
}

#[test]
fn a_site_that_is_lost_with_the_coordinator_leaves_heirs_and_data_on_the_other() {
    let coordinator = goes_on_without(["n0", "n1"]);
    assert!(["n2", "n3"].contains(&coordinator.as_str()));
}

#[test]
fn what_a_node_without_ranks_holds_is_kept_for_an_heir_that_comes_late() {
    // An heir waits twice this long.
    let cluster = Cluster::place().booted(&["--local", "3"], &[("PCM_PATIENCE", "12")]);
    let job = Crashing::start(&cluster, &EVERY, (4000, LENGTH.1));
    job.wait_for("checkpoint_complete", 1);
    assert_eq!(job.coordinator(), "n0");
    let on_n1 = job.ranks_on("n1");
    assert!(!on_n1.is_empty() && on_n1.len() < 4, "{on_n1:?}");
    for rank in on_n1 {
        let moved = cluster.run(&[
            "migrate",
            tests::crashing::JOB,
            "--rank",
            &rank.to_string(),
            "--to",
            "n2",
        ]);
        assert!(moved.status.success(), "{moved:?}");
    }
    let made = job.events("checkpoint_complete").len();
    job.wait_for("checkpoint_complete", made + 2);
    // The data of its ranks is on n1 only now.
    kill_node(&cluster, "n0");
    job.wait_for("recovered", 1);
    assert!(job.events("recovered")[0]["from"].as_u64() > Some(0));
    job.ends_right();
    cluster.down();
}

#[test]
fn without_checkpoints_or_restarts_a_crash_is_the_end() {
    let cluster = Cluster::that_crashes(2);
    for options in [&[][..], &["--checkpoint-every", "0.3", "--max-restarts", "0"]] {
        let job = Crashing::start(&cluster, options, LENGTH);
        cluster.wait_until_ranks_of_iterate(tests::crashing::JOB);
        if !options.is_empty() {
            job.wait_for("checkpoint_complete", 1);
        }
        assert!(job.kill_rank(1));
        let outcome = job.end();
        assert_eq!(outcome.status.code(), Some(137), "{outcome:?}");
        let says_what_helps = outcome.stderr.contains("`pcmctl run --checkpoint-every auto`");
        assert_eq!(says_what_helps, options.is_empty(), "{outcome:?}");
    }
    cluster.down();
}

#[test]
fn a_checkpoint_is_made_when_somebody_asks() {
    let cluster = Cluster::that_crashes(2);
    let job = Crashing::start(&cluster, &[], LENGTH);
    tests::wait::until("its ranks", tests::cluster::LIMIT, || {
        (job.ranks().len() == 4).then_some(())
    });
    let made = cluster.json(&["checkpoint", tests::crashing::JOB]);
    assert_eq!(made["ranks"], 4, "{made}");
    assert!(made["bytes"].as_u64() >= Some(60 * 40 * 8), "{made}");
    assert!(job.kill_rank(0));
    job.wait_for("recovered", 1);
    assert_eq!(job.events("recovered")[0]["from"], made["iteration"]);
    job.ends_right();
    cluster.down();
}

#[test]
fn a_job_that_cannot_leave_a_node_in_time_goes_on_elsewhere_from_a_fresh_checkpoint() {
    let cluster = Cluster::that_crashes(3);
    let job = Crashing::start_with(&cluster, &[], LENGTH, &[("PCM_HOLD", "converging:20000")]);
    tests::wait::until("its ranks", tests::cluster::LIMIT, || {
        (job.ranks().len() == 4).then_some(())
    });
    let drained = cluster.run(&["drain", "n2", "--deadline", "8"]);
    assert!(drained.status.success(), "{drained:?}\n{}", cluster.logs());
    job.wait_for("recovered", 1);
    let told = job.events("crashed").remove(0).to_string();
    assert!(told.contains("node n2 is taken away"), "{told}");
    job.ends_right();
    cluster.down();
}

#[test]
fn a_daemon_that_is_given_notice_brings_its_ranks_elsewhere_and_ends() {
    let cluster = Cluster::that_crashes(3);
    let job = Crashing::start(&cluster, &[], LENGTH);
    tests::wait::until("its ranks", tests::cluster::LIMIT, || {
        (job.ranks().len() == 4).then_some(())
    });
    let elsewhere = ["n0", "n1", "n2"].into_iter().find(|node| *node != job.coordinator());
    let coordinator = job.coordinator();
    // One that runs ranks, by its daemon; then the one that coordinates the job as well, by its keeper.
    for (node, is_keeper) in [(elsewhere.expect("another node"), false), (&coordinator, true)] {
        let daemon = cluster.daemon_pid(node);
        let keeper = processes::parent(daemon);
        processes::send(if is_keeper { keeper } else { daemon }, Signal::TERM);
        tests::wait::until("the end of the node", tests::cluster::LIMIT, || {
            (!processes::is_alive(daemon) && !processes::is_alive(keeper)).then_some(())
        });
    }
    let outcome = job.ends_right();
    assert!(!outcome.stderr.contains("pcm_"), "{outcome:?}");
    cluster.down();
}

#[test]
fn an_interval_that_is_chosen_from_the_cost_protects_too() {
    let cluster = Cluster::that_crashes(2);
    let job = Crashing::start(&cluster, &["--checkpoint-every", "auto"], (4000, 3000));
    job.wait_for("checkpoint_complete", 1);
    assert!(job.kill_rank(1));
    job.wait_for("recovered", 1);
    job.ends_right();
    cluster.down();
}
