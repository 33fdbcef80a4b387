//! A heat2d with checkpoints whose parts a test kills: started beside the test, watched through events, held against
//! the checksum of an undisturbed computation. Must never choose what is killed.

use crate::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, reference_checksum},
    limited::Outcome,
    processes, wait,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{process::Command, time::Duration};

const ROWS: usize = 60;
const COLS: usize = 40;

/// How long a job may go on after what the test did to it, on a machine that does much else.
const END_LIMIT: Duration = Duration::from_secs(180);

/// Name of the job.
pub const JOB: &str = "plate";

/// Its start, but for its options.
const RUN: &[&str] = &["run", "-n", "4", "--name", JOB];

/// What is said when lines come again.
const PRINTED_AGAIN: &str = "printed again";

pub const PROGRAM: &str = "heat2d-c";

/// A job, the only one of that name that runs.
pub struct Crashing<'a> {
    cluster: &'a Cluster,
    job: Background,
    number: u64,
    iterations: u64,
}

impl<'a> Crashing<'a> {
    /// Starts it on four ranks with these options of `run`; each iteration takes about `sleep_us`.
    pub fn start(cluster: &'a Cluster, options: &[&str], length: (u64, u32)) -> Self {
        Self::start_with(cluster, options, length, &[])
    }

    /// The same, with these variables in the environment of its ranks.
    pub fn start_with(cluster: &'a Cluster, options: &[&str], length: (u64, u32), variables: &[(&str, &str)]) -> Self {
        Self::start_program(cluster, PROGRAM, options, length, variables)
    }

    /// The same, of another build of heat2d: a path, or a name among the binaries.
    pub fn start_program(
        cluster: &'a Cluster,
        program: &str,
        options: &[&str],
        length: (u64, u32),
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = cluster.pcmctl(RUN);
        command.envs(variables.iter().copied());
        Self::start_by(cluster, command, program, options, length)
    }

    /// The same, with `pcmctl` in this node's network.
    pub fn start_at(cluster: &'a Cluster, node: &str, options: &[&str], length: (u64, u32)) -> Self {
        Self::start_by(cluster, cluster.pcmctl_at(node, RUN), PROGRAM, options, length)
    }

