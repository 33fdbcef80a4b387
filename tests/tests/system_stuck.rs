//! Programs that hang, each explained from outside; programs that are only slow are not called stuck.

use serde_json::Value;
use std::time::{Duration, Instant};
use tests::{background::Background, binaries::built, cluster::Cluster, wait};

const RANKS: &str = "4";

/// Starts a mode of the program; the job runs until the test ends it.
fn start(cluster: &Cluster, mode: &str) -> (Background, String) {
    let known = jobs(cluster).len();
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", mode, "--"]);
    command.arg(built("pcm-deadlock")).arg(mode);
    let running = Background::start(&mut command);
    let job = wait::until("the job runs", Duration::from_secs(30), || {
        let jobs = jobs(cluster);
        let job = jobs.get(known)?;
        (job["state"] == "running").then(|| job["job"].to_string())
    });
    (running, job)
}

fn jobs(cluster: &Cluster) -> Vec<Value> {
    let outcome = cluster.run(&["jobs", "--json"]);
    let document: Value = serde_json::from_str(&outcome.stdout).expect("a JSON document");
    let jobs = document.get("jobs").cloned().unwrap_or(document);
    jobs.as_array().expect("a list of jobs").clone()
}

fn judgement(cluster: &Cluster, job: &str) -> Value {
    let outcome = cluster.run(&["ps", job, "--stuck", "--json"]);
    assert!(outcome.status.success(), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("a JSON document")
}

/// The finding of a mode that hangs, once it does.
fn finding(cluster: &Cluster, mode: &str) -> (String, String, Vec<u64>) {
    let (running, job) = start(cluster, mode);
    let judgement = wait::until(&format!("{mode} is found stuck"), Duration::from_secs(30), || {
        let judgement = judgement(cluster, &job);
        let is_whole = !judgement["findings"].as_array()?.is_empty();
        is_whole.then_some(judgement)
    });
    let first = &judgement["findings"][0];
    let text = first["text"].as_str().expect("a text").to_owned();
    let stuck = judgement["stuck"]
        .as_array()
        .expect("ranks")
        .iter()
        .filter_map(Value::as_u64);
    let found = (
        first["kind"].as_str().expect("a kind").to_owned(),
        text,
        stuck.collect(),
    );
    let outcome = cluster.run(&["kill", &job]);
    assert!(outcome.status.success(), "{outcome:?}");
    running.end(Duration::from_secs(20));
    found
}

#[test]
fn each_kind_of_deadlock_is_explained_by_its_cause() {
    let cluster = Cluster::up(2);
    let (kind, text, stuck) = finding(&cluster, "cycle");
    assert_eq!((kind.as_str(), stuck.len()), ("cycle", 4), "{text}");
    assert!(
        text.contains("rank 0 waits in Recv for a message of tag 7 from rank 1"),
        "{text}"
    );

    let (kind, text, stuck) = finding(&cluster, "tag");
    assert_eq!((kind.as_str(), stuck.len()), ("receive_without_send", 4), "{text}");
    assert!(
        text.contains("of tag 7 from rank 0") && text.contains("one of tag 8 (8 bytes)"),
        "{text}"
    );

    let (kind, text, _) = finding(&cluster, "collective");
    assert_eq!(kind, "different_collectives", "{text}");
    assert!(
        text.contains("rank 1 called Allreduce") && text.contains("ranks 0, 2, 3 called Barrier"),
        "{text}"
    );

    let (kind, text, _) = finding(&cluster, "root");
    assert_eq!(kind, "wrong_root", "{text}");
    assert!(text.contains("rank 1 called Reduce with root 1"), "{text}");

    let (kind, text, _) = finding(&cluster, "size");
    assert_eq!(kind, "mismatched_size", "{text}");
    assert!(
        text.contains("rank 1 called Reduce with 8 bytes")
            && text.contains("ranks 0, 2, 3 called Reduce with 8388608 bytes"),
        "{text}"
    );

    let (kind, text, _) = finding(&cluster, "gone");
    assert_eq!(kind, "finished", "{text}");
    assert!(text.contains("rank 0 has called Finalize"), "{text}");
    cluster.down();
}

#[test]
fn a_slow_but_healthy_job_is_not_called_stuck() {
    let cluster = Cluster::up(2);
    for mode in ["slow", "busy"] {
        let (running, job) = start(&cluster, mode);
        let until = Instant::now() + Duration::from_secs(8);
        let mut looks = 0;
        while Instant::now() < until {
            let judgement = judgement(&cluster, &job);
            assert_eq!(judgement["stuck"], serde_json::json!([]), "{mode}: {judgement}");
            looks += 1;
        }
        assert!(looks >= 2, "{mode}: {looks} looks");
        assert!(cluster.run(&["kill", &job]).status.success());
        running.end(Duration::from_secs(20));
    }
    cluster.down();
}

#[test]
fn the_matrix_of_messages_counts_what_was_sent_and_not_received() {
    let cluster = Cluster::up(2);
    let (running, job) = start(&cluster, "tag");
    let open = |pairs: &Value| {
        let pairs = pairs["pairs"].as_array().cloned().unwrap_or_default();
        pairs.into_iter().find(|pair| pair["from"] == 0 && pair["to"] == 1)
    };
    // 8 rounds and the one that nobody asks for, while a receive of another tag stands.
    let pair = wait::until("all is sent", Duration::from_secs(30), || {
        let outcome = cluster.run(&["messages", &job, "--json"]);
        let pair = open(&serde_json::from_str(&outcome.stdout).ok()?)?;
        (pair["messages"] == 9 && pair["posted"] == 9).then_some(pair)
    });
    assert_eq!((&pair["bytes"], &pair["unmatched"]), (&40.into(), &0.into()));
    assert!(cluster.run(&["messages", &job]).stdout.contains("NOT RECEIVED"));
    assert!(cluster.run(&["kill", &job]).status.success());
    running.end(Duration::from_secs(20));
    cluster.down();
}

#[test]
fn what_was_not_received_is_told_by_communicator() {
    let cluster = Cluster::up(2);
    let (running, job) = start(&cluster, "communicators");
    let sums = |document: &Value| -> Vec<(String, Value, Value, Value, Value)> {
        let rows = document["communicators"].as_array().cloned().unwrap_or_default();
        let row = |row: Value| {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            let field = |name: &str| row[name].clone();
            (
                name,
                field("ranks"),
                field("messages"),
                field("posted"),
                field("unmatched"),
            )
        };
        rows.into_iter().map(row).collect()
    };
    let row = |name: &str, ranks: &[u32], numbers: [u32; 3]| {
        let [messages, posted, unmatched] = numbers.map(Value::from);
        (name.to_owned(), ranks.into(), messages, posted, unmatched)
    };
    let expected = [
        row("MPI_COMM_WORLD", &[0, 1, 2, 3], [32, 32, 0]),
        row("communicator", &[0, 1, 2, 3], [5, 5, 0]),
        row("communicator", &[0, 2], [3, 2, 1]),
        row("freed communicators", &[], [1, 1, 0]),
    ];
    let look = || -> Option<Value> {
        let outcome = cluster.run(&["messages", &job, "--json"]);
        serde_json::from_str(&outcome.stdout).ok()
    };
    let begin = Instant::now();
    let mut document = look().unwrap_or_default();
    while sums(&document) != expected && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
        document = look().unwrap_or_default();
    }
    assert_eq!(sums(&document), expected);
    let open = &document["communicators"][2]["pairs"];
    assert_eq!(
        (&open[0]["from"], &open[0]["to"], &open[0]["unmatched"]),
        (&0.into(), &2.into(), &1.into())
    );
    let text = cluster.run(&["messages", &job]).stdout;
    assert!(
        text.contains("communicator of ranks 0, 2") && text.starts_with("COMM"),
        "{text}"
    );
    assert!(cluster.run(&["kill", &job]).status.success());
    running.end(Duration::from_secs(20));
    cluster.down();
}

