//! Files of checkpoints are written behind the program's back, no faster than allowed; on notice that a node is taken
//! away a job that has nowhere to go is written into files.

use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    binaries::{built, mpiexec},
    cluster::Cluster,
    crashing::Crashing,
    heat2d::{Closing, reference_checksum},
    limited, processes, wait,
};

const LIMIT: Duration = Duration::from_secs(120);

/// Of this 7.7 MB are written: four seconds at [`RATE`].
const PLATE: (usize, usize) = (1200, 800);

/// Megabytes a second of all ranks.
const RATE: &str = "2";

/// The program is held for so long at most, on a machine that does much else.
const HELD_MS_MAX: f64 = 1000.0;

fn plate(iterations: u64, sleep_us: u32) -> Vec<String> {
    let (rows, cols) = PLATE;
    let text = format!("--rows {rows} --cols {cols} --iterations {iterations} --sleep-us {sleep_us}");
    text.split(' ').map(str::to_owned).collect()
}

/// Entries of a directory whose names the rule likes.
fn entries(directory: &Path, is_one: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_one(path)).collect();
    found.sort();
    found
}

/// A draft has its seal, too, before it gets its name.
fn published(directory: &Path) -> Vec<PathBuf> {
    let is_named = |path: &Path| {
        !path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    };
    entries(directory, |path| is_named(path) && path.join("SEAL").is_file())
}

fn drafts(directory: &Path) -> Vec<PathBuf> {
    entries(directory, |path| path.to_string_lossy().contains(".partial-"))
}

fn iteration(cluster: &Cluster) -> u64 {
    let status: Value = serde_json::from_str(&cluster.run(&["ps", "plate", "--json"]).stdout).unwrap_or_default();
    let rows = status["ranks"].as_array().cloned().unwrap_or_default();
    rows.iter()
        .filter_map(|row| row["iteration"].as_u64())
        .min()
        .unwrap_or(0)
}

fn complete(cluster: &Cluster) -> Vec<Value> {
    let told = cluster.run(&["events", "plate", "--json"]).stdout;
    let events = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["kind"] == "checkpoint_complete").collect()
}

