//! Constant arrays travel while the ranks iterate; what cannot travel then travels at the meeting; and an attempt that
//! is given up leaves neither the job changed nor anything of them behind.

use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::Outcome,
    parked, processes, wait,
};

/// Size of a constant array: 16 MiB, many blocks and chunks.
const ROWS: u64 = 2048;
const COLS: u64 = 1024;
const ROW_BYTES: u64 = COLS * 8;

/// All that changes: an element for each row and the iteration, for each of eight ranks.
const VARIABLE_BYTES_MAX: u64 = ROWS * 8 + 64;

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];

/// How long a job may go on after its last change.
const END_LIMIT: Duration = Duration::from_secs(240);

struct Job<'a> {
    cluster: &'a Cluster,
    job: Background,
}

/// Bytes that a change moved: at the meeting, and before it.
struct Moved {
    at_meeting: u64,
    ahead: u64,
}

impl<'a> Job<'a> {
    fn start(cluster: &'a Cluster, what: &str, iterations: u32, variables: &[(&str, &str)]) -> Self {
        let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
        let (rows, cols, iterations) = (ROWS.to_string(), COLS.to_string(), iterations.to_string());
        command.arg(built("pcm-constant"));
        command.args([what, &rows, &cols, &iterations, "1000"]);
        command.envs(variables.iter().copied());
        let job = Background::start(&mut command);
        cluster.wait_until_ranks_iterate();
        Self { cluster, job }
    }

    fn try_change(&self, verb: &str, arguments: &[&str]) -> Outcome {
        let arguments = [&[verb, "1"], arguments, &["--mode", "live", "--json"]].concat();
        self.cluster.run(&arguments)
    }

    fn change(&self, verb: &str, arguments: &[&str]) -> Moved {
        let outcome = self.try_change(verb, arguments);
        let told = || format!("{verb} {arguments:?}: {outcome:?}\n{}", self.job.stderr());
        assert!(outcome.status.success(), "{}", told());
        let done: Value = serde_json::from_str(&outcome.stdout).expect("a JSON document");
        println!("{verb} {arguments:?}: {done}");
        let bytes = |name: &str| done[name].as_u64().unwrap_or_else(|| panic!("no {name}: {}", told()));
        let ahead = bytes("bytes_ahead");
        let at_meeting = bytes("bytes_moved") - ahead;
        Moved { at_meeting, ahead }
    }

    fn ends_right(self) {
        let outcome = self.job.end(END_LIMIT);
        let is_right = outcome.status.success() && outcome.stdout.contains("constant: done");
        assert!(is_right, "{outcome:?}");
    }
}

#[test]
fn constant_arrays_travel_ahead_of_every_kind_of_change() {
    let cluster = Cluster::up(4);
    let job = Job::start(&cluster, "keep", 6000, &[]);
    // To a node where nobody was, by the daemons' link: the rank's rows, its halo, and that of the other rank.
    let moved = job.change("migrate", &["--rank", "1", "--to", "n3"]);
    assert_eq!(moved.ahead, (ROWS / 2 + 3) * ROW_BYTES);
    assert!(moved.at_meeting <= VARIABLE_BYTES_MAX, "{} bytes", moved.at_meeting);
    // Newcomers, and ranks that stay and get other rows.
    let changes: [(&str, &[&str], u64); 5] = [
        ("expand", &["--to", "4"], ROWS / 2),
        ("shrink", &["--to", "3"], ROWS / 4),
        ("rebalance", &["--shares", "5,6,5"], 0),
        ("expand", &["--to", "5"], ROWS / 4),
        // One rank does the rest fastest where ranks outnumber CPUs.
        ("shrink", &["--to", "1"], ROWS / 2),
    ];
    for (verb, arguments, rows) in changes {
        let moved = job.change(verb, arguments);
        assert!(moved.ahead >= rows * ROW_BYTES, "{verb}: {} bytes ahead", moved.ahead);
        assert!(
            moved.at_meeting <= VARIABLE_BYTES_MAX,
            "{verb}: {} bytes",
            moved.at_meeting
        );
        parked::expect_none(&cluster, &NODES);
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn constant_arrays_that_change_places_travel_at_the_meeting() {
    let cluster = Cluster::up(4);
    let job = Job::start(&cluster, "swap", 2500, &[]);
    for (verb, arguments, rows) in [
        ("migrate", ["--rank", "0", "--to", "n2"].as_slice(), ROWS / 2),
        ("shrink", &["--to", "1"], ROWS / 2),
    ] {
        let moved = job.change(verb, arguments);
        assert_eq!(moved.ahead, 0, "{verb}");
        assert!(moved.at_meeting >= 2 * rows * ROW_BYTES, "{verb}");
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn a_relaunch_takes_constant_arrays_with_everything_else() {
    let cluster = Cluster::up(4);
    let job = Job::start(&cluster, "keep", 2500, &[]);
    let outcome = cluster.run(&["expand", "1", "--to", "3", "--mode", "relaunch", "--json"]);
    assert!(outcome.status.success(), "{outcome:?}");
    job.ends_right();
    cluster.down();
}

#[test]
fn a_newcomer_that_dies_with_what_travelled_ahead_changes_nothing() {
    let cluster = Cluster::up(4);
    // It is delayed when it has all that travels ahead, before it says that it is ready.
    let job = Job::start(&cluster, "keep", 4000, &[("PCM_HOLD", "preparing:1500")]);
    let migrate = ["migrate", "1", "--rank", "1", "--to", "n3", "--mode", "live"];
    let asked = Background::start(&mut cluster.pcmctl(&migrate));
    let host = cluster.daemon_pid("n3");
    let newcomer = wait::until("a newcomer with data", LIMIT, || {
        let newcomer = cluster.processes_with("PCM_ROLE", "newcomer").pop()?;
        (parked::images(host) > 0).then_some(newcomer)
    });
    assert!(processes::send(newcomer, Signal::KILL), "it lived");
    let told = asked.end(LIMIT);
    assert!(!told.status.success(), "{told:?}");
    parked::expect_none(&cluster, &NODES);
    // The next attempt begins anew.
    assert!(job.change("migrate", &["--rank", "0", "--to", "n2"]).ahead > 0);
    job.ends_right();
    cluster.down();
}