    fn start_by(
        cluster: &'a Cluster,
        mut command: Command,
        program: &str,
        options: &[&str],
        (iterations, sleep_us): (u64, u32),
    ) -> Self {
        let before = last_job(cluster);
        command.args(options).arg("--").arg(built(program));
        command.args(["--rows", &ROWS.to_string(), "--cols", &COLS.to_string()]);
        command.args([
            "--iterations",
            &iterations.to_string(),
            "--sleep-us",
            &sleep_us.to_string(),
        ]);
        let job = Background::start(&mut command);
        let number = wait::until("the job to be known", LIMIT, || {
            let number = last_job(cluster);
            (number > before).then_some(number)
        });
        Self {
            cluster,
            job,
            number,
            iterations,
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its events of one kind so far.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.cluster.events(Some(&self.number.to_string()), kind)
    }

    /// Waits until there are so many events of a kind.
    ///
    /// # Panics
    /// When they do not come.
    pub fn wait_for(&self, kind: &str, count: usize) {
        let found = wait::within(END_LIMIT, || (self.events(kind).len() >= count).then_some(()));
        assert!(
            found.is_some(),
            "no {count} events {kind}: {} {} {}",
            self.job.stdout(),
            self.job.stderr(),
            self.cluster.logs()
        );
    }

    /// The node whose daemon coordinates it.
    ///
    /// # Panics
    /// When nobody says.
    pub fn coordinator(&self) -> String {
        wait::until("the job's coordinator", LIMIT, || {
            let told = self.cluster.run(&["jobs", "--json"]);
            let jobs: Value = serde_json::from_str(&told.stdout).ok()?;
            let job = jobs.as_array()?.iter().find(|job| job["job"] == self.number)?.clone();
            job["coordinator"].as_str().map(str::to_owned)
        })
    }

    /// The processes of its ranks in the order of ranks.
    pub fn ranks(&self) -> Vec<u32> {
        self.cluster.pids_of(&self.number.to_string())
    }

    /// The ranks that run on a node.
    pub fn ranks_on(&self, node: &str) -> Vec<usize> {
        let status = self.cluster.run(&["ps", &self.number.to_string(), "--json"]);
        let document: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        let rows = document["ranks"].as_array().cloned().unwrap_or_default();
        let there = rows.iter().enumerate().filter(|(_, row)| row["node"] == node);
        there.map(|(rank, _)| rank).collect()
    }

    /// Kills a rank; false where there is none now.
    pub fn kill_rank(&self, rank: usize) -> bool {
        let ranks = self.ranks();
        ranks.get(rank).is_some_and(|pid| processes::send(*pid, Signal::KILL))
    }

    /// Waits for its end and sees that the result is right.
    ///
    /// # Panics
    /// When it is not.
    pub fn ends_right(self) -> Outcome {
        let (cluster, iterations) = (self.cluster, self.iterations);
        let outcome = self.job.end(END_LIMIT);
        assert!(outcome.status.success(), "{outcome:?}\n{}", cluster.logs());
        let closing = last_closing(&outcome);
        assert_eq!(
            closing.checksum,
            reference_checksum(ROWS, COLS, iterations),
            "{outcome:?}"
        );
        assert_eq!((closing.iterations, closing.ranks), (iterations, 4));
        outcome
    }

    /// Waits for its end, which is right, or a failure that gives one of these reasons. Whether it was right.
    ///
    /// # Panics
    /// When it is neither.
    pub fn ends_right_or_says(self, reasons: &[&str]) -> bool {
        let (cluster, iterations) = (self.cluster, self.iterations);
        let outcome = self.job.end(END_LIMIT);
        if !outcome.status.success() {
            let is_told = reasons.iter().any(|reason| outcome.stderr.contains(reason));
            assert!(is_told, "{outcome:?}\n{}", cluster.logs());
            return false;
        }
        let checksum = reference_checksum(ROWS, COLS, iterations);
        assert_eq!(last_closing(&outcome).checksum, checksum, "{outcome:?}");
        true
    }

    /// The checksum of a whole undisturbed run.
    pub fn expected_checksum(iterations: u64) -> String {
        reference_checksum(ROWS, COLS, iterations)
    }

    /// Waits for its end.
    pub fn end(self) -> Outcome {
        self.job.end(END_LIMIT)
    }
}

/// What the last start closed with. A crash between a closing line and the end has the line printed again, the same,
/// after it was said that lines come again.
fn last_closing(outcome: &Outcome) -> Closing {
    let lines = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("heat2d: iterations "));
    let closings: Vec<Closing> = lines.map(Closing::read).collect();
    let last = closings
        .last()
        .unwrap_or_else(|| panic!("no closing line in {outcome:?}"));
    let are_same = closings.iter().all(|closing| closing.checksum == last.checksum);
    assert!(are_same, "{outcome:?}");
    let announced = outcome.stderr.matches(PRINTED_AGAIN).count();
    assert!(
        closings.len() <= announced + 1,
        "a line came twice unannounced: {outcome:?}"
    );
    last.clone()
}

/// A job of this build of heat2d loses a rank: that costs the iterations since its last checkpoint and nothing else.
///
/// # Panics
/// When it costs more.
pub fn loses_a_rank_and_ends_right(cluster: &Cluster, program: &str, variables: &[(&str, &str)]) {
    let every = ["--checkpoint-every", "0.3"];
    let job = Crashing::start_program(cluster, program, &every, (1500, 3000), variables);
    job.wait_for("checkpoint_complete", 2);
    assert!(job.kill_rank(2));
    job.wait_for("recovered", 1);
    let recovered = job.events("recovered").remove(0);
    assert!(recovered["from"].as_u64() > Some(0), "{recovered}");
    assert_eq!(recovered["ranks"], 4, "{recovered}");
    job.ends_right();
}

fn last_job(cluster: &Cluster) -> u64 {
    let told = cluster.run(&["jobs", "--json"]);
    let jobs: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
    let numbers = jobs
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|job| job["job"].as_u64());
    numbers.max().unwrap_or(0)
}

/// Kills a node: its keeper, its daemon and, by the keeper's death, its ranks.
pub fn kill_node(cluster: &Cluster, node: &str) {
    let daemon = cluster.daemon_pid(node);
    let keeper = processes::parent(daemon);
    processes::send(keeper, Signal::KILL);
    processes::send(daemon, Signal::KILL);
}
