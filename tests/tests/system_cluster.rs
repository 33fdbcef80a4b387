//! Booting, growing, shrinking and ending clusters through `pcmctl`.

use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited, wait,
};

fn names(nodes: &Value) -> Vec<String> {
    let name = |node: &Value| node["name"].as_str().unwrap_or_default().to_owned();
    nodes
        .as_array()
        .map(|nodes| nodes.iter().map(name).collect())
        .unwrap_or_default()
}

#[test]
fn a_cluster_comes_up_shows_its_nodes_and_leaves_nothing() {
    let cluster = Cluster::up_with(&["--local", "3", "--cpus", "0;0;0"]);
    let nodes = cluster.json(&["nodes"]);
    assert_eq!(names(&nodes), ["n0", "n1", "n2"]);
    for node in nodes.as_array().expect("a list") {
        assert_eq!(
            (&node["state"], &node["cpus"]),
            (&"up".into(), &serde_json::json!([0])),
            "{node}"
        );
        for field in ["address", "site", "speed", "load_by_others", "ranks"] {
            assert!(node.get(field).is_some(), "{field} in {node}");
        }
    }
    let key = fs::metadata(cluster.dir().join("key")).expect("the key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let table = cluster.run(&["nodes"]).stdout;
    assert!(table.starts_with("NODE") && !table.contains('\x1b'), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    cluster.down();
}

/// Agents ask for work with 0.6 of a CPU to spare (`spare_min`), and do not tell a look from another load.
#[test]
fn twenty_looks_take_less_than_half_a_second_of_a_cpu() {
    let cluster = Cluster::up(2);
    let script = "for look in 1 2 3 4 5 6 7 8 9 10; do \"$0\" jobs && \"$0\" nodes || exit 1; done >&2; times";
    let outcome = limited::run(cluster.command("sh").args(["-c", script]).arg(built("pcmctl")), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    // Of the shell, then of what it ran: user and system time as 0m0.100000s.
    let seconds = |word: &str| -> f64 {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').expect("a time");
        60.0 * minutes.parse::<f64>().expect("minutes") + seconds.parse::<f64>().expect("seconds")
    };
    let of_looks = outcome.stdout.lines().nth(1).expect("two lines");
    let taken: f64 = of_looks.split_whitespace().map(seconds).sum();
    assert!(taken > 0.0 && taken < 0.5, "{outcome:?}");
    cluster.down();
}

#[test]
fn a_directory_serves_again_after_down() {
    let mut cluster = Cluster::place();
    for _ in 0..3 {
        let outcome = cluster.boot(&["--local", "2"]);
        assert!(outcome.status.success(), "{outcome:?}");
        let outcome = cluster.run(&["run", "-n", "2", "--", "true"]);
        assert!(outcome.status.success(), "{outcome:?}");
        assert!(cluster.run(&["down"]).status.success());
        cluster.assert_nothing_left();
    }
}

#[test]
fn a_second_up_is_refused_and_the_first_cluster_is_unharmed() {
    let cluster = Cluster::up(1);
    let outcome = cluster.run(&["up", "--local", "1"]);
    assert_eq!(outcome.status.code(), Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("[cluster_running]"), "{outcome:?}");
    assert!(cluster.run(&["run", "--", "true"]).status.success());
    cluster.down();
}

#[test]
fn of_two_up_at_once_one_wins_and_the_other_says_why_not() {
    for _ in 0..5 {
        let mut cluster = Cluster::place();
        let both: Vec<Background> = (0..2)
            .map(|_| Background::start(&mut cluster.pcmctl(&["up", "--local", "2"])))
            .collect();
        let outcomes: Vec<_> = both.into_iter().map(|one| one.end(LIMIT)).collect();
        cluster.note_id();
        let mut codes: Vec<_> = outcomes.iter().map(|outcome| outcome.status.code()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(4)], "{outcomes:?}");
        let loser = outcomes
            .iter()
            .find(|outcome| !outcome.status.success())
            .expect("one lost");
        assert!(
            loser.stderr.contains("[cluster_locked]") || loser.stderr.contains("[cluster_running]"),
            "{loser:?}"
        );
        assert_eq!(names(&cluster.json(&["nodes"])), ["n0", "n1"]);
        cluster.down();
    }
}

#[test]
fn two_clusters_run_beside_each_other() {
    let (one, two) = (Cluster::up(2), Cluster::up(2));
    let mut beside = one.trial_beside(2, &["ring", "3"]);
    beside.wait_for("round 0", LIMIT);
    let outcome = two.trial(2, &["ring", "1"]);
    assert!(outcome.status.success(), "{outcome:?}");
    two.down();
    let outcome = beside.end(LIMIT);
    assert!(
        outcome.status.success() && outcome.stdout.contains("ring done"),
        "{outcome:?}"
    );
    one.down();
}

#[test]
fn a_node_joins_takes_ranks_and_is_removed() {
    let cluster = Cluster::up(1);
    let joined = cluster.json(&["join", "fast", "--cpus", "0"]);
    assert_eq!(
        (&joined["name"], &joined["state"]),
        (&"fast".into(), &"up".into()),
        "{joined}"
    );
    assert_eq!(names(&cluster.json(&["nodes"])), ["fast", "n0"]);
    let outcome = cluster.run(&["run", "-n", "2", "--nodes", "fast", "--", "sh", "-c", "echo $PCM_NODE"]);
    assert_eq!(outcome.stdout, "fast\nfast\n", "{outcome:?}");
    let again = cluster.run(&["join", "fast"]);
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    assert!(again.stderr.contains("[node_exists]"), "{again:?}");
    assert!(cluster.run(&["drain", "fast"]).status.success());
    let refused = cluster.run(&["run", "-n", "1", "--nodes", "fast", "--", "true"]);
    assert!(refused.stderr.contains("[no_nodes]"), "{refused:?}");
    let removed = cluster.run(&["remove", "fast"]);
    assert!(removed.status.success(), "{removed:?}");
    wait::until("fast to be gone", LIMIT, || {
        let state = cluster.node_state("fast");
        (state.is_empty() || state == "gone").then_some(())
    });
    let outcome = cluster.run(&["run", "-n", "2", "--", "sh", "-c", "echo $PCM_NODE"]);
    assert_eq!(outcome.stdout, "n0\nn0\n", "{outcome:?}");
    cluster.down();
}

#[test]
fn a_node_with_ranks_is_not_drained_and_the_refusal_says_why() {
    let cluster = Cluster::up(2);
    let mut job = cluster.trial_beside(4, &["ring", "60"]);
    job.wait_for("round 0", LIMIT);
    let outcome = cluster.run(&["drain", "n1", "--deadline", "1"]);
    assert!(matches!(outcome.status.code(), Some(4 | 5)), "{outcome:?}");
    assert!(outcome.stderr.contains("n1"), "{outcome:?}");
    job.signal(rustix::process::Signal::TERM);
    job.end(LIMIT);
    cluster.down();
}

#[test]
fn a_drained_node_takes_ranks_again_when_it_is_joined_and_is_the_same_node() {
    let cluster = Cluster::up(2);
    let pid = |cluster: &Cluster| {
        let nodes = cluster.json(&["nodes"]);
        let nodes = nodes.as_array().expect("a list");
        let found = nodes.iter().find(|node| node["name"] == "n1").expect("n1");
        found["daemon_pid"].as_u64().expect("a process")
    };
    let before = pid(&cluster);
    let placed = |cluster: &Cluster| {
        cluster
            .run(&["run", "-n", "2", "--", "sh", "-c", "echo $PCM_NODE"])
            .stdout
    };
    assert!(cluster.run(&["drain", "n1"]).status.success());
    // The others hear of either within moments.
    let is_n1 = |state: &str| wait::until(state, LIMIT, || (cluster.node_state("n1") == state).then_some(()));
    is_n1("draining");
    assert_eq!(placed(&cluster), "n0\nn0\n");
    let others = cluster.run(&["join", "n1", "--cpus", "0-63"]);
    assert!(others.stderr.contains("[node_exists]"), "{others:?}");
    let outcome = cluster.run(&["join", "n1"]);
    assert!(outcome.status.success(), "{outcome:?}");
    is_n1("up");
    assert_eq!(pid(&cluster), before);
    let both = placed(&cluster);
    let mut nodes: Vec<&str> = both.lines().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n0", "n1"]);
    assert!(cluster.run(&["join", "n1"]).stderr.contains("[node_exists]"));
    cluster.down();
}

#[test]
fn every_node_answers_a_ping_and_an_unknown_one_is_refused() {
    let cluster = Cluster::up(3);
    let answers = cluster.json(&["ping"]);
    let answered = answers
        .as_array()
        .expect("a list")
        .iter()
        .filter(|answer| answer["answers"] == true)
        .count();
    assert_eq!(answered, 3, "{answers}");
    let outcome = cluster.run(&["ping", "n7"]);
    assert_eq!(outcome.status.code(), Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("[unknown_node]"), "{outcome:?}");
    cluster.down();
}

#[test]
fn events_tell_of_nodes_and_jobs_and_can_be_followed() {
    let cluster = Cluster::up(2);
    let follower = Background::start(&mut cluster.pcmctl(&["events", "--json", "--follow"]));
    let outcome = cluster.run(&["run", "-n", "2", "--name", "seen", "--", "true"]);
    assert!(outcome.status.success(), "{outcome:?}");
    wait::until("job_ended in the followed events", LIMIT, || {
        follower.stdout().contains("job_ended").then_some(())
    });
    drop(follower);
    let outcome = cluster.run(&["events", "--json"]);
    let events: Vec<Value> = outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect();
    for event in &events {
        for field in ["time", "job", "epoch", "kind"] {
            assert!(event.get(field).is_some(), "{field} in {event}");
        }
        let time = event["time"].as_str().expect("a text");
        assert!(
            time.len() == 27 && time.ends_with('Z') && time.as_bytes()[19] == b'.',
            "{time}"
        );
    }
    for kind in ["node_up", "job_accepted", "job_started", "job_ended"] {
        assert!(events.iter().any(|event| event["kind"] == kind), "{kind} in {events:?}");
    }
    cluster.down();
}

#[test]
fn logs_of_every_node_can_be_read() {
    let cluster = Cluster::up(2);
    for node in ["n0", "n1"] {
        let outcome = cluster.run(&["logs", node]);
        assert!(
            outcome.status.success() && !outcome.stdout.is_empty(),
            "{node}: {outcome:?}"
        );
    }
    cluster.down();
}

#[test]
fn a_boot_that_is_interrupted_leaves_nothing() {
    let mut cluster = Cluster::place();
    // Interrupted at different moments of the boot.
    for delay_ms in [1, 20, 60, 150] {
        let up = Background::start(&mut cluster.pcmctl(&["up", "--local", "4"]));
        std::thread::sleep(Duration::from_millis(delay_ms));
        up.signal(rustix::process::Signal::INT);
        let outcome = up.end(LIMIT);
        cluster.note_id();
        if outcome.status.success() {
            assert!(cluster.run(&["down"]).status.success());
        }
        cluster.assert_nothing_left();
    }
}

#[test]
fn a_killed_up_is_cleared_by_down() {
    let mut cluster = Cluster::place();
    let up = Background::start(&mut cluster.pcmctl(&["up", "--local", "4"]));
    wait::until("the record of the cluster", LIMIT, || {
        cluster.dir().join("cluster.json").is_file().then_some(())
    });
    up.signal(rustix::process::Signal::KILL);
    drop(up);
    cluster.note_id();
    let outcome = cluster.run(&["down"]);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.assert_nothing_left();
}

#[test]
fn a_program_compiled_with_pcmcc_runs() {
    let cluster = Cluster::up(1);
    let program = cluster.files().join("a program");
    let mut compiler = cluster.command(built("pcmcc"));
    compiler
        .arg("-o")
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/trial.c"));
    let compiled = limited::run(&mut compiler, LIMIT);
    assert!(compiled.status.success(), "{compiled:?}");
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--no-preload", "--"]);
    command.arg(&program).args(["exit", "3", "1"]);
    assert_eq!(limited::run(&mut command, LIMIT).status.code(), Some(3));
    cluster.down();
}