/// After half a minute without progress the daemon looks by itself.
#[test]
fn jobs_that_hang_are_told_by_themselves_and_slow_ones_are_not() {
    const NOTICED: Duration = Duration::from_secs(90);
    let cluster = Cluster::up(2);
    let mut running: Vec<(Background, String, &str)> = Vec::new();
    for mode in ["cycle", "tag", "collective", "slow", "busy"] {
        let (background, job) = start(&cluster, mode);
        running.push((background, job, mode));
    }
    for (_, job, mode) in &running[..3] {
        let told = wait::until(&format!("{mode} is told"), NOTICED, || {
            cluster.events(Some(job), "hangs").first().cloned()
        });
        assert_eq!(told["ranks"], "ranks 0-3", "{mode}: {told}");
        let lines = told["lines"].as_array().expect("lines");
        let says = |what: &str| {
            lines
                .iter()
                .any(|line| line.as_str().is_some_and(|line| line.contains(what)))
        };
        let call = if *mode == "collective" { "Allreduce" } else { "Recv" };
        assert!(says(call) && says("main()"), "{mode}: {told}");
        assert!(told["silent_s"].as_u64() >= Some(30), "{told}");
    }
    for (background, job, mode) in running {
        if ["slow", "busy"].contains(&mode) {
            assert_eq!(cluster.events(Some(&job), "hangs"), Vec::<Value>::new(), "{mode}");
        }
        assert!(cluster.run(&["kill", &job]).status.success());
        let outcome = background.end(Duration::from_secs(20));
        let is_noticed = outcome.stderr.contains("cannot continue");
        assert_eq!(is_noticed, !["slow", "busy"].contains(&mode), "{mode}: {outcome:?}");
    }
    cluster.down();
}
