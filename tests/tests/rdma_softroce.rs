//! The verbs providers on a RoCE device in software: two processes in one guest, and one in each of two; and daemons that
//! say their small messages over such a device. The guests are emulated, so their times say nothing.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tests::{
    binaries::{built, mpiexec},
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

/// Held by the test whose guests run: emulated side by side they take each other's time.
static GUESTS: Mutex<()> = Mutex::new(());

/// The folder that `cargo xtask test rdma` fills, and the right to run guests.
fn brought() -> Option<(PathBuf, MutexGuard<'static, ()>)> {
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
    let alone = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
    Some((folder.canonicalize().ok()?, alone))
}

/// A folder that a guest sees as /mnt, with these programs in it. The guest has a /tmp and a /run of its own: what lies
/// there on the host is not seen.
fn job(programs: &[PathBuf]) -> TempDir {
    let job = tempfile::tempdir().expect("a folder for the job");
    for program in programs {
        let name = program.file_name().expect("a program");
        fs::copy(program, job.path().join(name)).expect("the program is copied");
    }
    job
}

/// Runs `script` in a guest that has this job's folder; `$1` is the node's number.
fn guest_with(folder: &Path, job: &TempDir, script: &str, node: u32, network: Option<&str>) -> Outcome {
    fs::write(job.path().join("run"), script).expect("the job is written");
    let mut command = Command::new(scripts().join("guest"));
    command.arg(folder).arg(job.path()).arg(node.to_string()).args(network);
    limited::run(&mut command, GUEST_MAX)
}

/// Runs `script`, in which `$trial` is the program, in a guest.
fn guest(folder: &Path, script: &str, node: u32, network: Option<&str>) -> Outcome {
    let job = job(&[folder.join("rdma_trial")]);
    guest_with(
        folder,
        &job,
        &format!("trial=/mnt/rdma_trial\n{script}\n"),
        node,
        network,
    )
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
    let Some((folder, _alone)) = brought() else { return };
    let script = r#""$trial" serve & "$trial" try 10.9.0.1 && wait $!"#;
    assert_well(&guest(&folder, script, 1, None));
}

/// A network of two guests: a socket that one opens and the other finds.
struct TwoEnded(TempDir);

impl TwoEnded {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for the network"))
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("network")
    }

    /// An end in the words of qemu.
    fn end(&self, serves: &str) -> String {
        let path = self.socket();
        format!(
            "stream,id=network,server={serves},addr.type=unix,addr.path={}",
            path.display()
        )
    }

    /// Waits until the serving end is there.
    fn wait(&self) {
        let socket = self.socket();
        tests::wait::until("the first guest's network", Duration::from_secs(60), || {
            socket.exists().then_some(())
        });
    }
}

