//! Which way data takes to restored ranks from nodes that have it, after a relaunch and after a crash, and that neither
//! a way nor a daemon that fails meanwhile costs a bit of it.

use rustix::process::Signal;
use serde_json::Value;
use std::{fs, os::unix::fs::MetadataExt as _};
use tests::{
    background::Background,
    binaries::built,
    cluster::{CRASH_PATIENCE, Cluster, LIMIT},
    crashing::kill_node,
    heat2d::{Closing, Plate},
    parked, processes, wait,
};

/// A daemon may stand still for longer than a transfer is waited for, and be none that is gone.
const PATIENCE: (&str, &str) = ("PCM_PATIENCE", "20");

/// Fetched by a node of whose ranks one moved, it is of more than the beginnings of images.
const SOME_BYTES: u64 = 4 << 20;

/// Some MB a rank: many blocks.
const SMALL: Plate = Plate {
    rows: 600,
    cols: 1500,
    iterations: 400,
    sleep_us: 15_000,
};

/// 192 MB for each of two ranks: under way for long enough to be interrupted.
const LARGE: Plate = Plate {
    rows: 6000,
    cols: 8000,
    iterations: 16,
    sleep_us: 300_000,
};

/// What a rank has of it where there are six.
const LARGE_PART_BYTES: u64 = 6000 * 8000 * 8 / 6;

struct Job<'a> {
    cluster: &'a Cluster,
    plate: &'a Plate,
    job: Background,
}

impl<'a> Job<'a> {
    fn start(cluster: &'a Cluster, plate: &'a Plate, options: &[&str]) -> Self {
        let mut command = cluster.pcmctl(&["run"]);
        command.args(options).arg("--").arg(built("heat2d"));
        command.args(plate.arguments());
        let job = Background::start(&mut command);
        cluster.wait_until_ranks_iterate();
        Self { cluster, plate, job }
    }

    fn relaunch(&self, verb: &[&str]) -> Value {
        let done = self.cluster.json(&[verb, &["--mode", "relaunch"]].concat());
        assert_eq!(done["mode"], "relaunch", "{done}");
        done
    }

    fn migrate_beside(&self) -> Background {
        let verb = [
            "migrate", "1", "--rank", "1", "--to", "n2", "--mode", "relaunch", "--json",
        ];
        Background::start(&mut self.cluster.pcmctl(&verb))
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        self.cluster.events(Some("1"), kind)
    }

    fn wait_for(&self, kind: &str, count: usize) {
        let came = wait::within(2 * LIMIT, || (self.events(kind).len() >= count).then_some(()));
        assert!(came.is_some(), "no {count} {kind}: {}", self.cluster.logs());
    }

    /// Everything that came took this way.
    fn came(&self, way: &str) {
        let turns = self.events("copy_way_changed");
        assert!(
            !turns.is_empty() && turns.iter().all(|turn| turn["way"] == way),
            "{turns:?}"
        );
    }

    fn ends_right(self) {
        let outcome = self.job.end(2 * LIMIT);
        assert!(outcome.status.success(), "{outcome:?} {}", self.cluster.logs());
        let checksum = Closing::read(&outcome.stdout).checksum;
        assert_eq!(checksum, self.plate.checksum(), "{outcome:?}");
    }
}

/// Three nodes whose images take this way at best.
fn up(way: &str, patience: (&str, &str)) -> Cluster {
    of_nodes("3", way, patience)
}

fn of_nodes(count: &str, way: &str, patience: (&str, &str)) -> Cluster {
    Cluster::place().booted(&["--local", count], &[patience, ("PCM_COPIES", way)])
}

/// Bytes that a daemon has fetched for its ranks from other nodes, into memory of its own.
fn fetched(daemon: u32) -> u64 {
    let files = fs::read_dir(format!("/proc/{daemon}/fd")).into_iter().flatten();
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let is_fetched = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("memfd:pcm-fetched"))
    };
    let sizes = paths.filter(is_fetched).filter_map(|path| fs::metadata(path).ok());
    sizes.map(|metadata| metadata.blocks() * 512).sum()
}

fn expect_nothing_left(cluster: &Cluster) {
    parked::expect_none(cluster, &["n0", "n1", "n2"]);
}

fn is_relaunched(way: &str, name: &str) {
    let cluster = up(way, PATIENCE);
    let job = Job::start(&cluster, &SMALL, &["-n", "2"]);
    job.relaunch(&["migrate", "1", "--rank", "1", "--to", "n2"]);
    job.relaunch(&["expand", "1", "--to", "4"]);
    expect_nothing_left(&cluster);
    job.came(name);
    job.ends_right();
    cluster.down();
}

#[test]
fn relaunched_ranks_get_data_of_their_host_through_memory() {
    is_relaunched("", "shared");
}

#[test]
fn relaunched_ranks_get_data_over_connections_for_bulk() {
    is_relaunched("bulk", "bulk");
}

#[test]
fn relaunched_ranks_get_data_over_the_link() {
    is_relaunched("link", "link");
}

/// More than the beginning of a part, less than half of it.
const PART_BYTES: u64 = 400_000;

