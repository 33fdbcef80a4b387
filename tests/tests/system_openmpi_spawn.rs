//! Jobs of a stock Open MPI 5 spawn: every request is carried out as it was asked, or refused with a reason while the
//! job goes on.

use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    open_mpi, processes,
    spawning::{Mpi, Programs},
    wait,
};

#[test]
fn a_rank_spawns_on_one_node_and_on_two() {
    for nodes in [1, 2] {
        let programs = Programs::on(nodes, "job", Mpi::Open);
        for (program, processes, children) in [
            ("./spawning", "1", 2),
            ("./spawning", "3", 6),
            ("./spawning,./spawning", "2", 8),
        ] {
            assert_eq!(programs.spawned(&[program, processes, "a"]).len(), children);
        }
        programs.cluster.down();
    }
}

#[test]
fn a_spawn_that_cannot_be_is_refused_with_a_reason_and_the_job_goes_on() {
    let programs = Programs::on(3, "job", Mpi::Open);
    programs.refuse_what_cannot_be();
    programs.cluster.down();
}

#[test]
fn a_spawn_finds_the_hosts_the_path_and_the_arguments_it_names() {
    let programs = Programs::on(3, "job", Mpi::Open);
    programs.find_hosts_path_and_arguments();
    programs.cluster.down();
}

/// A job whose rank, child or helper was killed is over so soon, also on a loaded machine.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// A job whose ranks wait in a spawn for a child that never calls MPI.
struct WaitingSpawn {
    programs: Programs,
    run: Background,
}

impl WaitingSpawn {
    fn on(nodes: u32) -> Self {
        let programs = Programs::on(nodes, "job", Mpi::Open);
        let run = Background::start(&mut programs.command(&["/bin/sleep", "1", "1000"]));
        let waiting = Self { programs, run };
        assert_eq!(waiting.children().len(), 1);
        waiting
    }

    fn marked(&self, program: &str) -> Vec<u32> {
        let marked = processes::with_variable("PCM_CLUSTER_ID", self.programs.cluster.id());
        let is_it = |pid: &u32| {
            let line = processes::command_line(*pid);
            let first = line.split_whitespace().next().unwrap_or_default();
            first.ends_with(program) && processes::is_alive(*pid)
        };
        marked.into_iter().filter(is_it).collect()
    }

    fn children(&self) -> Vec<u32> {
        let some = || Some(self.marked("/sleep")).filter(|found| !found.is_empty());
        wait::within(LIMIT, some).expect("a child")
    }

    fn ends_with(self, victim: u32, reason: &str) {
        assert!(processes::send(victim, Signal::KILL));
        let outcome = self.run.end(ENDED_WITHIN);
        let logs = self.programs.cluster.logs();
        assert!(!outcome.status.success(), "{outcome:?}");
        assert!(outcome.stderr.contains(reason), "{reason}: {outcome:?}\n{logs}");
        self.programs.cluster.down();
    }
}

#[test]
fn a_death_while_ranks_wait_for_their_children_ends_the_job_with_a_reason() {
    for nodes in [1, 2] {
        let waiting = WaitingSpawn::on(nodes);
        let child = waiting.children()[0];
        waiting.ends_with(child, "was ended by signal 9");

        let waiting = WaitingSpawn::on(nodes);
        let ranks = waiting.programs.cluster.pids_of("1");
        waiting.ends_with(ranks[0], "rank 0 on node n0 was ended by signal 9");

        let waiting = WaitingSpawn::on(nodes);
        let helpers = waiting.marked("/pcm-pmix");
        waiting.ends_with(helpers[0], "the process that serves PMIx to ranks on node n");
    }
}

/// Its helper says each request to the next daemon, which carries it out once.
#[test]
fn a_daemon_that_is_killed_around_a_spawn_costs_nothing() {
    for (nodes, killed, sign) in [
        (1, "n0", "rank"),
        (1, "n0", "child"),
        (2, "n0", "child"),
        (2, "n1", "rank"),
        (2, "n1", "child"),
    ] {
        let programs = Programs::on(nodes, "job", Mpi::Open);
        let (late, here) = (
            programs.cluster.files().join("late"),
            programs.cluster.files().join("here"),
        );
        fs::write(&late, "#!/bin/sh\n: > here\nsleep 1\nexec ./spawning \"$@\"\n").expect("a script");
        fs::set_permissions(&late, fs::Permissions::from_mode(0o755)).expect("permissions");
        let daemon = programs.cluster.daemon_pid(killed);
        let run = Background::start(&mut programs.command(&["./late", "1", "a"]));
        let is_rank = |pid: &u32| processes::command_line(*pid).starts_with("./spawning ");
        let of_cluster = || processes::with_variable("PCM_CLUSTER_ID", programs.cluster.id());
        wait::until(sign, LIMIT, || {
            let is_there = match sign {
                "rank" => of_cluster().iter().any(is_rank),
                _ => here.exists(),
            };
            is_there.then_some(())
        });
        assert!(processes::send(daemon, Signal::KILL));
        let outcome = run.end(LIMIT);
        let spawned = outcome.stdout.matches("spawned by 2 ranks").count();
        assert!(
            outcome.status.success() && spawned == 2,
            "{killed} of {nodes}, at a {sign}: {outcome:?}\n{}",
            programs.cluster.logs()
        );
        assert_eq!(outcome.stdout.matches(" with a").count(), 2, "{outcome:?}");
        programs.cluster.down();
    }
}

#[test]
fn children_that_never_call_mpi_are_an_error_or_the_end_of_the_job() {
    let programs = Programs::on(2, "job", Mpi::Open);
    programs.refused(
        &["/bin/true", "3", "a"],
        "the processes ended before they called MPI_Init",
    );
    let run = Background::start(&mut programs.command(&["/bin/false", "1", "a"]));
    let outcome = run.end(ENDED_WITHIN);
    assert!(outcome.stderr.contains("returned code 1"), "{outcome:?}");
    programs.cluster.down();
}

#[test]
fn a_job_that_spawns_again_and_again_changes_live() {
    let cluster = Cluster::up(3);
    let program = open_mpi::compiled("tests/programs/spawning_and_changing.c", cluster.files(), true);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    command.arg(&program).args(["1500", "5000"]);
    let mut job = Background::start(command.env("PCM_MPI", open_mpi::prefix()));
    job.wait_for("2 ranks added with their children", LIMIT);
    for (change, ranks) in [(["expand", "1", "--to", "4"], 4), (["shrink", "1", "--to", "3"], 3)] {
        let outcome = cluster.run(&[&change[..], &["--mode", "live"]].concat());
        assert!(outcome.status.success(), "{outcome:?}\n{}", cluster.logs());
        job.wait_for(&format!("{ranks} ranks added with their children"), LIMIT);
    }
    let outcome = job.end(LIMIT);
    assert!(
        outcome.status.success() && !outcome.stdout.contains("FAILED"),
        "{outcome:?}"
    );
    cluster.down();
}
