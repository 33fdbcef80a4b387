//! Nodes that know when they end, without an engine that tells them: all see it, no rank goes there any more
//! when it is near, and ranks that are there leave before. Where all nodes end at once jobs are in files before that.

use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tests::{
    background::Background,
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    crashing::{Crashing, JOB},
    heat2d::Closing,
    limited, processes, wait,
};

/// Left because the node's time was nearly up.
const LEFT: i32 = 75;

fn seconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a clock after 1970").as_secs()
}

fn join(cluster: &Cluster, node: &str, options: &[&str], variables: &[(&str, &str)]) -> Background {
    let arguments = [&["join", "--node", node, "--address", "127.0.0.1"], options].concat();
    let mut command = cluster.daemon(&arguments);
    command.envs([CRASH_PATIENCE]).envs(variables.iter().copied());
    Background::start(&mut command)
}

fn wait_until_up(cluster: &Cluster, node: &str) {
    wait::until(&format!("node {node}"), LIMIT, || {
        let told = cluster.run(&["nodes", "--json"]).stdout;
        let nodes: Value = serde_json::from_str(&told).ok()?;
        let is_up = |status: &Value| status["name"] == node && status["state"] == "up";
        nodes.as_array()?.iter().any(is_up).then_some(())
    });
}

/// What `nodes --json` says of the end of a node.
fn ends(cluster: &Cluster, node: &str) -> Value {
    let nodes = cluster.json(&["nodes"]);
    let nodes = nodes.as_array().cloned().unwrap_or_default();
    let status = nodes.into_iter().find(|status| status["name"] == node);
    status.unwrap_or_else(|| panic!("no node {node}"))["ends"].clone()
}

/// Waits until a node has no more than this left, by its own account.
fn wait_until_left(cluster: &Cluster, node: &str, most: Duration) {
    wait::until(&format!("the last {most:?} of {node}"), LIMIT, || {
        let left = ends(cluster, node)["left_ms"].as_u64()?;
        (u128::from(left) <= most.as_millis()).then_some(())
    });
}

/// Node `c`, which ends at this second and is left in its last ten: all nodes see that, also when its daemon was
/// started again.
fn joined_until(cluster: &Cluster, end: u64) -> Background {
    let ends_at = end.to_string();
    let c = join(cluster, "c", &["--ends", &ends_at], &[("PCM_LEAVE_SECONDS", "10")]);
    wait_until_up(cluster, "c");
    let told = ends(cluster, "c");
    assert_eq!(told["at_us"], end * 1_000_000, "{told}");
    assert_eq!(told["leaves_ms"], 10_000, "{told}");
    assert!(
        told["left_ms"]
            .as_u64()
            .is_some_and(|left| left > 20_000 && left <= 45_000),
        "{told}"
    );
    let table = cluster.run(&["nodes"]).stdout;
    assert!(table.contains("LEFT"), "{table}");
    // A daemon that is started again knows it, too.
    let first = cluster.daemon_pid("c");
    processes::send(first, Signal::KILL);
    wait::until("another daemon of c", LIMIT, || {
        let is_back = cluster.daemon_pid("c") != first && cluster.node_state("c") == "up";
        is_back.then_some(())
    });
    assert_eq!(ends(cluster, "c")["at_us"], end * 1_000_000);
    c
}

#[test]
fn ranks_leave_a_node_before_its_time_is_up_and_none_goes_there_when_that_is_near() {
    let mut cluster = Cluster::place();
    let a = join(&cluster, "a", &["--first"], &[]);
    wait_until_up(&cluster, "a");
    cluster.note_id();
    let b = join(&cluster, "b", &[], &[]);
    wait_until_up(&cluster, "b");
    let plain = cluster.run(&["nodes"]).stdout;
    assert!(!plain.contains("LEFT"), "{plain}");
    let end = seconds_since_1970() + 45;
    let c = joined_until(&cluster, end);
    let job = Crashing::start(&cluster, &["--max", "8", "--nodes", "a,b,c"], (3000, 15_000));
    wait::until("ranks on c", LIMIT, || (!job.ranks_on("c").is_empty()).then_some(()));
    cluster.wait_until_ranks_of_iterate(&job.number().to_string());
    wait_until_left(&cluster, "c", Duration::from_secs(19));
    let there = job.ranks_on("c").len();
    let named = cluster.run(&["expand", JOB, "--to", "5", "--nodes", "c"]);
    assert!(
        !named.status.success() && named.stderr.contains("too soon"),
        "{named:?}"
    );
    let sent = cluster.run(&["migrate", JOB, "--rank", "0", "--to", "c"]);
    assert!(
        !sent.status.success() && sent.stderr.contains("node c ends in"),
        "{sent:?}"
    );
    let grown = cluster.run(&["expand", JOB, "--to", "5"]);
    assert!(grown.status.success(), "{grown:?} {}", cluster.logs());
    assert_eq!(job.ranks_on("c").len(), there, "the new rank is elsewhere");
    let left = c.end(LIMIT);
    let at = seconds_since_1970();
    assert_eq!(left.status.code(), Some(LEFT), "{left:?} {}", cluster.logs());
    assert!(left.stderr.contains("its time was nearly up"), "{left:?}");
    assert!(at < end, "{} s late", at - end);
    let said = cluster.events(None, "node_ends");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (&said[0]["name"], &said[0]["has_refuge"]),
        (&"c".into(), &true.into()),
        "{said:?}"
    );
    let changes = job.events("reconfigured");
    let is_flight = |event: &&Value| event.to_string().contains("the time of c ends in ");
    assert_eq!(changes.iter().filter(is_flight).count(), 1, "{changes:?}");
    assert!(job.events("crashed").is_empty(), "{}", cluster.logs());
    let shrunk = cluster.run(&["shrink", JOB, "--to", "4"]);
    assert!(shrunk.status.success(), "{shrunk:?}");
    job.ends_right();
    assert!(cluster.run(&["down"]).status.success());
    for keeper in [a, b] {
        assert_eq!(keeper.end(LIMIT).status.code(), Some(0));
    }
    cluster.assert_nothing_left();
}

