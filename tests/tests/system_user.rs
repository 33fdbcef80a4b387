//! An ordinary user's cluster: everything works without root, beside another user's cluster on the same machine.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};
use tests::{
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    skip::cannot_run,
};

/// A user and group without rights of their own; every Linux has it.
const NOBODY: &str = "65534";

/// Runs a shell script as nobody, who gets a folder of its own.
fn as_nobody(cluster: &Cluster, script: &str) -> Outcome {
    let folder = cluster.files().join("nobody");
    if !folder.exists() {
        fs::create_dir(&folder).expect("a folder of the test");
        for path in [cluster.files(), &folder] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("our own folder");
        }
    }
    let mut command = cluster.command("setpriv");
    command.args([
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        "sh",
        "-c",
        script,
    ]);
    command
        .env("PCM_CLUSTER", folder.join("cluster dir"))
        .env("TMPDIR", &folder)
        .env("HOME", &folder)
        .env("CTL", built("pcmctl"))
        .env("TRIAL", built("pcm-trial"))
        .current_dir(&folder);
    limited::run(&mut command, LIMIT)
}

fn can_be_nobody(cluster: &Cluster) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !is_root || !has_setpriv {
        // An ordinary user runs every other test as such.
        cannot_run("becoming another user needs root and setpriv");
        return false;
    }
    let outcome = as_nobody(cluster, "\"$CTL\" --version && test -x \"$TRIAL\"");
    if !outcome.status.success() {
        cannot_run(&format!("nobody cannot execute what was built: {}", outcome.stderr));
    }
    outcome.status.success()
}

#[test]
fn an_ordinary_user_runs_a_cluster_beside_that_of_root() {
    let cluster = Cluster::up(2);
    if !can_be_nobody(&cluster) {
        return cluster.down();
    }
    let mut beside = cluster.trial_beside(2, &["ring", "3"]);
    beside.wait_for("round 0", LIMIT);
    let script = "set -e; \"$CTL\" up --local 2 >&2; trap '\"$CTL\" down >&2' EXIT; \"$CTL\" run -n 3 -- \"$TRIAL\" \
                  ring 1; \"$CTL\" run -n 2 -- id -u";
    let outcome = as_nobody(&cluster, script);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.stdout.ends_with("ring done\n65534\n65534\n"), "{outcome:?}");
    let outcome = beside.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}

#[test]
fn another_user_gets_nothing_of_a_cluster() {
    let cluster = Cluster::up(1);
    if !can_be_nobody(&cluster) {
        return cluster.down();
    }
    let dir = cluster.dir();
    let script = format!("\"$CTL\" --cluster '{}' nodes", dir.display());
    let outcome = as_nobody(&cluster, &script);
    assert!(!outcome.status.success() && outcome.stdout.is_empty(), "{outcome:?}");
    // Even with the record in hand the key stays closed.
    for path in [dir.clone(), dir.join("cluster.json")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own cluster");
    }
    let outcome = as_nobody(&cluster, &script);
    assert_eq!(outcome.status.code(), Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("[foreign_cluster]"), "{outcome:?}");
    cluster.down();
}

#[test]
fn a_directory_that_another_user_laid_out_is_refused_and_starts_nothing() {
    let cluster = Cluster::up(1);
    if !can_be_nobody(&cluster) {
        return cluster.down();
    }
    // A record that would have this user's ssh run a program of the other's.
    let record = "{\"id\": \"a1\", \"created_us\": 1, \"nodes\": [{\"name\": \"a\", \"address\": \"127.0.0.1\", \
                  \"site\": \"s\", \"cpus\": [], \"listens\": null, \
                  \"reach\": {\"Ssh\": {\"destination\": \"-oProxyCommand=touch started\"}}}]}";
    let script = format!("mkdir -m 755 \"$PCM_CLUSTER\" && printf '%s' '{record}' > \"$PCM_CLUSTER/cluster.json\"");
    let laid = as_nobody(&cluster, &script);
    assert!(laid.status.success(), "{laid:?}");
    let foreign = cluster.files().join("nobody/cluster dir");
    for verb in [&["nodes"][..], &["down"], &["up", "--local", "1"], &["run", "true"]] {
        let mut command = cluster.command(built("pcmctl"));
        command
            .args(verb)
            .env("PCM_CLUSTER", &foreign)
            .current_dir(cluster.files());
        let outcome = limited::run(&mut command, LIMIT);
        assert_eq!(outcome.status.code(), Some(4), "{verb:?}: {outcome:?}");
        assert!(outcome.stderr.contains("[foreign_cluster]"), "{verb:?}: {outcome:?}");
    }
    assert!(!cluster.files().join("started").exists());
    assert!(foreign.join("cluster.json").exists(), "it is not ours to remove");
    cluster.down();
}