#[test]
fn two_guests_exchange_messages_and_memory() {
    let Some((folder, _alone)) = brought() else { return };
    let network = TwoEnded::new();
    let serving = {
        let (folder, end) = (folder.clone(), network.end("on"));
        thread::spawn(move || guest(&folder, r#"exec "$trial" serve"#, 1, Some(&end)))
    };
    network.wait();
    let asking = guest(&folder, r#"exec "$trial" try 10.9.0.1"#, 2, Some(&network.end("off")));
    let serving = serving.join().expect("the first guest ended");
    assert_well(&asking);
    assert_ended(&serving);
}

/// What the guest's console shows after a mark at the beginning of a line.
fn marked<'a>(outcome: &'a Outcome, mark: &'a str) -> impl Iterator<Item = &'a str> {
    outcome
        .stdout
        .lines()
        .filter_map(move |line| line.trim_end().strip_prefix(mark))
}

fn documents(outcome: &Outcome, mark: &str) -> Vec<Value> {
    let told = marked(outcome, mark).map(serde_json::from_str);
    told.collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{mark}: {error}\n{}", outcome.stdout))
}

/// Packets that the guest's device has sent so far, as its kernel counts them.
fn packets(outcome: &Outcome) -> Vec<u64> {
    marked(outcome, "packets: ")
        .filter_map(|count| count.parse().ok())
        .collect()
}

/// What guests with daemons begin with.
const PRELUDE: &str = r#"
export PATH=/mnt:$PATH HOME=/tmp PCM_CLUSTER=/tmp/cluster PCM_PATIENCE=20 PCM_POLICY=none
[ -d $mpi ] || { mkdir -p $mpi; mount -o bind /run/host$mpi $mpi; }
packets() { echo "packets: $(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)"; }
nodes() { pcmctl nodes --json | tr -d '\n'; }
job() { pcmctl run -n 2 --nodes n0,n1 -- sh -c "echo $1: \$PCM_NODE"; }
# until_told WAY: waits until both daemons said that they take this way to each other.
until_told() {
    for _ in $(seq 60); do
        [ $(pcmctl events --json | grep fabric_changed | grep -c "\"by\":\"$1\"") -ge 2 ] && return
        sleep 1
    done
    echo "not told by both: $1"
    pcmctl events
    pcmctl nodes
    exit 1
}
"#;

/// Boots two nodes in the guest, has them run jobs, cuts the device off from its network and has them run another.
const IN_ONE_GUEST: &str = r#"
packets
pcmctl up --local 2 --fabric rdma || exit 1
until_told rdma
job rank || exit 1
packets
echo "nodes: $(nodes)"
pcmctl run -n 2 --nodes n0,n1 -- /mnt/pcm-trial ring 1 && echo "ring: whole"
ip link set dummy0 down
until_told udp
echo "without: $(nodes)"
job later || exit 1
pcmctl down
"#;

/// What a guest with daemons runs. Whatever a job starts finds the MPI where it lies on the host.
fn with_daemons(script: &str) -> String {
    let mpiexec = mpiexec();
    let mpi = mpiexec.ancestors().nth(2).expect("bin/mpiexec of an MPI");
    format!("mpi={}{PRELUDE}{script}", mpi.display())
}

/// A folder with all that a node needs.
fn node_job(folder: &Path) -> TempDir {
    let programs = ["pcmctl", "ios-agent", "pcm-trial", "libpcm.so"].map(built);
    job(&[&[folder.join("pcm-daemon")], &programs[..]].concat())
}

fn assert_ended(outcome: &Outcome) {
    let (said, besides) = (&outcome.stdout, &outcome.stderr);
    assert!(said.contains("ended with 0"), "{said}\n{besides}");
}

/// Both nodes said after this mark that these carry their small messages.
fn assert_carried(outcome: &Outcome, mark: &str, datagrams: &str) {
    let [nodes] = &documents(outcome, mark)[..] else {
        panic!("told once: {}", outcome.stdout);
    };
    let used = nodes.as_array().into_iter().flatten();
    let used = used.map(|node| &node["fabric"]["datagrams"]);
    assert_eq!(used.collect::<Vec<_>>(), [datagrams; 2], "{nodes}");
}

/// A job ran on both nodes.
fn assert_both_ran(outcome: &Outcome, mark: &str) {
    let mut ranks: Vec<&str> = marked(outcome, mark).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["n0", "n1"], "{}", outcome.stdout);
}

/// By the account of the guest's kernel.
fn assert_device_sent(outcome: &Outcome) {
    let [before, after] = packets(outcome)[..] else {
        panic!("counted twice: {}", outcome.stdout);
    };
    assert!(
        after > before,
        "the device sent nothing: {before} packets, then {after}"
    );
}

#[test]
fn daemons_speak_over_a_device_and_go_on_over_udp_where_it_fails() {
    let Some((folder, _alone)) = brought() else { return };
    let outcome = guest_with(&folder, &node_job(&folder), &with_daemons(IN_ONE_GUEST), 1, None);
    assert_ended(&outcome);
    assert_carried(&outcome, "nodes: ", "rdma");
    assert_carried(&outcome, "without: ", "udp");
    assert_both_ran(&outcome, "rank: ");
    assert_both_ran(&outcome, "later: ");
    assert!(outcome.stdout.contains("ring: whole"), "{}", outcome.stdout);
    assert_device_sent(&outcome);
}
