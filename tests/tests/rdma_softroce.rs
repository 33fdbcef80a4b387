//! The verbs providers on a RoCE device in software: two processes in one guest, and one in each of two. The guests are
//! emulated, so their times say nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};
use tests::{
    limited::{self, Outcome},
    skip::cannot_run,
};

/// A guest takes ten seconds alone on two cores; emulation on a loaded machine is far slower.
const GUEST_MAX: Duration = Duration::from_secs(400);

/// What the trial says when every message and block came through.
const ALL_IS_WELL: &str = "rdma: all is well";

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("softroce")
}

/// The folder that `cargo xtask test rdma` fills.
fn brought() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/softroce");
    let missing = ["vmlinux", "initrd", "rdma_trial"]
        .into_iter()
        .find(|name| !folder.join(name).is_file());
    if let Some(missing) = missing {
        cannot_run(&format!(
            "{} is not there: `cargo xtask test rdma` brings it, where qemu and a Debian archive are",
            folder.join(missing).display()
        ));
        return None;
    }
    folder.canonicalize().ok()
}

/// Runs `script`, in which `$trial` is the program and `$1` the node's number, in a guest.
fn guest(folder: &Path, script: &str, node: u32, network: Option<&str>) -> Outcome {
    let job = tempfile::tempdir().expect("a folder for the job");
    // The guest has a /tmp and a /run of its own: what lies there on the host is not seen.
    fs::copy(folder.join("rdma_trial"), job.path().join("rdma_trial")).expect("the program is copied");
    fs::write(job.path().join("run"), format!("trial=/mnt/rdma_trial\n{script}\n")).expect("the job is written");
    let mut command = Command::new(scripts().join("guest"));
    command.arg(folder).arg(job.path()).arg(node.to_string()).args(network);
    limited::run(&mut command, GUEST_MAX)
}

fn assert_well(outcome: &Outcome) {
    assert!(
        outcome.stdout.contains(ALL_IS_WELL) && outcome.stdout.contains("ended with 0"),
        "{}\n{}",
        outcome.stdout,
        outcome.stderr
    );
}

#[test]
fn two_processes_in_one_guest_exchange_messages_and_memory() {
    let Some(folder) = brought() else { return };
    let script = r#""$trial" serve & "$trial" try 10.9.0.1 && wait $!"#;
    assert_well(&guest(&folder, script, 1, None));
}

#[test]
fn two_guests_exchange_messages_and_memory() {
    let Some(folder) = brought() else { return };
    let shared = tempfile::tempdir().expect("a folder for the network");
    let network = format!("addr.type=unix,addr.path={}", shared.path().join("network").display());
    let (first, second) = (
        format!("stream,id=network,server=on,{network}"),
        format!("stream,id=network,server=off,{network}"),
    );
    let serving = {
        let folder = folder.clone();
        thread::spawn(move || guest(&folder, r#"exec "$trial" serve"#, 1, Some(&first)))
    };
    let socket = shared.path().join("network");
    tests::wait::until("the first guest's network", Duration::from_secs(60), || {
        socket.exists().then_some(())
    });
    let asking = guest(&folder, r#"exec "$trial" try 10.9.0.1"#, 2, Some(&second));
    let serving = serving.join().expect("the first guest ended");
    assert_well(&asking);
    assert!(
        serving.stdout.contains("ended with 0"),
        "{}\n{}",
        serving.stdout,
        serving.stderr
    );
}
