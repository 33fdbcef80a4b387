//! A program with a fault of its own: where it crashes in the same place again and again its job ends and says so;
//! where it does not, or others are to blame, it is started again, later each time.

use std::{fs, time::Duration};
use tests::{
    binaries::built,
    cluster::Cluster,
    limited::{self, Outcome},
};

/// Three starts, and the pauses between them.
const LIMIT: Duration = Duration::from_secs(90);

/// Crashes at iteration 300, as often as said.
fn run(cluster: &Cluster, times: u32, options: &[&str]) -> Outcome {
    let count = cluster.files().join("count");
    let options = [
        &["run", "-n", "3", "--name", "faulty", "--checkpoint-every", "0.2"],
        options,
        &["--"],
    ]
    .concat();
    let mut command = cluster.pcmctl(&options);
    command
        .arg(built("pcm-faulty"))
        .args(["600", "300", &times.to_string()])
        .arg(&count);
    let outcome = limited::run(&mut command, LIMIT);
    let starts = fs::read_to_string(&count).unwrap_or_default();
    eprintln!("came to its fault {} times", starts.trim());
    outcome
}

fn events(cluster: &Cluster, kind: &str) -> Vec<serde_json::Value> {
    cluster.events(Some("faulty"), kind)
}

#[test]
fn a_program_that_crashes_in_the_same_place_each_time_ends_and_is_told_so() {
    let cluster = Cluster::that_crashes(2);
    let outcome = run(&cluster, u32::MAX, &[]);
    assert_eq!(outcome.status.code(), Some(139), "{outcome:?}");
    let told = &outcome.stderr;
    assert!(
        told.contains("crashed 3 times without getting beyond iteration"),
        "{told}"
    );
    assert!(told.contains("restart 2 from the checkpoint at iteration"), "{told}");
    assert!(outcome.stdout.is_empty(), "{outcome:?}");
    let restarts: Vec<u64> = events(&cluster, "recovered")
        .iter()
        .filter_map(|event| event["from"].as_u64())
        .collect();
    assert!(
        restarts.len() == 2 && restarts.iter().all(|from| (1..=300).contains(from)),
        "{restarts:?}"
    );
    cluster.down();
}

#[test]
fn a_program_that_gets_over_its_fault_runs_to_its_end() {
    let cluster = Cluster::that_crashes(2);
    let outcome = run(&cluster, 2, &[]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "faulty: 600 iterations\n");
    cluster.down();
}

#[test]
fn a_crash_more_than_a_job_may_be_started_again_is_its_end() {
    let cluster = Cluster::that_crashes(2);
    let outcome = run(&cluster, u32::MAX, &["--max-restarts", "1"]);
    assert_eq!(outcome.status.code(), Some(139), "{outcome:?}");
    assert!(
        outcome.stderr.contains("the job was started again 1 times"),
        "{outcome:?}"
    );
    cluster.down();
}
