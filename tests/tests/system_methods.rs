//! Jobs of real ranks that are reconfigured by every method: the result is that of an undisturbed run, the event names the
//! method, and processes stay or are all started anew as the method says.

use pcm_proto::method::{Completion, Method};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};
use tests::{background::Background, binaries::built, cluster::Cluster, malleable::Malleable};

/// How long a job may go on after its last change.
const END_LIMIT: Duration = Duration::from_secs(240);

fn pids(job: &Malleable<'_>) -> BTreeSet<u32> {
    job.ranks().iter().map(|rank| rank.pid).collect()
}

fn change(job: &Malleable<'_>, verb: &str, arguments: &[&str], method: Method) -> Value {
    let before = pids(job);
    let done = job.change(verb, &[arguments, &["--method", method.as_str()]].concat());
    assert_eq!(done["method"], method.as_str(), "{done}");
    assert!(done["bytes_moved"].as_u64() > Some(0), "{done}");
    let stayed = before.intersection(&pids(job)).count();
    assert_eq!(
        stayed == 0,
        method.starts_all(),
        "{verb} by {method}: {stayed} processes stayed"
    );
    done
}

#[test]
fn every_method_keeps_the_result_of_a_program() {
    let cluster = Cluster::up(3);
    let job = Malleable::start(&cluster, "heat2d-c", 2, 12000, 500);
    for method in Method::all() {
        change(&job, "expand", &["--to", "4"], method);
        job.goes_on();
        change(&job, "migrate", &["--rank", "3", "--to", "n0"], method);
        change(&job, "shrink", &["--to", "2"], method);
        job.goes_on();
    }
    let events = cluster.run(&["events", "1"]);
    assert!(
        events.stdout.contains("method=baseline-intra-collective-sync"),
        "{events:?}"
    );
    assert_eq!(job.ends_right().ranks, 2);
    cluster.down();
}

#[test]
fn a_job_keeps_the_method_it_was_started_with_until_a_verb_names_another() {
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--method", "baseline-collective-sync", "--"]);
    command
        .arg(built("pcm-constant"))
        .args(["keep", "512", "256", "6000", "1000"]);
    let job = Background::start(&mut command);
    cluster.wait_until_ranks_iterate();
    let changed = |verb: &str, arguments: &[&str]| -> (String, u64) {
        let outcome = cluster.run(&[&[verb, "1"], arguments, &["--mode", "live", "--json"]].concat());
        assert!(outcome.status.success(), "{outcome:?}\n{}", job.stderr());
        let done: Value = serde_json::from_str(&outcome.stdout).expect("a JSON document");
        let ahead = done["bytes_ahead"].as_u64().expect("a number");
        (done["method"].as_str().expect("a name").to_owned(), ahead)
    };
    assert_eq!(
        changed("expand", &["--to", "3"]),
        ("baseline-collective-sync".to_owned(), 0)
    );
    let back_and_forth = [("shrink", "2"), ("expand", "3")].into_iter().cycle();
    for (method, (verb, to)) in Method::all().zip(back_and_forth) {
        let (named, ahead) = changed(verb, &["--to", to, "--method", method.as_str()]);
        assert_eq!(named, method.as_str());
        assert_eq!(
            ahead > 0,
            method.completion == Completion::Async,
            "{method}: {ahead} bytes ahead"
        );
    }
    let outcome = job.end(END_LIMIT);
    assert!(
        outcome.status.success() && outcome.stdout.contains("constant: done"),
        "{outcome:?}"
    );
    cluster.down();
}

#[test]
fn a_bench_of_methods_checks_every_kind_of_data_and_leaves_every_run() {
    let cluster = Cluster::up(2);
    let folder = tempfile::tempdir().expect("a folder");
    for data in ["rows", "constant", "tiles", "sparse"] {
        let out = folder.path().join(data).display().to_string();
        let what = ["bench", "redistribute", "--pairs", "1:2", "--data", data];
        let how = ["--mib", "2", "--rounds", "1", "--out", &out];
        let outcome = cluster.run(&[what.as_slice(), &how].concat());
        assert!(outcome.status.success(), "{outcome:?}");
        let read = |name: &str| std::fs::read_to_string(format!("{out}/{name}")).expect("a file");
        let csv = read("redistribute.csv");
        let runs = 2 * (1 + Method::all().count());
        assert_eq!(csv.lines().count(), 1 + runs, "{csv}");
        for method in Method::all() {
            assert!(
                csv.contains(&format!(",{method},{method},0,")),
                "{method} was not made by itself: {csv}"
            );
        }
        let document: Value = serde_json::from_str(&read("redistribute.json")).expect("a JSON document");
        assert_eq!(document["runs"].as_array().map(Vec::len), Some(runs));
        assert!(read("redistribute-pause.svg").contains(&format!("{data}: least pause")));
    }
    cluster.down();
}
