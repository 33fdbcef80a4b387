//! Checkpoints in files: written by a run, restored on any number of ranks, under plain mpiexec and in a cluster; the
//! result is that of an undisturbed run, bit for bit.

use std::{
    fs,
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};
use tempfile::TempDir;
use tests::{
    binaries::{built, mpiexec},
    cluster::Cluster,
    heat2d::{Closing, reference_checksum},
    limited::{self, Outcome},
    shared_memory::OwnSharedMemory,
};

const PROGRAMS: [&str; 2] = ["heat2d", "heat2d-c"];

/// A run takes about a second; this is for a machine that does much else.
const LIMIT: Duration = Duration::from_secs(120);

const PLATE: [&str; 6] = ["--rows", "61", "--cols", "83", "--iterations", "400"];

fn run(program: &str, ranks: u32, variables: &[(&str, &Path)]) -> Outcome {
    run_plate(program, ranks, &PLATE, variables)
}

/// Plain MPI leaves its shared memory behind when a program aborts, so the run has its own where that can be.
fn run_plate(program: &str, ranks: u32, plate: &[&str], variables: &[(&str, &Path)]) -> Outcome {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-plain-{}", process::id(), RUNS.fetch_add(1, Relaxed));
    let own = OwnSharedMemory::new(&mark);
    let mut command = own
        .as_ref()
        .map_or_else(|| Command::new(mpiexec()), |own| own.command(&mpiexec()));
    command.args(["-n", &ranks.to_string()]).arg(built(program)).args(plate);
    command.args(["--sleep-us", "1000"]);
    command.envs(variables.iter().copied());
    // And a file in /tmp in which it hands over the machine's topology; given a name it makes none.
    command.env("HWLOC_XMLFILE", "/nonexistent");
    limited::run(&mut command, LIMIT)
}

/// The complete checkpoints of a directory, oldest first.
fn checkpoints(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of checkpoints");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // A draft has its seal, too, before it gets its name.
    let is_named = |path: &Path| {
        !path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    };
    found.retain(|path| is_named(path) && path.join("SEAL").is_file());
    found.sort();
    found
}

fn finished(outcome: &Outcome, what: &str) -> Closing {
    assert!(outcome.status.success(), "{what}: {outcome:?}");
    Closing::read(&outcome.stdout)
}

fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("pcm checkpoints ").tempdir();
    folder.expect("a temporary folder")
}

/// A run of two ranks that wrote checkpoints, and those, oldest first.
fn made() -> (TempDir, Vec<PathBuf>) {
    let folder = folder();
    let every = [
        ("PCM_CHECKPOINT_DIR", folder.path()),
        ("PCM_CHECKPOINT_EVERY", Path::new("0.1")),
    ];
    finished(&run("heat2d-c", 2, &every), "the first run");
    let made = checkpoints(folder.path());
    (folder, made)
}