#[test]
fn while_files_are_written_the_program_iterates_and_makes_the_next_checkpoints() {
    let cluster = Cluster::up(2);
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8").to_owned();
    let options = [
        "run",
        "-n",
        "4",
        "--name",
        "plate",
        "--checkpoint-every",
        "0.4",
        "--checkpoint-dir",
        &place,
        "--",
    ];
    let mut command = cluster.pcmctl(&options);
    command
        .arg(built("heat2d-c"))
        .args(plate(1500, 6000))
        .env("PCM_CHECKPOINT_RATE", RATE);
    let job = Background::start(&mut command);
    let draft = wait::until("files that are being written", LIMIT, || drafts(&kept).pop());
    let (begun, made) = (iteration(&cluster), complete(&cluster).len());
    wait::until(
        "iterations and checkpoints while the same files are written",
        LIMIT,
        || {
            let has_gone_on = iteration(&cluster) > begun + 20 && complete(&cluster).len() >= made + 2;
            assert!(
                draft.is_dir(),
                "the files were there before the program went on: {}",
                cluster.logs()
            );
            has_gone_on.then_some(())
        },
    );
    let first = wait::until("the files", LIMIT, || published(&kept).into_iter().next());
    let path = first.to_str().expect("a path in UTF-8").to_owned();
    let verified = cluster.run(&["checkpoints", "verify", &path]);
    assert!(
        verified.status.success(),
        "what was overwritten meanwhile is in the files: {verified:?}"
    );
    let held = complete(&cluster);
    let longest = held
        .iter()
        .filter_map(|event| event["held_ms"].as_f64())
        .fold(0.0, f64::max);
    assert!(longest < HELD_MS_MAX, "held for {longest} ms");
    let copy = cluster.files().join("first");
    let copied = Command::new("cp").arg("-r").args([&first, &copy]).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let expected = reference_checksum(PLATE.0, PLATE.1, 1500);
    assert_eq!(Closing::read(&outcome.stdout).checksum, expected);
    assert!(drafts(&kept).is_empty(), "{:?}", drafts(&kept));
    let restarted = cluster.run(&["restart", copy.to_str().expect("a path in UTF-8"), "-n", "3"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert_eq!(Closing::read(&restarted.stdout).checksum, expected);
    cluster.down();
}

#[test]
fn without_a_cluster_too_the_program_computes_while_its_files_are_written_and_its_end_waits_for_them() {
    let folder = tempfile::Builder::new()
        .prefix("pcm files ")
        .tempdir()
        .expect("a folder");
    let mut command = Command::new(mpiexec());
    command.args(["-n", "2"]).arg(built("heat2d-c")).args(plate(60, 2000));
    command
        .env("PCM_CHECKPOINT_DIR", folder.path())
        .env("PCM_CHECKPOINT_EVERY", "0.1");
    command.env("PCM_CHECKPOINT_RATE", RATE);
    let since = Instant::now();
    let outcome = limited::run(&mut command, LIMIT);
    let took = since.elapsed().as_secs_f64();
    assert!(outcome.status.success(), "{outcome:?}");
    let closing = Closing::read(&outcome.stdout);
    assert_eq!(closing.checksum, reference_checksum(PLATE.0, PLATE.1, 60));
    // 7.7 MB at 2 MB/s, of which a rank's first block is free.
    assert!(
        took > 2.0 && closing.seconds < took - 0.5,
        "{} of {took} s",
        closing.seconds
    );
    assert!(
        !published(folder.path()).is_empty() && drafts(folder.path()).is_empty(),
        "{outcome:?}"
    );
}

#[test]
fn a_checkpoint_that_somebody_asks_for_goes_into_files_where_they_say() {
    let cluster = Cluster::up(2);
    let job = Crashing::start(&cluster, &[], (1200, 2500));
    wait::until("its ranks", LIMIT, || (job.ranks().len() == 4).then_some(()));
    let place = cluster.files().join("asked");
    let made = cluster.json(&[
        "checkpoint",
        tests::crashing::JOB,
        "--dir",
        place.to_str().expect("UTF-8"),
    ]);
    let directory = made["directory"].as_str().expect("where it is").to_owned();
    assert_eq!(published(&place), [PathBuf::from(&directory)]);
    job.ends_right();
    let restarted = cluster.run(&["restart", &directory, "-n", "2"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert_eq!(
        Closing::read(&restarted.stdout).checksum,
        Crashing::expected_checksum(1200)
    );
    cluster.down();
}

#[test]
fn files_that_cannot_be_written_are_told_and_the_program_goes_on() {
    let cluster = Cluster::up(2);
    let job = Crashing::start(&cluster, &[], (1200, 2500));
    wait::until("its ranks", LIMIT, || (job.ranks().len() == 4).then_some(()));
    let place = cluster.files().join("no directory");
    fs::write(&place, "a file").expect("a file of the test");
    let refused = cluster.run(&[
        "checkpoint",
        tests::crashing::JOB,
        "--dir",
        place.to_str().expect("UTF-8"),
    ]);
    assert!(
        !refused.status.success() && refused.stderr.contains("not_filed"),
        "{refused:?}"
    );
    job.ends_right();
    cluster.down();
}

/// The newcomers of a job's reconfigurations are not ready before its node is taken away, while its ranks iterate.
const CANNOT_LEAVE: (&str, &str) = ("PCM_HOLD", "preparing:60000");

/// A job that does not leave a node in time goes on elsewhere, from a checkpoint whose parts of that node are on a
/// partner, and that is in files, too.
fn survives_on_partner_and_in_files(take_away: fn(&Cluster)) {
    const LENGTH: (u64, u32) = (4000, 2500);
    let mut cluster = Cluster::place();
    let up = cluster.boot_with(&["--local", "3"], &[("PCM_NOTICE_SECONDS", "8")]);
    assert!(up.status.success(), "{up:?}");
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8").to_owned();
    let variables = [("PCM_CHECKPOINT_DIR", place.as_str()), CANNOT_LEAVE];
    let job = Crashing::start_with(&cluster, &[], LENGTH, &variables);
    wait::until("its ranks", LIMIT, || (job.ranks().len() == 4).then_some(()));
    assert_eq!(job.coordinator(), "n0");
    take_away(&cluster);
    wait::until("the end of the node", LIMIT, || {
        let state = cluster.node_state("n1");
        (state.is_empty() || state == "gone").then_some(())
    });
    job.wait_for("recovered", 1);
    let newest = published(&kept)
        .pop()
        .unwrap_or_else(|| panic!("no files: {}", cluster.logs()));
    assert!(drafts(&kept).is_empty(), "{:?}", drafts(&kept));
    // Nobody else has what was in the memory of the lost node.
    wait::until("a rank to kill", LIMIT, || job.kill_rank(0).then_some(()));
    job.wait_for("recovered", 2);
    let recovered = job.events("recovered");
    assert_eq!(recovered[1]["from"], recovered[0]["from"]);
    assert!(recovered[1]["from"].as_u64() > Some(0), "from the beginning");
    job.ends_right();
    let restarted = cluster.run(&["restart", newest.to_str().expect("UTF-8"), "-n", "2"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert_eq!(
        Closing::read(&restarted.stdout).checksum,
        Crashing::expected_checksum(LENGTH.0)
    );
    cluster.down();
}

#[test]
fn notice_leaves_a_checkpoint_on_a_partner_and_in_files() {
    survives_on_partner_and_in_files(|cluster| {
        processes::send(cluster.daemon_pid("n1"), Signal::TERM);
    });
}

#[test]
fn a_drain_with_a_deadline_leaves_a_checkpoint_on_a_partner_and_in_files() {
    survives_on_partner_and_in_files(|cluster| {
        let drained = cluster.run(&["drain", "n1", "--deadline", "6"]);
        assert!(drained.status.success(), "{drained:?}");
        let removed = cluster.run(&["remove", "n1"]);
        assert!(removed.status.success(), "{removed:?}");
    });
}

#[test]
fn a_job_that_has_nowhere_to_go_when_its_node_is_taken_away_is_in_files() {
    let mut cluster = Cluster::place();
    let up = cluster.boot_with(&["--local", "1"], &[("PCM_NOTICE_SECONDS", "12")]);
    assert!(up.status.success(), "{up:?}");
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8").to_owned();
    let variables = [("PCM_CHECKPOINT_DIR", place.as_str())];
    let job = Crashing::start_with(&cluster, &[], (2000, 2500), &variables);
    wait::until("its ranks", LIMIT, || (job.ranks().len() == 4).then_some(()));
    let daemon = cluster.daemon_pid("n0");
    let keeper = processes::parent(daemon);
    processes::send(daemon, Signal::TERM);
    let outcome = job.end();
    assert!(!outcome.status.success(), "{outcome:?}");
    wait::until("the end of the node", LIMIT, || {
        (!processes::is_alive(daemon) && !processes::is_alive(keeper)).then_some(())
    });
    let newest = published(&kept)
        .pop()
        .unwrap_or_else(|| panic!("no files: {outcome:?} {}", cluster.logs()));
    assert!(drafts(&kept).is_empty(), "{:?}", drafts(&kept));
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
