//! Jobs of real ranks that are reconfigured by every method: the result is that of an undisturbed run, the event names
//! the method, and processes stay or are all started anew as the method says.

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
        // Where a new rank is put depends on what else the nodes do just then.
        let to = if job.nodes()[3] == "n0" { "n1" } else { "n0" };
        change(&job, "migrate", &["--rank", "3", "--to", to], method);
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

/// What changes have cost, as docs/methods.md tells the format.
fn costs(from: u32, to: u32, measured: &[(&str, f64)]) -> String {
    let names = "from,to,registered_bytes,constant_bytes,program,arguments,method,pause_ms";
    let mut text = format!("pcm-method-costs 1\n{names}\n");
    for (method, pause_ms) in measured {
        for more in [0.0, 0.1, 0.2, 0.3, 0.4] {
            text += &format!("{from},{to},40000,0,pcm-moving,0000000a,{method},{}\n", pause_ms + more);
        }
    }
    text
}

#[test]
fn what_was_measured_here_decides_the_method_and_a_damaged_file_of_it_is_told_and_ignored() {
    let cluster = Cluster::up(2);
    let file = cluster.dir().join("methods.csv");
    let job = Malleable::start(&cluster, "heat2d-c", 2, 9000, 500);
    let changed = |verb: &str, to: &str, method: &str, reason: &str| {
        let done = job.change(verb, &["--to", to]);
        assert_eq!(done["method"], method, "{done}");
        let told = done["method_reason"].as_str().expect("a reason");
        assert!(told.contains(reason), "{reason:?} is not in {told:?}");
    };
    changed(
        "expand",
        "3",
        "merge-p2p-async",
        "no change like this one was measured here",
    );
    let learned = std::fs::read_to_string(&file).expect("a file of costs");
    assert!(
        learned.contains(",heat2d-c,") && learned.lines().count() == 3,
        "{learned}"
    );

    let measured = [("merge-p2p-async", 20.0), ("merge-collective-sync", 5.0)];
    std::fs::write(&file, costs(3, 2, &measured)).expect("a file of costs");
    changed(
        "shrink",
        "2",
        "merge-collective-sync",
        "merge-collective-sync 5.2 ms (median pause of 5)",
    );
    let slower = [("merge-p2p-async", 20.0), ("merge-collective-sync", 50.0)];
    std::fs::write(&file, costs(2, 3, &slower)).expect("a file of costs");
    changed(
        "expand",
        "3",
        "merge-p2p-async",
        "nothing measured here is clearly cheaper",
    );

    std::fs::write(&file, b"pcm-method\0\xff nonsense").expect("a damaged file");
    changed(
        "shrink",
        "2",
        "merge-p2p-async",
        "methods.csv: ignored, it does not hold costs",
    );
    let anew = std::fs::read_to_string(&file).expect("a file of costs");
    assert!(anew.starts_with("pcm-method-costs 1\n"), "{anew}");
    std::fs::write(&file, costs(2, 3, &measured) + "2,3,x\n").expect("a damaged file");
    changed(
        "expand",
        "3",
        "merge-collective-sync",
        "1 of 11 lines cannot be read and are left out (line 13)",
    );

    let events = cluster.run(&["events", "1"]);
    assert!(events.stdout.contains("method_reason=\"measured here: "), "{events:?}");
    let explained = cluster.run(&["explain", "1"]);
    let line = "Method merge-collective-sync: measured here: ";
    assert!(explained.stdout.contains(line), "{explained:?}");
    assert_eq!(job.ends_right().ranks, 3);
    cluster.down();
}

#[test]
fn a_bench_of_methods_checks_every_kind_of_data_and_leaves_every_run() {
    let cluster = Cluster::up(2);
    let folder = tempfile::tempdir().expect("a folder");
    for data in ["rows", "constant", "tiles", "sparse"] {
        let out = folder.path().join(data).display().to_string();
        let what = ["bench", "redistribute", "--pairs", "1:2", "--data", data];
        let how = ["--mib", "2", "--rounds", "1", "--learn", "0", "--out", &out];
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
        let page = read("redistribute.html");
        assert!(page.contains(&format!("{data}, 2 MiB: least pause")), "{page}");
        assert_eq!(
            page.matches("<tr><td data-v").count(),
            runs,
            "a line for each change and method"
        );
    }
    cluster.down();
}