#[test]
fn a_run_goes_on_from_its_checkpoint_on_any_number_of_ranks() {
    let expected = reference_checksum(61, 83, 400);
    for program in PROGRAMS {
        let folder = folder();
        let every = [
            ("PCM_CHECKPOINT_DIR", folder.path()),
            ("PCM_CHECKPOINT_EVERY", Path::new("0.1")),
        ];
        let undisturbed = finished(&run(program, 3, &every), program);
        assert_eq!(
            undisturbed.checksum, expected,
            "checkpoints changed the result of {program}"
        );
        let made = checkpoints(folder.path());
        assert_eq!(made.len(), 2, "{program} keeps two checkpoints: {made:?}");
        for ranks in [1, 2, 3, 5] {
            let restored = run(program, ranks, &[("PCM_RESTORE", &made[0])]);
            let closing = finished(&restored, program);
            assert_eq!(closing.checksum, expected, "{program} from 3 to {ranks} ranks");
            assert!(
                closing.seconds < 0.9 * undisturbed.seconds || undisturbed.seconds > 4.0,
                "{program} computed everything again: {} of {} s",
                closing.seconds,
                undisturbed.seconds
            );
        }
    }
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_older_one_taken() {
    let (_folder, made) = made();
    let part = made[1].join("region000-t.rank00001.npy");
    let file = fs::File::options().write(true).open(&part).expect("the part of rank 1");
    file.write_all_at(b"damage", 1000).expect("it can be damaged");
    let refused = run("heat2d-c", 3, &[("PCM_RESTORE", &made[1])]);
    assert!(
        !refused.status.success(),
        "a damaged checkpoint was restored: {refused:?}"
    );
    assert!(
        refused.stderr.contains("is damaged: the block at byte 0"),
        "{refused:?}"
    );
    let both = format!("{}\n{}", made[1].display(), made[0].display());
    let restored = run("heat2d-c", 3, &[("PCM_RESTORE", Path::new(&both))]);
    assert_eq!(
        finished(&restored, "from the older one").checksum,
        reference_checksum(61, 83, 400)
    );
}

#[test]
fn the_checkpoints_of_a_directory_are_listed_and_what_is_unfinished_there_is_named() {
    let (folder, made) = made();
    let cut = folder.path().join("cut");
    fs::create_dir(&cut).expect("a folder");
    fs::copy(made[0].join("manifest.json"), cut.join("manifest.json")).expect("a copy");
    let cluster = Cluster::up(1);
    let listed = cluster.run(&["checkpoints", folder.path().to_str().expect("a path in UTF-8")]);
    cluster.down();
    assert!(listed.status.success(), "{listed:?}");
    for checkpoint in &made {
        let name = checkpoint.to_str().expect("a path in UTF-8");
        assert_eq!(listed.stdout.matches(name).count(), 1, "{listed:?}");
    }
    let named = format!("{} is unfinished, no checkpoint", cut.display());
    assert!(
        listed.stderr.contains(&named) && !listed.stdout.contains("/cut"),
        "{listed:?}"
    );
}

#[test]
fn a_checkpoint_of_another_program_is_refused() {
    let (_folder, made) = made();
    let another = ["--rows", "61", "--cols", "84", "--iterations", "400"];
    let refused = run_plate("heat2d-c", 2, &another, &[("PCM_RESTORE", &made[0])]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(refused.stderr.contains("the program registers \"t\""), "{refused:?}");
}

#[test]
fn in_a_cluster_a_killed_job_is_restarted_from_its_checkpoint_also_after_down_and_up() {
    let mut cluster = Cluster::up(3);
    let directory = cluster.files().join("kept");
    // As the Python of a virtual environment is a link, by whose path it finds its packages.
    let link = cluster.files().join("linked program");
    symlink(built("heat2d-c"), &link).expect("a link");
    let place = directory.to_str().expect("a path in UTF-8");
    let program = "./linked program";
    let started = cluster.run(
        &[
            &[
                "run",
                "-n",
                "3",
                "--checkpoint-every",
                "0.2",
                "--checkpoint-dir",
                place,
                "--detach",
                "--name",
                "plate",
                "--",
            ],
            &[program][..],
            &PLATE,
            &["--sleep-us", "10000"],
        ]
        .concat(),
    );
    assert!(started.status.success(), "{started:?}");
    tests::wait::until("a checkpoint is there", LIMIT, || {
        (directory.is_dir() && !checkpoints(&directory).is_empty()).then_some(())
    });
    let killed = cluster.run(&["kill", "plate"]);
    assert!(killed.status.success(), "{killed:?}");
    assert!(cluster.run(&["down"]).status.success());
    assert!(cluster.boot(&["--local", "2"]).status.success());
    let newest = checkpoints(&directory).pop().expect("it is still there");
    let newest = newest.to_str().expect("a path in UTF-8");
    let shown = cluster.run(&["checkpoints", "show", newest, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(
        shown["application"]["program"],
        link.to_str().expect("a path in UTF-8"),
        "{shown}"
    );
    let restarted = cluster.run(&["restart", newest, "-n", "2"]);
    assert!(
        restarted.stderr.contains("plate continues from"),
        "its name: {restarted:?}"
    );
    let closing = finished(&restarted, "restart");
    assert_eq!((closing.checksum, closing.ranks), (reference_checksum(61, 83, 400), 2));
    assert!(restarted.stderr.contains("continues from iteration"), "{restarted:?}");
    cluster.down();
}
