//! The page at the end of a job: what it says of the use of time is what a trace of the same run says.

use serde_json::Value;
use std::{collections::BTreeMap, fs, process::Command};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    wait,
};

/// What the two ways of measuring may differ by.
const SLACK: f64 = 0.01;

/// Starts the uneven program on three ranks: of the time of the last one the first computes a third, the second two.
fn uneven(cluster: &Cluster, options: &[&str], iterations: u32, sleep_us: u32) -> Command {
    let mut command = cluster.pcmctl(&["run", "-n", "3", "--name", "uneven"]);
    command.args(options).arg("--").arg(built("pcm-uneven"));
    command.args([iterations.to_string(), sleep_us.to_string()]);
    command
}

/// Parts of the time that each rank was outside MPI, from its first iteration in a trace to its last.
fn useful_parts(trace: &Value) -> Vec<f64> {
    let slices = trace["traceEvents"].as_array().expect("a list of events").iter();
    let slices = slices.filter(|event| event["ph"] == "X");
    let mut spans: BTreeMap<String, [Vec<(f64, f64)>; 2]> = BTreeMap::new();
    for slice in slices {
        let number = |field: &str| slice[field].as_f64().expect("a number");
        let of_rank = spans.entry(slice["tid"].to_string()).or_default();
        let list = match slice["cat"].as_str() {
            Some("iteration") => 0,
            Some("mpi") => 1,
            _ => continue,
        };
        of_rank[list].push((number("ts"), number("ts") + number("dur")));
    }
    let parts = spans.values().filter(|[iterations, _]| !iterations.is_empty());
    let parts = parts.map(|[iterations, calls]| {
        let begin = iterations.iter().map(|span| span.0).fold(f64::MAX, f64::min);
        let end = iterations.iter().map(|span| span.1).fold(0.0, f64::max);
        let within = calls.iter().filter(|call| call.0 >= begin && call.1 <= end);
        let in_mpi: f64 = within.map(|call| call.1 - call.0).sum();
        1.0 - in_mpi / (end - begin)
    });
    parts.collect()
}

#[test]
fn efficiencies_are_those_of_a_trace_and_run_ends_with_them() {
    let cluster = Cluster::up(3);
    let running = Background::start(&mut uneven(&cluster, &[], 700, 4000));
    wait::until("the job runs", LIMIT, || {
        let outcome = cluster.run(&["trace", "uneven", "--out", "early.json", "--entries-max", "20"]);
        outcome.status.success().then_some(())
    });
    let outcome = cluster.run(&["trace", "uneven", "--out", "t.json", "--seconds", "60"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let ended = running.end(LIMIT);
    assert!(ended.status.success(), "{ended:?}");

    let trace = fs::read(cluster.files().join("t.json")).expect("the trace");
    let parts = useful_parts(&serde_json::from_slice(&trace).expect("JSON"));
    assert_eq!(parts.len(), 3);
    let mean = parts.iter().sum::<f64>() / 3.0;
    let longest = parts.iter().copied().fold(0.0, f64::max);

    let written = cluster.run(&["report", "uneven", "--out", "r.html", "--recording", "r.json"]);
    assert!(written.status.success(), "{written:?}");
    let recording = fs::read(cluster.files().join("r.json")).expect("the recording");
    let recording: Value = serde_json::from_slice(&recording).expect("JSON");
    let used = &recording["series"]["uses"][0];
    let number = |field: &str| used[field].as_f64().expect("a number");
    assert_eq!(number("ranks"), 3.0, "{used}");
    let found = [
        number("useful_ms") / number("whole_ms"),
        number("useful_ms") / number("longest_ms"),
        number("longest_ms") / number("whole_ms"),
    ];
    for (found, expected) in found.into_iter().zip([mean, mean / longest, longest]) {
        assert!(
            (found / expected - 1.0).abs() < SLACK,
            "{found} {expected}: {used} {parts:?}"
        );
    }
    // A third, two thirds and three of the same time.
    assert!((found[1] - 2.0 / 3.0).abs() < 0.02, "{found:?}");

    let efficiency = format!("efficiency  {:.0} % with 3 ranks: load balance ", found[0] * 100.0);
    for part in [
        "job 1 uneven: ended well after",
        &efficiency,
        "to try      'pcmctl rebalance 1'",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert!(ended.stderr.lines().count() <= 25, "{}", ended.stderr);
    cluster.down();
}

#[test]
fn a_short_job_and_a_quiet_one_end_without_a_page() {
    let cluster = Cluster::up(3);
    for (options, iterations) in [(&[][..], 10), (&["--quiet"], 700)] {
        let ended = Background::start(&mut uneven(&cluster, options, iterations, 3000)).end(LIMIT);
        assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    }
    let refused = cluster.run(&["summary", "unknown"]);
    assert!(refused.stderr.contains("[unknown_job]"), "{refused:?}");
    cluster.down();
}