/// The job goes on from parts of a checkpoint that lie on other nodes than its ranks. Of eight ranks two were on n1,
/// whose parts are on n2 as well; one of them comes to n0, which has copies of what n3 has, and never any of what n2
/// has.
fn is_restarted(way: &str, name: &str) {
    let cluster = of_nodes("4", way, CRASH_PATIENCE);
    let daemons = ["n0", "n2", "n3"].map(|node| cluster.daemon_pid(node));
    let job = Job::start(&cluster, &SMALL, &["-n", "8", "--checkpoint-every", "0.5"]);
    job.wait_for("checkpoint_complete", 2);
    kill_node(&cluster, "n1");
    let mut most = 0;
    wait::until("a restart", 2 * LIMIT, || {
        // Asked first: what was fetched is held for a while after the restart, and the question takes its time.
        let is_restarted = !job.events("recovered").is_empty();
        most = daemons.map(fetched).into_iter().fold(most, u64::max);
        is_restarted.then_some(())
    });
    assert_eq!(most > PART_BYTES, name != "shared", "{most} bytes were fetched");
    job.came(name);
    let turns = job.events("copy_way_changed");
    let is_restored = |turn: &Value| turn["node"] == "n0" && turn["name"] == "n2";
    assert!(turns.iter().any(is_restored), "{turns:?}");
    wait::until("nothing fetched is held any more", LIMIT, || {
        (daemons.map(fetched) == [0; 3]).then_some(())
    });
    assert!(job.events("job_ended").is_empty(), "it was held as long as the job ran");
    assert!(job.events("recovered")[0]["from"].as_u64() > Some(0));
    job.ends_right();
    cluster.down();
}

#[test]
fn restarted_ranks_get_parts_of_their_host_through_memory() {
    is_restarted("", "shared");
}

#[test]
fn restarted_ranks_get_parts_over_connections_for_bulk() {
    is_restarted("bulk", "bulk");
}

#[test]
fn restarted_ranks_get_parts_over_the_link() {
    is_restarted("link", "link");
}

/// Waits until data is on its way from a node to another, and sends its daemon a signal.
fn interrupt(cluster: &Cluster, (giver, taker): (&str, &str), signal: Signal) -> u32 {
    let (giver, taker) = (cluster.daemon_pid(giver), cluster.daemon_pid(taker));
    wait::until("data on its way", LIMIT, || (fetched(taker) > SOME_BYTES).then_some(()));
    assert!(processes::send(giver, signal));
    giver
}

fn outlives_the_daemon_that_gives(way: &str) {
    let cluster = up(way, PATIENCE);
    let job = Job::start(&cluster, &LARGE, &["-n", "2"]);
    let asked = job.migrate_beside();
    interrupt(&cluster, ("n1", "n2"), Signal::KILL);
    let outcome = asked.end(2 * LIMIT);
    assert!(outcome.status.success(), "{outcome:?} {}", cluster.logs());
    expect_nothing_left(&cluster);
    job.came(way);
    job.ends_right();
    cluster.down();
}

#[test]
fn a_relaunch_goes_on_when_the_daemon_that_gives_is_killed_in_the_middle() {
    outlives_the_daemon_that_gives("bulk");
}

#[test]
fn a_relaunch_over_the_link_goes_on_when_the_daemon_that_gives_is_killed_in_the_middle() {
    outlives_the_daemon_that_gives("link");
}

#[test]
fn data_comes_over_the_link_when_a_connection_for_bulk_stands_still() {
    let cluster = up("bulk", PATIENCE);
    let job = Job::start(&cluster, &LARGE, &["-n", "2"]);
    let asked = job.migrate_beside();
    let stopped = interrupt(&cluster, ("n1", "n2"), Signal::STOP);
    wait::until("another way", LIMIT, || {
        let log = fs::read_to_string(cluster.dir().join("nodes/n2/daemon.log")).unwrap_or_default();
        log.contains("an image comes another way").then_some(())
    });
    processes::send(stopped, Signal::CONT);
    let outcome = asked.end(2 * LIMIT);
    assert!(outcome.status.success(), "{outcome:?} {}", cluster.logs());
    expect_nothing_left(&cluster);
    let turns = job.events("copy_way_changed");
    let silence = "bulk did not work: nothing came for 5 s";
    let is_fallen_back = |turn: &Value| turn["way"] == "link" && turn["reason"] == silence;
    assert!(turns.iter().any(is_fallen_back), "{turns:?}");
    job.ends_right();
    cluster.down();
}

/// Tries until a part has to go from n2 to n0: which node has the copies of n1 depends on the order of the cluster.
const TRIES: u32 = 5;

#[test]
fn a_restart_goes_on_when_a_daemon_that_gives_is_killed_in_the_middle() {
    assert!(
        (0..TRIES).any(|_| is_restarted_without_the_giver()),
        "n0 never took from n2"
    );
}

/// False if n0 had all that its ranks needed.
fn is_restarted_without_the_giver() -> bool {
    let cluster = up("bulk", CRASH_PATIENCE);
    let job = Job::start(&cluster, &LARGE, &["-n", "6", "--checkpoint-every", "0.5"]);
    job.wait_for("checkpoint_complete", 2);
    kill_node(&cluster, "n1");
    let (taker, giver) = (cluster.daemon_pid("n0"), cluster.daemon_pid("n2"));
    let mut looks = 0_u32;
    let is_on_its_way = wait::until("data on its way, or all ranks restored", LIMIT, || {
        looks += 1;
        let is_on_its_way = fetched(taker) > SOME_BYTES;
        // Asking takes longer than looking, and data can be here in a moment.
        let is_over = !is_on_its_way && looks.is_multiple_of(100) && !job.events("recovered").is_empty();
        (is_on_its_way || is_over).then_some(is_on_its_way)
    });
    if is_on_its_way {
        assert!(processes::send(giver, Signal::KILL));
        let came = fetched(taker);
        assert!(came < LARGE_PART_BYTES, "all {came} bytes were there already");
        job.wait_for("recovered", 1);
        job.came("bulk");
    }
    job.ends_right();
    cluster.down();
    is_on_its_way
}
