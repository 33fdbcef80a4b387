//! Ranks of a stock Open MPI 5 under daemons: they start on one node and on several, and a death of any process ends
//! the job with a reason. Nothing is left behind.

use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    open_mpi::compiled,
    processes, wait,
};

/// A job whose rank or helper was killed is over so soon, also on a loaded machine.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// The next daemon waits so long for what nodes said to the one before, until it hears what they say to it.
const MISSED_WITHIN: Duration = Duration::from_secs(3);

/// Far more than any test lets it do.
const FOR_LONG: &str = "1000000";

fn adds(cluster: &Cluster) -> PathBuf {
    compiled("tests/programs/adds.c", cluster.files(), false)
}

fn job(cluster: &Cluster, program: &Path, ranks: u32, arguments: &[&str]) -> Command {
    let mut command = cluster.pcmctl(&["run", "-n", &ranks.to_string(), "--"]);
    command.arg(program).args(arguments).env_remove("PCM_MPI");
    command
}

/// The processes that serve PMIx.
fn helpers(cluster: &Cluster) -> Vec<u32> {
    let marked = processes::with_variable("PCM_CLUSTER_ID", cluster.id());
    let is_helper = |pid: &u32| {
        let line = processes::command_line(*pid);
        let program = line.split_whitespace().next().unwrap_or_default();
        program.ends_with("/pcm-pmix") && processes::is_alive(*pid)
    };
    marked.into_iter().filter(is_helper).collect()
}

/// What is left of them in memory.
fn folders(cluster: &Cluster) -> Vec<PathBuf> {
    let entries = fs::read_dir(cluster.shared_memory()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("pcm-pmix-"))
        })
        .collect()
}

fn assert_no_helper_left(cluster: &Cluster) {
    let left = || (helpers(cluster), folders(cluster));
    let gone = wait::within(LIMIT, || (left() == (Vec::new(), Vec::new())).then_some(()));
    assert!(gone.is_some(), "left: {:?}", left());
}

fn assert_sums(outcome: &Outcome, ranks: u32) {
    assert!(outcome.status.success(), "{outcome:?}");
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    let sum = ranks * (ranks + 1) / 2;
    let expected: Vec<String> = (0..ranks)
        .map(|rank| format!("rank {rank} of {ranks} sum {sum}"))
        .collect();
    assert_eq!(lines, expected, "{outcome:?}");
}

/// A job that adds for long, once all its ranks do, with their processes.
fn adding(cluster: &Cluster, program: &Path, ranks: u32) -> (Background, Vec<u32>) {
    let mut run = Background::start(&mut job(cluster, program, ranks, &[FOR_LONG]));
    for rank in 0..ranks {
        run.wait_for(&format!("rank {rank} is process"), LIMIT);
    }
    let pids = cluster.pids_of("1");
    assert_eq!(pids.len(), ranks as usize, "ps lists all ranks");
    (run, pids)
}

fn assert_ended(cluster: &Cluster, run: Background, reason: &str) -> Outcome {
    let outcome = run.end(ENDED_WITHIN);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.stderr.contains(reason), "{outcome:?}\n{}", cluster.logs());
    assert_no_helper_left(cluster);
    outcome
}

#[test]
fn ranks_add_on_one_node_and_on_two_and_leave_nothing() {
    for nodes in [1, 2, 3] {
        let cluster = Cluster::up(nodes);
        let program = adds(&cluster);
        for ranks in [1, 2, 4] {
            let outcome = limited::run(&mut job(&cluster, &program, ranks, &[]), LIMIT);
            assert_sums(&outcome, ranks);
            assert_no_helper_left(&cluster);
        }
        cluster.down();
    }
}

