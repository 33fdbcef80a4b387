//! Guests with a RoCE device in software, emulated: alone, or two that share a network, with or without nodes of a
//! cluster. Must never judge what they say.

use crate::{
    binaries::{built, mpiexec},
    limited::{self, Outcome},
    skip::cannot_run,
    wait,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A guest takes ten seconds alone on two cores; emulation on a loaded machine is far slower.
const GUEST_MAX: Duration = Duration::from_secs(400);

/// What a node's guest begins with.
const PRELUDE: &str = r#"
export PATH=/mnt:$PATH HOME=/tmp PCM_CLUSTER=/tmp/cluster PCM_PATIENCE=20 PCM_POLICY=none
[ -d $mpi ] || { mkdir -p $mpi; mount -o bind /run/host$mpi $mpi; }
counter=/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
packets() { echo "packets: $(cat $counter)"; }
nodes() { pcmctl nodes --json | tr -d '\n'; }
give_up() {
    echo "given up: $1"
    pcmctl events
    pcmctl nodes
    tail -n 40 /tmp/cluster/nodes/*/*.log
    exit 1
}
# within SECONDS WHAT COMMAND...: tries until the command succeeds, or gives up.
within() {
    seconds=$1 what=$2
    shift 2
    for _ in $(seq $seconds); do
        "$@" && return
        sleep 1
    done
    give_up "$what"
}
# told COUNT WORDS WORDS: waits until so many events bear these words.
are_told() { [ $(pcmctl events --json | grep -e "$2" | grep -c -e "$3") -ge $1 ]; }
told() { within 90 "not told $1 times: $2 $3" are_told "$@"; }
# until_told WAY: waits until both daemons said that they take this way to each other.
until_told() { told 2 '"fabric_changed"' "\"by\":\"$1\""; }
events() { pcmctl events --json | grep -e "\"$1\"" | sed "s/^/$1: /"; }
# The keeper and the daemon of a node of this guest; its ranks end with them.
kill_node() {
    daemon=$(nodes | grep -o "\"name\":\"$1\"[^}]*\"daemon_pid\":[0-9]*" | grep -o '[0-9]*$')
    kill -9 $(cut -d' ' -f4 /proc/$daemon/stat) || give_up "node $1 was not killed"
    kill -9 $daemon 2> /dev/null
}
# until_n0_copied WAY: waits until the last copy that n0 made came this way.
last_copy() { pcmctl events --json | grep '"copy_way_changed"' | grep '"node":"n0"' | tail -n 1; }
n0_copied() { last_copy | grep -q "\"way\":\"$1\""; }
until_n0_copied() { within 60 "the last copy of n0 took another way than $1" n0_copied $1; }
# Waits until a CPU of each node is idle: then each gets some of six ranks.
are_quiet() { [ $(nodes | grep -o '"load_by_others":[0-9]*' | grep -c ':0$') = 2 ]; }
until_quiet() { within 60 "the nodes are never idle" are_quiet; }
# until_copies WAY: waits until the copies of both nodes take this way.
copy_by() { [ $(nodes | grep -o '"copies":"[a-z+]*"' | grep -c "\"$1\"") = 2 ]; }
until_copies() { within 60 "copies do not take this way: $1" copy_by $1; }
"#;

/// What the second of two guests with nodes does: whatever the first one asks for, until its node came and went. A node
/// is there while one of its processes is. One look may miss it: the program that is started makes the keeper and ends,
/// maybe after the look listed the processes and before it read their names.
const SECOND: &str = r#"
busybox nc -ll -p 2222 -e /bin/bash &
has_node() { grep -qs -e '^pcm-daemon' -e '^pcm-keeper' /proc/[0-9]*/comm; }
until has_node; do sleep 1; done
is_gone() { ! has_node && sleep 1 && ! has_node; }
until is_gone; do sleep 1; done
kill $!
"#;

/// What the first one begins with, beside the prelude.
const FIRST: &str = r#"
until (: < /dev/tcp/10.9.0.2/2222) 2> /dev/null; do sleep 1; done
printf 'n0 10.9.0.1\nn1 10.9.0.2 ssh=other\n' > /tmp/hosts
"#;

/// Takes the place of ssh, which guests do not have: its last argument is run in the other guest. What busybox starts
/// ignores the ends of its children.
const SSH: &str = r#"#!/bin/bash
{ printf '%s\n' "${@: -1}"; exec cat; } | exec busybox nc 10.9.0.2 2222
"#;

/// Held by the test whose guests run: emulated side by side they take each other's time.
static RUNNING: Mutex<()> = Mutex::new(());

/// What `cargo xtask test rdma` brought, and the right to run guests.
pub struct Guests {
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Guests {
    /// None where nothing was brought, which is said.
    pub fn brought() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/softroce");
        let missing = ["vmlinux", "initrd", "rdma_trial", "pcm-daemon"]
            .into_iter()
            .find(|name| !folder.join(name).is_file());
        if let Some(missing) = missing {
            cannot_run(&format!(
                "{} is not there: `cargo xtask test rdma` brings it, where qemu and a Debian archive are",
                folder.join(missing).display()
            ));
            return None;
        }
        let alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self {
            folder: folder.canonicalize().ok()?,
            _alone: alone,
        })
    }

    /// Runs `script`, in which `$trial` tries the verbs, in one guest.
    pub fn try_in_one(&self, script: &str) -> Outcome {
        run(&self.folder, &self.trial_files(), &trying(script), 1, None)
    }

    /// Runs a script in each of two guests.
    pub fn try_in_two(&self, first: &str, second: &str) -> (Outcome, Outcome) {
        let files = (self.trial_files(), self.trial_files());
        self.two((&files.0, trying(first)), (&files.1, trying(second)))
    }

    /// Runs `script`, which may boot nodes, in one guest.
    pub fn nodes_in_one(&self, script: &str) -> Outcome {
        run(&self.folder, &self.node_files(), &with_nodes(script), 1, None)
    }

    /// Runs `script` in a guest that can boot the nodes of /tmp/hosts: n0 in itself, n1 in the other.
    pub fn nodes_in_two(&self, script: &str) -> (Outcome, Outcome) {
        let (first, second) = (self.node_files(), self.node_files());
        let ssh = first.path().join("ssh");
        fs::write(&ssh, SSH).expect("the stand-in is written");
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("it can be run");
        self.two(
            (&first, with_nodes(&format!("{FIRST}{script}"))),
            (&second, with_nodes(SECOND)),
        )
    }

    /// The second opens the network, the first finds it.
    fn two(&self, first: (&TempDir, String), second: (&TempDir, String)) -> (Outcome, Outcome) {
        let place = tempfile::tempdir().expect("a folder for the network");
        let socket = place.path().join("network");
        let end = |serves: &str| {
            format!(
                "stream,id=network,server={serves},addr.type=unix,addr.path={}",
                socket.display()
            )
        };
        let (serving, found) = (end("on"), end("off"));
        thread::scope(|scope| {
            let second = scope.spawn(|| run(&self.folder, second.0, &second.1, 2, Some(&serving)));
            wait::until("the second guest's network", Duration::from_secs(60), || {
                socket.exists().then_some(())
            });
            let first = run(&self.folder, first.0, &first.1, 1, Some(&found));
            let second = second.join().expect("the second guest ended");
            println!("the second guest: {}\n{}", second.stdout, second.stderr);
            (first, second)
        })
    }

    fn trial_files(&self) -> TempDir {
        files(&[self.folder.join("rdma_trial")])
    }

    /// All that a node needs. Whatever a job starts finds the MPI where it lies on the host.
    fn node_files(&self) -> TempDir {
        let programs = ["pcmctl", "ios-agent", "pcm-trial", "heat2d-c", "libpcm.so"].map(built);
        files(&[&[self.folder.join("pcm-daemon")], &programs[..]].concat())
    }
}

