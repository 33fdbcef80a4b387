//! Who is a member: a dead or stopped daemon is found within three seconds, and no load makes a living one look dead.

use rustix::process::Signal;
use std::{
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};
use tests::{
    cluster::{Cluster, LIMIT},
    processes, wait,
};

/// What the failure detector promises.
const FOUND_MAX: Duration = Duration::from_secs(3);

/// Asks `nodes` once more after the promise is over: the answer itself takes a few milliseconds.
const ASK: Duration = Duration::from_millis(500);

#[test]
fn a_stopped_daemon_is_suspect_within_three_seconds_and_up_again_when_it_goes_on() {
    let cluster = Cluster::alert(4);
    let daemon = cluster.daemon_pid("n2");
    let begun = Instant::now();
    processes::send(daemon, Signal::STOP);
    wait::until("n2 to be suspect", FOUND_MAX + ASK, || {
        (cluster.node_state("n2") != "up").then_some(())
    });
    let found = begun.elapsed();
    assert!(found <= FOUND_MAX, "found after {found:?}");
    processes::send(daemon, Signal::CONT);
    wait::until("n2 to be up again", LIMIT, || {
        (cluster.node_state("n2") == "up").then_some(())
    });
    assert!(cluster.run(&["run", "-n", "4", "--", "true"]).status.success());
    cluster.down();
}

#[test]
fn a_killed_node_is_gone_within_three_seconds_and_the_others_go_on() {
    let cluster = Cluster::alert(3);
    let daemon = cluster.daemon_pid("n1");
    let keeper = processes::parent(daemon);
    let begun = Instant::now();
    processes::send(keeper, Signal::KILL);
    processes::send(daemon, Signal::KILL);
    wait::until("n1 not to be up", FOUND_MAX + ASK, || {
        (cluster.node_state("n1") != "up").then_some(())
    });
    let found = begun.elapsed();
    assert!(found <= FOUND_MAX, "found after {found:?}");
    wait::until("n1 to be gone", LIMIT, || {
        (cluster.node_state("n1") == "gone").then_some(())
    });
    let outcome = cluster.run(&["run", "-n", "3", "--", "sh", "-c", "echo $PCM_NODE"]);
    assert!(
        outcome.status.success() && !outcome.stdout.contains("n1"),
        "{outcome:?}"
    );
    cluster.down();
}

struct Load(Vec<Child>);

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_machine_under_full_load_raises_no_false_alarm() {
    let cluster = Cluster::alert(4);
    let cpus = thread::available_parallelism().map_or(2, usize::from);
    let load = Load(
        (0..4 * cpus)
            .map(|_| {
                Command::new("sh")
                    .args(["-c", "while :; do :; done"])
                    .spawn()
                    .expect("a shell")
            })
            .collect(),
    );
    let end = Instant::now() + Duration::from_secs(20);
    let mut looked = 0;
    while Instant::now() < end {
        for node in ["n0", "n1", "n2", "n3"] {
            assert_eq!(cluster.node_state(node), "up", "after {looked} looks");
        }
        looked += 1;
    }
    drop(load);
    let events = cluster.run(&["events", "--json"]).stdout;
    assert!(
        !events.contains("node_suspect") && !events.contains("node_gone"),
        "{events}"
    );
    assert!(looked >= 3, "too slow a machine to judge: {looked} looks");
    cluster.down();
}

#[test]
fn a_patient_cluster_gives_up_no_rank_of_a_node_that_stands_still_for_a_while() {
    let mut cluster = Cluster::place();
    let refused = cluster.boot(&["--local", "2", "--patience", "0.5"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("from 1.6 to 20"), "{refused:?}");
    assert!(cluster.boot(&["--local", "3", "--patience", "12"]).status.success());
    let job = cluster.run(&["run", "--detach", "-n", "3", "--", "sleep", "9"]);
    assert!(job.status.success(), "{job:?}");
    let daemon = cluster.daemon_pid("n1");
    processes::send(daemon, Signal::STOP);
    wait::until("n1 to be suspect", FOUND_MAX + ASK, || {
        (cluster.node_state("n1") != "up").then_some(())
    });
    thread::sleep(Duration::from_secs(4));
    assert_eq!(cluster.node_state("n1"), "suspect");
    processes::send(daemon, Signal::CONT);
    wait::until("n1 to be up again", LIMIT, || {
        (cluster.node_state("n1") == "up").then_some(())
    });
    let ended = wait::until("the job to end", LIMIT, || {
        let jobs = cluster.json(&["jobs"]);
        let job = jobs.as_array()?.first()?.clone();
        (job["state"] == "ended").then_some(job)
    });
    assert_eq!(ended["code"], 0, "{ended}");
    let events = cluster.run(&["events", "--json"]).stdout;
    assert!(!events.contains("node_gone"), "{events}");
    cluster.down();
}