#[test]
fn a_killed_rank_ends_its_job_with_a_reason_that_names_it() {
    for nodes in [1, 2] {
        let cluster = Cluster::up(nodes);
        let program = adds(&cluster);
        let (run, pids) = adding(&cluster, &program, 4);
        assert_eq!(helpers(&cluster).len(), nodes as usize);
        assert!(processes::send(pids[3], Signal::KILL));
        let reason = format!("rank 3 on node n{} was ended by signal 9", nodes - 1);
        let outcome = assert_ended(&cluster, run, &reason);
        assert_eq!(outcome.status.code(), Some(137), "{outcome:?}");
        cluster.down();
    }
}

#[test]
fn a_rank_that_dies_before_it_has_initialised_mpi_ends_those_that_wait_for_it() {
    for nodes in [1, 2] {
        let cluster = Cluster::up(nodes);
        let program = adds(&cluster);
        let run = Background::start(&mut job(&cluster, &program, 4, &["1", "early"]));
        assert_ended(&cluster, run, "was ended by signal 9");
        cluster.down();
    }
}

#[test]
fn mpi_abort_ends_the_job_with_its_code() {
    let cluster = Cluster::up(2);
    let program = adds(&cluster);
    let run = Background::start(&mut job(&cluster, &program, 3, &[FOR_LONG, "abort"]));
    let outcome = assert_ended(&cluster, run, "called MPI_Abort with code 7");
    assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
    cluster.down();
}

#[test]
fn a_helper_that_is_killed_ends_its_job_with_a_reason_that_names_it() {
    for nodes in [1, 2] {
        let cluster = Cluster::up(nodes);
        let program = adds(&cluster);
        let (run, _) = adding(&cluster, &program, 4);
        let victim = helpers(&cluster).pop().expect("a helper");
        assert!(processes::send(victim, Signal::KILL));
        assert_ended(&cluster, run, "the process that serves PMIx to ranks on node n");
        let outcome = limited::run(&mut job(&cluster, &program, 4, &[]), LIMIT);
        assert_sums(&outcome, 4);
        cluster.down();
    }
}

#[test]
fn a_job_goes_on_when_a_daemon_is_killed() {
    for node in ["n0", "n1"] {
        let cluster = Cluster::up(2);
        let program = adds(&cluster);
        let (run, pids) = adding(&cluster, &program, 4);
        let helpers_before = helpers(&cluster);
        assert!(processes::send(cluster.daemon_pid(node), Signal::KILL));
        wait::until("the next daemon", LIMIT, || {
            (!cluster.events(None, "daemon_restarted").is_empty()).then_some(())
        });
        assert_eq!(cluster.pids_of("1"), pids);
        assert_eq!(helpers(&cluster), helpers_before);
        thread::sleep(MISSED_WITHIN);
        // The next daemon hears of the end of a rank by the same helper.
        assert!(processes::send(pids[3], Signal::KILL));
        assert_ended(&cluster, run, "rank 3 on node n1 was ended by signal 9");
        let outcome = limited::run(&mut job(&cluster, &program, 4, &[]), LIMIT);
        assert_sums(&outcome, 4);
        cluster.down();
    }
}

#[test]
fn a_daemon_and_what_served_pmix_beside_it_cost_the_job_and_no_later_one() {
    for node in ["n0", "n1"] {
        let cluster = Cluster::up(2);
        let program = adds(&cluster);
        let (run, _) = adding(&cluster, &program, 4);
        let daemon = cluster.daemon_pid(node);
        let of_daemon = processes::children(daemon);
        let helper = helpers(&cluster).into_iter().find(|pid| of_daemon.contains(pid));
        assert!(processes::send(daemon, Signal::KILL));
        assert!(processes::send(helper.expect("a helper of the node"), Signal::KILL));
        assert_ended(&cluster, run, node);
        let outcome = limited::run(&mut job(&cluster, &program, 4, &[]), LIMIT);
        assert_sums(&outcome, 4);
        cluster.down();
    }
}

#[test]
fn down_ends_a_job_of_open_mpi_and_leaves_nothing() {
    let cluster = Cluster::up(2);
    let program = adds(&cluster);
    let (run, _) = adding(&cluster, &program, 4);
    cluster.down();
    assert!(!run.end(ENDED_WITHIN).status.success());
}
