//! The files of a node fail one after the other, as on a disk that is full, over quota, read-only or broken, and as on
//! a file server that is away for ten seconds. Meanwhile a job runs, is changed and makes checkpoints: no rank and no
//! daemon is lost, no node is silent, and the result is right. `PCM_DISK_ROUNDS=200` repeats that.

use rustix::{io::Errno, process::Signal};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tests::{
    asked,
    binaries::built,
    cluster::{Cluster, DEFAULT_PATIENCE, LIMIT},
    malleable::Malleable,
    processes, wait,
};

/// Long enough for a change of the job with each file.
const RUN: (u64, u32) = (6000, 500);

/// What may be touched while a job runs; the last stands for all.
const FILES: [&str; 5] = ["daemon.log", "agent.log", "events.jsonl", "methods", "/"];

const ERRORS: [Errno; 4] = [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO];

/// A file server that is started again.
const AWAY: Duration = Duration::from_secs(10);

struct Disk {
    how: PathBuf,
}

impl Disk {
    fn fails(&self, fault: &str, part: &str) {
        let fresh = self.how.with_extension("new");
        fs::write(&fresh, format!("{fault} {part}")).expect("a file of the test");
        fs::rename(&fresh, &self.how).expect("its name");
    }

    fn heals(&self) {
        fs::write(&self.how, "").expect("a file of the test");
    }
}

fn cluster() -> (Cluster, Disk) {
    let place = Cluster::place();
    let (dir, how) = (place.dir(), place.files().join("how"));
    fs::write(&how, "").expect("a file of the test");
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let library = text(&built("libpcm-sick-disk.so"));
    let (below, told) = (text(&dir), text(&how));
    let variables = [
        DEFAULT_PATIENCE,
        ("LD_PRELOAD", library.as_str()),
        ("PCM_SICK_DIR", below.as_str()),
        ("PCM_SICK_HOW", told.as_str()),
    ];
    (place.booted(&["--local", "3"], &variables), Disk { how })
}

fn daemons(cluster: &Cluster) -> Vec<u32> {
    ["n0", "n1", "n2"].map(|node| cluster.daemon_pid(node)).into()
}

fn events_written(cluster: &Cluster) -> u64 {
    let files = ["n0", "n1", "n2"].map(|node| cluster.dir().join("nodes").join(node).join("events.jsonl"));
    files
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|data| data.len())
        .sum()
}

/// A job under which each of the files fails in turn.
fn job_on_a_disk_that(fault: &str) {
    let (cluster, disk) = cluster();
    let before = daemons(&cluster);
    let job = Malleable::start(&cluster, "heat2d-c", 2, RUN.0, RUN.1);
    for (turn, file) in FILES.iter().enumerate() {
        disk.fails(fault, file);
        let to = ["n2", "n1"][turn % 2];
        let done = job.migrate(1, to);
        assert_eq!(done["mode"], "live", "{done}");
        let made = cluster.run(&["checkpoint", "1"]);
        assert!(made.status.success(), "{made:?}");
        assert_eq!(job.nodes()[1], to);
        disk.heals();
    }
    assert_eq!(cluster.events(Some("1"), "reconfigured").len(), FILES.len());
    let written = events_written(&cluster);
    job.migrate(1, "n1");
    wait::until("events to be written again", LIMIT, || {
        (events_written(&cluster) > written).then_some(())
    });
    for kind in ["files_fail", "files_back"] {
        assert!(
            !cluster.events(None, kind).is_empty(),
            "no event {kind}\n{}",
            cluster.logs()
        );
    }
    assert_eq!(daemons(&cluster), before, "{}", cluster.logs());
    job.ends_right();
    cluster.down();
}

/// The daemon that leads the job starts again among files that all fail.
fn daemon_killed_on_a_disk_that(fault: &str) {
    let (cluster, disk) = cluster();
    let job = Malleable::start(&cluster, "heat2d-c", 2, RUN.0, RUN.1);
    disk.fails(fault, "/");
    assert!(processes::send(cluster.daemon_pid("n0"), Signal::KILL));
    wait::until("the daemon again", LIMIT, || {
        (!cluster.events(None, "daemon_restarted").is_empty()).then_some(())
    });
    // Without the files it learns of n2 from n1, perhaps later than it is asked for it.
    job.migrate(1, "n2");
    disk.heals();
    job.migrate(1, "n1");
    job.ends_right();
    cluster.down();
}

#[test]
fn a_daemon_that_is_killed_while_its_files_fail_comes_back_and_no_rank_is_lost() {
    for error in ERRORS {
        daemon_killed_on_a_disk_that(&error.raw_os_error().to_string());
    }
}

