//! How ranks wait inside MPI: the results are the same in every manner, and a polite one leaves its CPU.

use std::time::Duration;
use tests::{
    background::Background, binaries::built, cluster::Cluster, heat2d::Closing, limited, processes::cpu_ticks, wait,
};

const LIMIT: Duration = Duration::from_secs(120);

fn checksum(cluster: &Cluster, manner: &[&str]) -> String {
    let mut command = cluster.pcmctl(&["run", "-n", "4"]);
    command.args(manner).arg("--").arg(built("heat2d-c-plain"));
    command.args(["--rows", "61", "--cols", "83", "--iterations", "200"]);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{manner:?}: {outcome:?}");
    Closing::read(&outcome.stdout).checksum
}

#[test]
fn the_manner_of_waiting_changes_no_result() {
    let cluster = Cluster::up(2);
    let expected = tests::heat2d::reference_checksum(61, 83, 200);
    for manner in [
        &[][..],
        &["--wait", "spin"],
        &["--wait", "adaptive"],
        &["--wait", "sleep"],
    ] {
        assert_eq!(checksum(&cluster, manner), expected, "{manner:?}");
    }
    cluster.down();
}

/// Seconds of CPU time that the first of two ranks used while it waited this long for a message.
fn cpu_while_waiting(manner: &str, waited: Duration) -> f64 {
    let cluster = Cluster::up(1);
    let milliseconds = waited.as_millis().to_string();
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--wait", manner, "--"]);
    command.arg(built("pcm-trial")).args(["recv", &milliseconds]);
    let running = Background::start(&mut command);
    let receiver = wait::until("the receiver waits", LIMIT, || {
        let outcome = cluster.run(&["ps", "1", "--json"]);
        let ps: serde_json::Value = serde_json::from_str(&outcome.stdout).ok()?;
        let first = ps["ranks"].as_array()?.iter().find(|row| row["rank"] == 0)?;
        let pid = (first["call"] == "Recv").then(|| first["pid"].as_u64())??;
        u32::try_from(pid).ok()
    });
    let began = cpu_ticks(receiver);
    let mut used = 0;
    wait::until("the message comes", LIMIT, || match cpu_ticks(receiver) {
        Some(now) => {
            used = now - began.unwrap_or(now);
            None
        }
        None => Some(()),
    });
    let outcome = running.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
    used as f64 / 100.0
}

#[test]
fn a_rank_that_sleeps_while_it_waits_leaves_its_cpu() {
    let waited = Duration::from_secs(4);
    let used = cpu_while_waiting("sleep", waited);
    assert!(used < 0.2 * waited.as_secs_f64(), "{used} s of CPU time in {waited:?}");
}

#[test]
fn a_manner_that_does_not_exist_is_refused_with_those_that_do() {
    let cluster = Cluster::up(1);
    let outcome = cluster.run(&["run", "--wait", "patiently", "--", "true"]);
    assert_eq!(outcome.status.code(), Some(2), "{outcome:?}");
    for manner in ["spin", "adaptive", "sleep"] {
        assert!(outcome.stderr.contains(manner), "{outcome:?}");
    }
    cluster.down();
}