/// A folder that a guest sees as /mnt, with these programs in it. The guest has a /tmp and a /run of its own: what lies
/// there on the host is not seen.
fn files(programs: &[PathBuf]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for the guest");
    for program in programs {
        let name = program.file_name().expect("a program");
        fs::copy(program, folder.path().join(name)).expect("the program is copied");
    }
    folder
}

fn trying(script: &str) -> String {
    format!("trial=/mnt/rdma_trial\n{script}\n")
}

fn with_nodes(script: &str) -> String {
    let mpiexec = mpiexec();
    let mpi = mpiexec.ancestors().nth(2).expect("bin/mpiexec of an MPI");
    format!("mpi={}{PRELUDE}{script}", mpi.display())
}

fn run(folder: &Path, files: &TempDir, script: &str, node: u32, network: Option<&str>) -> Outcome {
    fs::write(files.path().join("run"), script).expect("the script is written");
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("softroce/guest");
    let mut command = Command::new(guest);
    command
        .arg(folder)
        .arg(files.path())
        .arg(node.to_string())
        .args(network);
    limited::run(&mut command, GUEST_MAX)
}

/// What the guest's console shows after a mark at the beginning of a line.
pub fn marked<'a>(outcome: &'a Outcome, mark: &'a str) -> impl Iterator<Item = &'a str> {
    outcome
        .stdout
        .lines()
        .filter_map(move |line| line.trim_end().strip_prefix(mark))
}

/// The documents it shows so.
///
/// # Panics
/// When one is none.
pub fn documents(outcome: &Outcome, mark: &str) -> Vec<Value> {
    let told = marked(outcome, mark).map(serde_json::from_str);
    told.collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{mark}: {error}\n{}", outcome.stdout))
}

/// Packets that the guest's device had sent each time its kernel was asked.
pub fn packets(outcome: &Outcome) -> Vec<u64> {
    marked(outcome, "packets: ")
        .filter_map(|count| count.parse().ok())
        .collect()
}

/// Sees that the guest's script came to its end.
///
/// # Panics
/// When it did not.
pub fn assert_ended(outcome: &Outcome) {
    let (said, besides) = (&outcome.stdout, &outcome.stderr);
    assert!(said.contains("ended with 0"), "{said}\n{besides}");
}
