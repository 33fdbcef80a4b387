//! Warm spares: a spawn takes a process that was started and initialised before, and the program cannot tell.

use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use tests::{
    background::Background,
    c_program::compiled,
    cluster::{Cluster, LIMIT},
    processes::{self, cpu_ticks},
    wait,
};

/// A job of `programs/spares.c` that keeps spares.
struct Job {
    cluster: Cluster,
    run: Background,
}

impl Job {
    fn start(nodes: u32, spares: u32, children: u32) -> Self {
        let cluster = Cluster::up(nodes);
        let program = compiled("programs/spares.c", cluster.files());
        let mut command = cluster.pcmctl(&["run", "-n", "1", "--spares", &spares.to_string(), "--"]);
        command.arg(&program).arg(children.to_string());
        command.env("SPARES_TEST", "of the job");
        let run = Background::start(&mut command);
        Self { cluster, run }
    }

    /// Lets the parent go on, to its next child or its end.
    fn go(&self, number: u32) {
        fs::write(self.cluster.files().join(format!("go.{number}")), "").expect("a file");
    }

    /// Has the next child spawned: its process id, after a look at what it sees of itself.
    fn spawn(&mut self, number: u32) -> u32 {
        self.go(number);
        let begin = format!("child {number} of 2: ");
        self.run.wait_for(&begin, LIMIT);
        let said = self.run.stdout();
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix(&begin))
            .expect("its line");
        let directory = fs::canonicalize(self.cluster.files()).expect("a folder");
        let rest = format!(
            " world 1 argc 3 argument 'one word' variable 'of the job' directory '{}'",
            directory.display()
        );
        let pid = line
            .strip_prefix("pid ")
            .and_then(|line| line.strip_suffix(rest.as_str()));
        pid.and_then(|pid| pid.parse().ok())
            .unwrap_or_else(|| panic!("not {rest:?}: {line:?}"))
    }

    /// Waits until `ps` shows so many spares that are ready; their process ids.
    fn ready(&self, count: usize) -> Vec<u32> {
        wait::until("spares that are ready", LIMIT, || {
            // A daemon that was killed does not answer at once.
            let outcome = self.cluster.run(&["ps", "1", "--json"]);
            let seen: Value = serde_json::from_str(&outcome.stdout).ok()?;
            let spares = seen["spares"].as_array()?;
            let ready = spares.iter().filter(|spare| spare["ready"] == true);
            let pids: Vec<u32> = ready
                .filter_map(|spare| u32::try_from(spare["pid"].as_u64()?).ok())
                .collect();
            (spares.len() == count && pids.len() == count).then_some(pids)
        })
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        self.cluster.events(Some("1"), kind)
    }

    fn taken(&self) -> Vec<bool> {
        let spawned = self.events("spawned");
        spawned.iter().map(|event| event["spare"] == true).collect()
    }
}

#[test]
fn a_spawn_takes_a_spare_and_the_child_sees_what_any_child_sees() {
    let mut job = Job::start(2, 2, 3);
    let first = job.spawn(0);
    let spares = job.ready(2);
    assert!(!spares.contains(&first));
    let before: Vec<Option<u64>> = spares.iter().map(|pid| cpu_ticks(*pid)).collect();
    let taken = job.spawn(1);
    assert!(spares.contains(&taken), "{taken} is none of {spares:?}");
    let other = spares.iter().position(|pid| *pid != taken).expect("another");
    let again = job.ready(2);
    assert!(
        again.contains(&spares[other]) && !again.contains(&taken),
        "renewed: {again:?}"
    );
    assert!(
        cpu_ticks(spares[other]) <= before[other].map(|ticks| ticks + 1),
        "a spare that waits takes no CPU time"
    );
    let third = job.spawn(2);
    assert!(again.contains(&third));
    assert_eq!(job.taken(), [false, true, true]);
    let left = job.ready(2);
    job.go(3);
    let outcome = job.run.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(
        outcome.stdout.matches("before MPI_Init").count(),
        3,
        "what nobody asked for is not heard: {outcome:?}"
    );
    wait::until("the spares to end with the job", LIMIT, || {
        left.iter().all(|pid| !processes::is_alive(*pid)).then_some(())
    });
    job.cluster.down();
}

#[test]
fn a_spare_that_is_killed_ends_nothing_and_is_replaced() {
    let mut job = Job::start(1, 1, 2);
    job.spawn(0);
    let spares = job.ready(1);
    assert!(processes::send(spares[0], Signal::KILL));
    wait::until("the loss to be told", LIMIT, || {
        (!job.events("spare_lost").is_empty()).then_some(())
    });
    let again = job.ready(1);
    assert_ne!(again, spares);
    assert_eq!(job.spawn(1), again[0]);
    job.go(2);
    let outcome = job.run.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    job.cluster.down();
}

#[test]
fn a_daemon_that_is_killed_finds_its_spares_again() {
    let mut job = Job::start(1, 2, 2);
    job.spawn(0);
    let spares = job.ready(2);
    assert!(processes::send(job.cluster.daemon_pid("n0"), Signal::KILL));
    let again = job.ready(2);
    assert_eq!(again, spares);
    assert!(spares.contains(&job.spawn(1)));
    job.go(2);
    let outcome = job.run.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout.matches("before MPI_Init").count(), 2, "{outcome:?}");
    job.cluster.down();
}

#[test]
fn a_job_that_is_killed_takes_its_spares_along() {
    let mut job = Job::start(2, 3, 1);
    job.spawn(0);
    let spares = job.ready(3);
    assert!(job.cluster.run(&["kill", "1"]).status.success());
    job.run.end(LIMIT);
    wait::until("the spares to end with the job", LIMIT, || {
        spares.iter().all(|pid| !processes::is_alive(*pid)).then_some(())
    });
    job.cluster.down();
}

#[test]
fn a_node_that_is_drained_has_no_spares_left() {
    let mut job = Job::start(2, 2, 2);
    job.spawn(0);
    let spares = job.ready(2);
    let rows = job.cluster.json(&["ps", "1"]);
    let node = rows["ranks"][0]["node"].as_str().expect("a node").to_owned();
    // The rank itself cannot leave; its spares are ended all the same, again and again until the time is over.
    let outcome = job.cluster.run(&["drain", &node, "--deadline", "2"]);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(spares.iter().all(|pid| !processes::is_alive(*pid)), "{spares:?}");
    assert!(job.cluster.run(&["kill", "1"]).status.success());
    job.run.end(LIMIT);
    job.cluster.down();
}