/// Checkpoints in a folder, oldest first.
fn published(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| !path.to_string_lossy().contains("partial") && path.join("SEAL").is_file())
        .collect();
    found.sort();
    found
}

/// All nodes end soon when the job begins: it runs there for want of others, and for as long as it can.
#[test]
fn a_job_whose_nodes_all_end_at_once_runs_to_the_last_and_is_in_files() {
    const LEFT: u64 = 32;
    const NOTICE: u64 = 12;
    let mut cluster = Cluster::place();
    let began = Instant::now();
    let ends_at = (seconds_since_1970() + LEFT).to_string();
    let up = cluster.boot_with(
        &["--local", "2"],
        &[
            ("PCM_NODE_ENDS", &ends_at),
            ("PCM_LEAVE_SECONDS", "40"),
            ("PCM_NOTICE_SECONDS", &NOTICE.to_string()),
        ],
    );
    assert!(up.status.success(), "{up:?}");
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8").to_owned();
    let job = Crashing::start_with(
        &cluster,
        &["--max", "8"],
        (2000, 15_000),
        &[("PCM_CHECKPOINT_DIR", &place)],
    );
    cluster.wait_until_ranks_of_iterate(&job.number().to_string());
    let grown = cluster.run(&["expand", JOB, "--to", "5"]);
    assert!(
        !grown.status.success() && grown.stderr.contains("end too soon"),
        "{grown:?}"
    );
    let daemons = ["n0", "n1"].map(|node| cluster.daemon_pid(node));
    let keepers = daemons.map(processes::parent);
    let outcome = job.end();
    let ran = began.elapsed();
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.stderr.contains("all nodes end soon"), "{outcome:?}");
    assert!(
        ran >= Duration::from_secs(LEFT - NOTICE - 2),
        "it was given up after {ran:?}"
    );
    wait::until("the end of the nodes", LIMIT, || {
        let mut all = daemons.iter().chain(&keepers);
        all.all(|pid| !processes::is_alive(*pid)).then_some(())
    });
    assert!(
        began.elapsed() < Duration::from_secs(LEFT),
        "late: {:?}",
        began.elapsed()
    );
    let newest = published(&kept)
        .pop()
        .unwrap_or_else(|| panic!("no files: {outcome:?} {}", cluster.logs()));
    cluster.run(&["down"]);
    assert!(cluster.boot(&["--local", "2"]).status.success());
    let restarted = cluster.run(&["restart", newest.to_str().expect("UTF-8"), "-n", "2"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert_eq!(
        Closing::read(&restarted.stdout).checksum,
        Crashing::expected_checksum(2000)
    );
    cluster.down();
}

#[test]
fn an_end_that_is_no_time_or_is_over_is_refused_with_a_reason() {
    let mut cluster = Cluster::place();
    for (option, says) in [("tomorrow", "\"tomorrow\" is no time"), ("1000000000", "is over")] {
        for words in [
            &["join", "--first", "--node", "a", "--ends"][..],
            &["--foreground", "--ends"],
        ] {
            let refused = limited::run(&mut cluster.daemon(&[words, &[option]].concat()), LIMIT);
            assert_eq!(refused.status.code(), Some(2), "{refused:?}");
            assert!(refused.stderr.contains(&format!("--ends: \"{option}\"")), "{refused:?}");
            assert!(refused.stderr.contains(says), "{refused:?}");
        }
    }
    let mut command = cluster.daemon(&["join", "--first", "--node", "a"]);
    let refused = limited::run(command.env("PCM_NODE_ENDS", "2030-01-31"), LIMIT);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("PCM_NODE_ENDS: \"2030-01-31\""), "{refused:?}");
    assert!(!cluster.dir().join("cluster.json").exists(), "no node joined");
    for (variable, value) in [("PCM_NODE_ENDS", "noon"), ("PCM_LEAVE_SECONDS", "-3")] {
        let refused = cluster.boot_with(&["--local", "1"], &[(variable, value)]);
        assert!(!refused.status.success(), "{refused:?}");
        let says = format!("{variable}: \"{value}\"");
        assert!(refused.stderr.contains(&says), "{refused:?}");
    }
    cluster.assert_nothing_left();
}
