//! The clock of one node is set forth and back by hours, while a job changes, makes checkpoints and the node's daemon
//! is killed and started again: no node is taken for lost, and the result is right. `PCM_CLOCK_ROUNDS=50` repeats that.

use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tests::{
    asked,
    background::Background,
    binaries::built,
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    malleable::Malleable,
    processes, wait,
};

/// Long enough for all that happens meanwhile: after each leap a message may wait two seconds until a connection takes
/// the place of datagrams.
const RUN: (u64, u32) = (20_000, 500);

/// Hours by which the clock is wrong, one after the other.
const HOURS: [[i64; 4]; 4] = [[5, -7, 2, 0], [-30, 12, -1, 3], [1, 2, -9000, 6], [-3, 48, 900, -48]];

struct WildClock {
    how: PathBuf,
}

impl WildClock {
    fn is_ahead(&self, hours: i64) {
        let fresh = self.how.with_extension("new");
        fs::write(&fresh, (hours * 3600).to_string()).expect("a file of the test");
        fs::rename(&fresh, &self.how).expect("its name");
    }
}

fn join(cluster: &Cluster, node: &str, options: &[&str], variables: &[(&str, &Path)]) -> Background {
    let arguments = [&["join", "--node", node, "--address", "127.0.0.1"], options].concat();
    let mut command = cluster.daemon(&arguments);
    command.envs([CRASH_PATIENCE]).envs(variables.iter().copied());
    Background::start(&mut command)
}

fn are_up(cluster: &Cluster, nodes: usize) {
    wait::until("all nodes to be up", LIMIT, || {
        let told = cluster.run(&["nodes", "--json"]).stdout;
        let known: serde_json::Value = serde_json::from_str(&told).ok()?;
        let up = known.as_array()?.iter().filter(|node| node["state"] == "up").count();
        (up == nodes).then_some(())
    });
}

/// Nodes `a`, `b` and `c`; the clock of `b` does what it wants.
fn cluster() -> (Cluster, WildClock, [Background; 3]) {
    let mut cluster = Cluster::place();
    let how = cluster.files().join("how");
    fs::write(&how, "").expect("a file of the test");
    let library = built("libpcm-wild-clock.so");
    let wild = [("LD_PRELOAD", library.as_path()), ("PCM_CLOCK_HOW", how.as_path())];
    let a = join(&cluster, "a", &["--first"], &[]);
    are_up(&cluster, 1);
    let b = join(&cluster, "b", &[], &wild);
    are_up(&cluster, 2);
    let c = join(&cluster, "c", &[], &[]);
    are_up(&cluster, 3);
    cluster.note_id();
    (cluster, WildClock { how }, [a, b, c])
}

fn kill_daemon_of_b(cluster: &Cluster) {
    let killed = cluster.daemon_pid("b");
    processes::send(killed, Signal::KILL);
    wait::until("another daemon", LIMIT, || {
        let told = cluster.run(&["nodes", "--json"]).stdout;
        let known: serde_json::Value = serde_json::from_str(&told).ok()?;
        let b = known.as_array()?.iter().find(|node| node["name"] == "b")?;
        let is_another = b["daemon_pid"].as_u64()? != u64::from(killed) && b["state"] == "up";
        is_another.then_some(())
    });
}

/// Moves a rank to the node with that clock, or away from it.
fn migrate(job: &Malleable, rank: usize) {
    let to = if job.nodes()[rank] == "b" { "c" } else { "b" };
    job.migrate(rank, to);
}

fn checkpoint(cluster: &Cluster) {
    let made = cluster.run(&["checkpoint", "1"]);
    assert!(made.status.success(), "{made:?}\n{}", cluster.logs());
}

fn job_beside_a_clock_that_is_wrong_by(hours: [i64; 4]) {
    let (cluster, clock, keepers) = cluster();
    let job = Malleable::start(&cluster, "heat2d-c", 2, RUN.0, RUN.1);
    clock.is_ahead(hours[0]);
    migrate(&job, 1);
    checkpoint(&cluster);
    clock.is_ahead(hours[1]);
    kill_daemon_of_b(&cluster);
    job.goes_on();
    migrate(&job, 0);
    clock.is_ahead(hours[2]);
    checkpoint(&cluster);
    job.resize(3);
    kill_daemon_of_b(&cluster);
    clock.is_ahead(hours[3]);
    migrate(&job, 1);
    job.resize(2);
    checkpoint(&cluster);
    for kind in ["node_gone", "crashed"] {
        let events = cluster.events(None, kind);
        assert!(events.is_empty(), "{events:?}\n{}", cluster.logs());
    }
    assert_eq!(cluster.events(None, "daemon_restarted").len(), 2);
    assert_eq!(cluster.events(Some("1"), "reconfigured").len(), 5);
    job.ends_right();
    let down = cluster.run(&["down"]);
    assert!(down.status.success(), "{down:?}");
    for keeper in keepers {
        assert_eq!(keeper.end(LIMIT).status.code(), Some(0));
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_clock_that_is_set_by_hours_costs_no_node_no_change_and_no_bit() {
    let rounds = asked::number("PCM_CLOCK_ROUNDS").map_or(HOURS.len(), |rounds| rounds as usize);
    for round in 0..rounds {
        let hours = HOURS[round % HOURS.len()];
        println!("round {round}: {hours:?}");
        job_beside_a_clock_that_is_wrong_by(hours);
    }
}