#[test]
fn a_disk_with_errors_costs_no_rank_no_daemon_and_no_change() {
    let rounds = asked::number("PCM_DISK_ROUNDS").map_or(ERRORS.len(), |rounds| rounds as usize);
    for round in 0..rounds {
        let error = ERRORS[round % ERRORS.len()];
        println!("round {round}: {error}");
        job_on_a_disk_that(&error.raw_os_error().to_string());
    }
}

#[test]
fn a_file_server_that_is_away_for_ten_seconds_makes_no_node_silent() {
    let (cluster, disk) = cluster();
    let before = daemons(&cluster);
    let job = Malleable::start(&cluster, "heat2d-c", 2, 4 * RUN.0, RUN.1);
    disk.fails("stall", "/");
    let begun = Instant::now();
    let mut moves = 0;
    while begun.elapsed() < AWAY {
        job.migrate(1, ["n2", "n1"][moves % 2]);
        moves += 1;
        for node in ["n0", "n1", "n2"] {
            assert_eq!(cluster.node_state(node), "up", "after {:?}", begun.elapsed());
        }
    }
    println!("{moves} changes while it was away");
    disk.heals();
    wait::until("events to be written again", LIMIT, || {
        (events_written(&cluster) > 0).then_some(())
    });
    assert_eq!(daemons(&cluster), before, "{}", cluster.logs());
    let kinds = ["node_suspect", "node_gone", "daemon_restarted"];
    for kind in kinds {
        assert!(cluster.events(None, kind).is_empty(), "{kind}\n{}", cluster.logs());
    }
    job.ends_right();
    cluster.down();
}

/// A daemon that starts again finds its folder, says where it listens, and reads its events.
#[test]
fn daemons_that_are_killed_while_a_file_server_is_away_are_there_again_at_once() {
    let (cluster, disk) = cluster();
    let job = Malleable::start(&cluster, "heat2d-c", 2, 4 * RUN.0, RUN.1);
    job.migrate(1, "n2");
    let before = daemons(&cluster);
    disk.fails("stall", "/");
    let begun = Instant::now();
    for (daemon, node) in before.iter().zip(["n0", "n1", "n2"]) {
        assert!(processes::send(*daemon, Signal::KILL));
        wait::until("the daemon again", AWAY / 3, || {
            let events = cluster.events(None, "daemon_restarted");
            events.iter().any(|event| event["node"] == node).then_some(())
        });
    }
    let moves = job.migrate(1, "n1");
    assert!(begun.elapsed() < AWAY, "{moves} after {:?}", begun.elapsed());
    while begun.elapsed() < AWAY {
        for node in ["n0", "n1", "n2"] {
            assert_eq!(cluster.node_state(node), "up", "after {:?}", begun.elapsed());
        }
        thread::sleep(Duration::from_millis(100));
    }
    disk.heals();
    wait::until("events from before", LIMIT, || {
        (cluster.events(Some("1"), "reconfigured").len() == 2).then_some(())
    });
    job.ends_right();
    cluster.down();
}

/// An agent opens its log when it starts, and reads the tuning of its cluster.
#[test]
fn agents_that_are_killed_while_a_file_server_is_away_come_back_and_no_node_is_silent() {
    let (cluster, disk) = cluster();
    let before = daemons(&cluster);
    let first = wait::until("all agents", LIMIT, || three_agents(&cluster));
    let job = Malleable::start(&cluster, "heat2d-c", 2, 4 * RUN.0, RUN.1);
    disk.fails("stall", "/");
    let begun = Instant::now();
    for (turn, agent) in first.iter().enumerate() {
        assert!(processes::send(*agent, Signal::KILL));
        job.migrate(1, ["n2", "n1"][turn % 2]);
    }
    while begun.elapsed() < AWAY {
        for node in ["n0", "n1", "n2"] {
            assert_eq!(cluster.node_state(node), "up", "after {:?}", begun.elapsed());
        }
        thread::sleep(Duration::from_millis(100));
    }
    disk.heals();
    let after = wait::until("all agents again", LIMIT, || three_agents(&cluster));
    assert!(after.iter().all(|agent| !first.contains(agent)), "{first:?} {after:?}");
    assert_eq!(daemons(&cluster), before, "{}", cluster.logs());
    job.migrate(1, "n1");
    job.ends_right();
    cluster.down();
}

fn three_agents(cluster: &Cluster) -> Option<Vec<u32>> {
    Some(cluster.ranks_of("ios-agent")).filter(|agents| agents.len() == 3)
}
