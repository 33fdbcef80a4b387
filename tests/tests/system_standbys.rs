//! `run --spares` of a job that grows: ranks that join were started before and waited in `MPI_Init`, and the program
//! cannot tell.

use rustix::process::Signal;
use std::{path::Path, time::Duration};
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    crashing::Crashing,
    example::{for_python, source},
    heat2d::{Closing, reference_checksum},
    malleable::Malleable,
    processes::{self, cpu_ticks},
    random_changes,
    standbys::ready,
    wait,
};

const CHANGES: u32 = 50;

fn pids(job: &Malleable<'_>) -> Vec<u32> {
    job.ranks().into_iter().map(|rank| rank.pid).collect()
}

fn start<'a>(cluster: &'a Cluster, ranks: u32, spares: u32) -> Malleable<'a> {
    let spares = spares.to_string();
    Malleable::start_with(
        cluster,
        "heat2d-c",
        ranks,
        random_changes::PACE,
        &[("PCM_SPARES", &spares)],
    )
}

/// The processes end with their job.
fn assert_end(standbys: &[u32]) {
    wait::until("the standbys to end", LIMIT, || {
        standbys.iter().all(|pid| !processes::is_alive(*pid)).then_some(())
    });
}

#[test]
fn ranks_that_join_waited_before_and_the_result_is_right() {
    let cluster = Cluster::up(4);
    let job = start(&cluster, 2, 2);
    let before = pids(&job);
    let standbys = ready(&cluster, 2);
    let ticks: Vec<Option<u64>> = standbys.iter().map(|pid| cpu_ticks(*pid)).collect();
    std::thread::sleep(Duration::from_secs(1));
    for (pid, before) in standbys.iter().zip(ticks) {
        assert!(
            cpu_ticks(*pid) <= before.map(|ticks| ticks + 1),
            "it waits without CPU time"
        );
    }
    job.resize(4);
    let joined: Vec<u32> = pids(&job).into_iter().filter(|pid| !before.contains(pid)).collect();
    assert_eq!(joined.len(), 2);
    assert!(
        joined.iter().all(|pid| standbys.contains(pid)),
        "{joined:?} joined, {standbys:?} waited"
    );
    let next = ready(&cluster, 2);
    assert!(next.iter().all(|pid| !joined.contains(pid)), "renewed: {next:?}");
    // The ranks that leave do not take the standbys of their nodes along.
    job.resize(2);
    let next = ready(&cluster, 2);
    job.resize(3);
    let joined = pids(&job);
    assert!(
        joined.iter().any(|pid| next.contains(pid)),
        "{joined:?} run, {next:?} waited"
    );
    let left = ready(&cluster, 2);
    assert!(cluster.run(&["kill", "1"]).status.success());
    assert_end(&left);
    cluster.down();
}

#[test]
fn fifty_changes_with_standbys_end_right() {
    let cluster = Cluster::up(random_changes::NODES);
    let job = start(&cluster, 2, 2);
    ready(&cluster, 2);
    random_changes::survives(&cluster, job, CHANGES);
    cluster.down();
}

#[test]
fn standbys_outlive_daemons_and_a_crash_of_the_job_and_are_replaced_when_they_die() {
    let cluster = Cluster::that_crashes(3);
    let options = ["--checkpoint-every", "0.3", "--spares", "2"];
    let job = Crashing::start(&cluster, &options, (12_000, 3000));
    let standbys = ready(&cluster, 2);
    let daemons = ["n0", "n1", "n2"].map(|node| cluster.daemon_pid(node));
    assert!(daemons.iter().all(|pid| processes::send(*pid, Signal::KILL)));
    assert_eq!(ready(&cluster, 2), standbys, "their keepers have them");
    assert!(processes::send(standbys[0], Signal::KILL));
    wait::until("another in its place", LIMIT, || {
        let next = ready(&cluster, 2);
        (!next.contains(&standbys[0])).then_some(())
    });
    job.wait_for("checkpoint_complete", 2);
    assert!(job.kill_rank(2));
    job.wait_for("recovered", 1);
    let standbys = ready(&cluster, 2);
    cluster.json(&["expand", "1", "--to", "5"]);
    let ranks = job.ranks();
    assert!(
        ranks.iter().any(|pid| standbys.contains(pid)),
        "{ranks:?} run, {standbys:?} waited"
    );
    cluster.json(&["shrink", "1", "--to", "4"]);
    job.ends_right();
    assert_end(&standbys);
    cluster.down();
}

/// Its start is what standbys are for: an interpreter that imports numpy.
#[test]
fn python_joins_from_standbys_and_computes_the_same() {
    const SHAPE: (usize, usize) = (61, 83);
    const ITERATIONS: u64 = 3000;
    let Some(variables) = for_python() else { return };
    let cluster = Cluster::up(4);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--spares", "2", "--", "python3"]);
    command.arg(source("heat2d/heat2d.py"));
    let (rows, cols, iterations) = (SHAPE.0.to_string(), SHAPE.1.to_string(), ITERATIONS.to_string());
    command.args([
        "--rows",
        &rows,
        "--cols",
        &cols,
        "--iterations",
        &iterations,
        "--sleep-us",
        "4000",
    ]);
    command.envs(variables);
    let run = Background::start(&mut command);
    let standbys = ready(&cluster, 2);
    let names = standbys
        .iter()
        .map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")));
    for name in names {
        let name = name.expect("a living process");
        assert!(is_python(&name), "{name:?}");
    }
    let changed = cluster.json(&["expand", "1", "--to", "4"]);
    println!("{changed}");
    let ranks = cluster.json(&["ps", "1"]);
    let ranks = ranks["ranks"].as_array().expect("ranks").iter();
    let ranks: Vec<u64> = ranks.filter_map(|rank| rank["pid"].as_u64()).collect();
    assert!(
        standbys.iter().all(|pid| ranks.contains(&u64::from(*pid))),
        "{ranks:?} run, {standbys:?} waited"
    );
    let outcome = run.end(3 * LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let closing = Closing::read(&outcome.stdout);
    assert_eq!(closing.checksum, reference_checksum(SHAPE.0, SHAPE.1, ITERATIONS));
    cluster.down();
}

fn is_python(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("python"))
}
