//! How ranks wait inside MPI: the results are the same in every manner, and a polite one leaves its CPU.

use rustix::process::Signal;
use std::{process::Command, time::Duration};
use tests::{
    background::Background, binaries::built, cluster::Cluster, heat2d::Closing, limited, processes::cpu_ticks, wait,
};

const LIMIT: Duration = Duration::from_secs(120);

fn checksum(cluster: &Cluster, manner: &[&str]) -> String {
    let mut command = cluster.pcmctl(&["run", "-n", "4"]);
    command.args(manner).arg("--").arg(built("heat2d-c-plain"));
    command.args(["--rows", "61", "--cols", "83", "--iterations", "200"]);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{manner:?}: {outcome:?}");
    Closing::read(&outcome.stdout).checksum
}

#[test]
fn the_manner_of_waiting_changes_no_result() {
    let cluster = Cluster::up(2);
    let expected = tests::heat2d::reference_checksum(61, 83, 200);
    for manner in [
        &[][..],
        &["--wait", "mpi"],
        &["--wait", "spin"],
        &["--wait", "adaptive"],
        &["--wait", "sleep"],
    ] {
        assert_eq!(checksum(&cluster, manner), expected, "{manner:?}");
    }
    cluster.down();
}

/// One of two ranks that waits for the other in this call of the trial program.
struct Waiter {
    trial: &'static [&'static str],
    rank: u64,
    call: &'static str,
}

/// What both wait for.
const WAITED: Duration = Duration::from_secs(4);

const RECEIVER: Waiter = Waiter {
    trial: &["recv", "4000"],
    rank: 0,
    call: "Recv",
};

const LATE_RECEIVER: Waiter = Waiter {
    trial: &["recv", "600000"],
    ..RECEIVER
};

const SUMMER: Waiter = Waiter {
    trial: &["uneven", "4000000", "1", "first"],
    rank: 1,
    call: "Allreduce",
};

impl Waiter {
    /// Starts both, and answers when it waits: its process.
    fn start(&self, cluster: &Cluster, manner: &[&str]) -> (Background, u32) {
        let mut command = cluster.pcmctl(&["run", "-n", "2"]);
        command.args(manner).arg("--").arg(built("pcm-trial")).args(self.trial);
        let running = Background::start(&mut command);
        let waiter = wait::until("the rank waits", LIMIT, || {
            let outcome = cluster.run(&["ps", "1", "--json"]);
            let ps: serde_json::Value = serde_json::from_str(&outcome.stdout).ok()?;
            let row = ps["ranks"].as_array()?.iter().find(|row| row["rank"] == self.rank)?;
            let pid = (row["call"] == self.call).then(|| row["pid"].as_u64())??;
            u32::try_from(pid).ok()
        });
        (running, waiter)
    }

    /// Seconds of CPU time that it uses meanwhile.
    fn cpu_used(&self, cluster: Cluster, manner: &[&str]) -> f64 {
        let (running, waiter) = self.start(&cluster, manner);
        let began = cpu_ticks(waiter);
        let mut used = 0;
        wait::until("the rank is gone", LIMIT, || match cpu_ticks(waiter) {
            Some(now) => {
                used = now - began.unwrap_or(now);
                None
            }
            None => Some(()),
        });
        let outcome = running.end(LIMIT);
        assert!(outcome.status.success(), "{outcome:?}");
        cluster.down();
        used as f64 / 100.0
    }
}

#[test]
fn a_rank_that_sleeps_while_it_waits_for_a_message_or_in_a_collective_leaves_its_cpu() {
    for waiter in [RECEIVER, SUMMER] {
        let used = waiter.cpu_used(Cluster::up(1), &["--wait", "sleep"]);
        let call = waiter.call;
        assert!(
            used < 0.2 * WAITED.as_secs_f64(),
            "{call}: {used} s of CPU time in {WAITED:?}"
        );
    }
}

#[test]
fn a_rank_that_nobody_told_how_to_wait_leaves_its_cpu_to_others_that_want_it() {
    let cluster = Cluster::up_with(&["--local", "1", "--cpus", "0"]);
    let mut other = Command::new("taskset");
    other.args(["-c", "0", "sh", "-c", "ulimit -t 60; while :; do :; done"]);
    let other = Background::start(&mut other);
    let used = RECEIVER.cpu_used(cluster, &[]);
    other.signal(Signal::TERM);
    other.end(LIMIT);
    assert!(used < 0.2 * WAITED.as_secs_f64(), "{used} s of CPU time in {WAITED:?}");
}

#[test]
fn ranks_only_yield_while_a_process_of_their_node_starts() {
    let cluster = Cluster::up(1);
    let (running, waiter) = LATE_RECEIVER.start(&cluster, &["--wait", "sleep"]);
    let share = || {
        let (began, second) = (cpu_ticks(waiter), Duration::from_secs(1));
        std::thread::sleep(second);
        (cpu_ticks(waiter).unwrap_or(0) - began.unwrap_or(0)) as f64 / 100.0
    };
    let is_sleeping = |what| wait::until(what, LIMIT, || (share() < 0.2).then_some(()));
    is_sleeping("the rank sleeps");
    // What never initialises MPI counts as starting for half a minute.
    let other = Background::start(&mut cluster.pcmctl(&["run", "--", "sleep", "600"]));
    wait::until("the rank polls", LIMIT, || (share() > 0.5).then_some(()));
    let outcome = cluster.run(&["kill", "2"]);
    assert!(outcome.status.success(), "{outcome:?}");
    other.end(LIMIT);
    is_sleeping("the rank sleeps again");
    let outcome = cluster.run(&["kill", "1"]);
    assert!(outcome.status.success(), "{outcome:?}");
    running.end(LIMIT);
    cluster.down();
}

#[test]
fn a_manner_that_does_not_exist_is_refused_with_those_that_do() {
    let cluster = Cluster::up(1);
    let outcome = cluster.run(&["run", "--wait", "patiently", "--", "true"]);
    assert_eq!(outcome.status.code(), Some(2), "{outcome:?}");
    for manner in ["mpi", "spin", "adaptive", "sleep"] {
        assert!(outcome.stderr.contains(manner), "{outcome:?}");
    }
    cluster.down();
}
