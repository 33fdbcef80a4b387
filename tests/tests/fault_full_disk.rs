//! The disk with the files of all daemons (their events, logs, addresses) is full while a job runs: no rank is lost by
//! it, a killed rank, a killed daemon and a change of the job go as on any day, and the result is right.

use rustix::{fs::statvfs, process::Signal};
use serde_json::Value;
use std::{
    fs::{self, DirBuilder, File},
    io::Write,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};
use tests::{
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    crashing::Crashing,
    processes,
    shared_memory::SMALL_DISK_VARIABLE,
    skip::cannot_run,
    wait,
};

/// Iterations of about three milliseconds.
const LENGTH: (u64, u32) = (2000, 2500);

const NODES: [&str; 2] = ["n0", "n1"];

/// The folder of the nodes as the daemons see it, with its small disk.
fn seen_by(daemon: u32, folder: &Path) -> PathBuf {
    let inside = folder.strip_prefix("/").expect("an absolute path");
    Path::new(&format!("/proc/{daemon}/root")).join(inside)
}

fn free_bytes(folder: &Path) -> u64 {
    let disk = statvfs(folder).expect("a disk");
    disk.f_bavail * disk.f_frsize
}

/// Writes until there is no room for another byte.
fn fill(folder: &Path) {
    let mut file = File::create(folder.join("filler")).expect("room for a name");
    while file.write_all(&[7; 512]).is_ok() {}
    while file.write_all(&[7]).is_ok() {}
    assert_eq!(free_bytes(folder), 0);
}

/// The daemon of a node, if one answers.
fn daemon(cluster: &Cluster, node: &str) -> Option<u32> {
    let asked = cluster.run(&["nodes", "--json"]);
    let nodes: Value = serde_json::from_str(&asked.stdout).ok()?;
    let status = nodes.as_array()?.iter().find(|status| status["name"] == node)?.clone();
    u32::try_from(status["daemon_pid"].as_u64()?)
        .ok()
        .filter(|pid| *pid != 0)
}

#[test]
fn a_full_disk_under_the_daemons_costs_no_rank() {
    let mut cluster = Cluster::place();
    let folder = cluster.dir().join("nodes");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.expect("a folder of the test");
    let disk = folder.to_str().expect("a path in UTF-8").to_owned();
    let up = cluster.boot_with(&["--local", "2"], &[(SMALL_DISK_VARIABLE, &disk), CRASH_PATIENCE]);
    assert!(up.status.success(), "{up:?}");
    let small = seen_by(cluster.daemon_pid("n0"), &folder);
    if fs::read_dir(&small).map_or(0, Iterator::count) == 0 {
        cluster.down();
        return cannot_run("no mount namespace of one's own");
    }
    let job = Crashing::start(&cluster, &["--checkpoint-every", "0.3"], LENGTH);
    job.wait_for("checkpoint_complete", 1);
    fill(&small);
    let moved = cluster.run(&["migrate", &job.number().to_string(), "--rank", "0", "--to", "n1"]);
    assert!(moved.status.success(), "{moved:?}");
    job.wait_for("checkpoint_complete", 3);
    processes::send(job.ranks()[1], Signal::KILL);
    job.wait_for("recovered", 1);
    for node in NODES {
        let before = cluster.daemon_pid(node);
        processes::send(before, Signal::KILL);
        wait::until("another daemon", LIMIT, || {
            daemon(&cluster, node).filter(|pid| *pid != before)
        });
    }
    let seen = seen_by(cluster.daemon_pid("n1"), &folder);
    assert_eq!(free_bytes(&seen), 0, "the disk was full all the time");
    job.ends_right();
    cluster.down();
}
