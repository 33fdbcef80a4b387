//! Traces of running jobs: what is in them, that they end, and that they end what they began.

use rustix::process::Signal;
use serde_json::Value;
use std::{collections::BTreeMap, fs};
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    plate, trace_format, wait,
};

/// The events of a trace that has ended, which follows every rule of its format.
fn events(cluster: &Cluster, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(cluster.files().join(file)).expect("the trace");
    let document: Value = serde_json::from_str(&text).expect("a JSON document");
    assert_eq!(trace_format::problems(&document), Vec::<String>::new());
    document["traceEvents"].as_array().expect("a list of events").clone()
}

fn number(event: &Value, field: &str) -> f64 {
    event[field].as_f64().unwrap_or_else(|| panic!("no {field} in {event}"))
}

/// Begins and ends of the slices of a name.
fn spans(events: &[Value], name: &str) -> Vec<(f64, f64)> {
    let named = events
        .iter()
        .filter(|event| event["name"] == name && event["ph"] == "X");
    named
        .map(|event| (number(event, "ts"), number(event, "ts") + number(event, "dur")))
        .collect()
}

#[test]
fn a_trace_has_iterations_calls_load_and_the_phases_of_a_migration() {
    let cluster = Cluster::up(3);
    let running = plate::iterating(&cluster, 1000);
    let tracing =
        Background::start(&mut cluster.pcmctl(&["trace", "plate", "--out", "t.json", "--seconds", "60", "--json"]));
    // What a rank recorded before it leaves must have been fetched.
    wait::until("calls were fetched", LIMIT, || {
        let file = fs::metadata(cluster.files().join("t.json")).ok()?;
        (file.len() > 30_000).then_some(())
    });
    let moved = cluster.run(&["migrate", "plate", "--rank", "1", "--to", "n2", "--json"]);
    assert!(moved.status.success(), "{moved:?}");
    // The newcomer's calls are recorded from the next asking on.
    let beyond = iteration(&cluster) + 1500;
    wait::until("the job went on", LIMIT, || {
        (iteration(&cluster) > beyond).then_some(())
    });
    tracing.signal(Signal::INT);
    let outcome = tracing.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("a JSON document");
    assert_eq!(
        (&summary["reconfigurations"], &summary["lost"]),
        (&1.into(), &0.into()),
        "{summary}"
    );
    assert!(summary["calls"].as_u64() > Some(100), "{summary}");

    let events = events(&cluster, "t.json");
    let calls: Vec<&Value> = events.iter().filter(|event| event["name"] == "MPI_Sendrecv").collect();
    assert!(
        calls
            .iter()
            .any(|call| call["args"]["peer"] == 1 && number(&call["args"], "bytes") > 0.0)
    );
    let migrate = spans(&events, "migrate");
    assert_eq!(migrate.len(), 1);
    for phase in ["preparing", "converging", "meeting", "moving"] {
        let of_phase = spans(&events, phase);
        assert_eq!(of_phase.len(), 1, "{phase}");
        assert!(
            of_phase[0].0 >= migrate[0].0 - 0.01 && of_phase[0].1 <= migrate[0].1 + 0.01,
            "{phase}"
        );
    }
    // Both ranks were held at the top of an iteration while it went on, and each process has iterations of its own.
    let held = spans(&events, "held by libpcm");
    assert!(
        held.iter().any(|held| held.0 < migrate[0].1 && held.1 > migrate[0].0),
        "{held:?} {migrate:?}"
    );
    let iterating = events.iter().filter(|event| event["name"] == "iteration");
    let lines: BTreeMap<String, usize> = iterating.fold(BTreeMap::new(), |mut lines, event| {
        *lines.entry(event["tid"].to_string()).or_default() += 1;
        lines
    });
    assert!(lines.len() == 3 && lines.values().all(|count| *count > 10), "{lines:?}");
    let is_load = |event: &&Value| event["ph"] == "C" && event["name"] == "load by others";
    assert!(events.iter().filter(is_load).count() >= 3);

    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    cluster.down();
}

fn iteration(cluster: &Cluster) -> u64 {
    let ps = cluster.json(&["ps", "plate"]);
    let rows = ps["ranks"].as_array().expect("ranks");
    rows.iter()
        .filter_map(|rank| rank["iteration"].as_u64())
        .min()
        .expect("an iteration")
}

#[test]
fn a_trace_ends_with_its_job_or_at_its_limit_and_the_file_is_whole() {
    let cluster = Cluster::up(2);
    let running = plate::iterating(&cluster, 1000);
    let outcome = cluster.run(&["trace", "plate", "--out", "short.json", "--entries-max", "50"]);
    assert!(
        outcome.status.success() && outcome.stdout.contains("0 entries lost"),
        "{outcome:?}"
    );
    assert!(!events(&cluster, "short.json").is_empty());
    let tracing = Background::start(&mut cluster.pcmctl(&["trace", "plate", "--out", "end.json", "--seconds", "600"]));
    wait::until("the trace has begun", LIMIT, || {
        cluster.files().join("end.json").is_file().then_some(())
    });
    assert!(cluster.run(&["kill", "plate"]).status.success());
    let outcome = tracing.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let ended = events(&cluster, "end.json");
    assert!(ended.iter().any(|event| event["name"] == "job_ended"));
    running.end(LIMIT);

    let refused = cluster.run(&["trace", "plate", "--out", "none.json"]);
    assert!(
        !refused.status.success() && refused.stderr.contains("[job_ended]"),
        "{refused:?}"
    );
    assert!(!cluster.files().join("none.json").exists());
    cluster.down();
}
