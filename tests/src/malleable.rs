//! A running heat2d that is reconfigured: started beside the test, changed through `pcmctl`, held against the checksum
//! of an undisturbed computation. Must never choose what is changed.

use crate::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, reference_checksum},
    limited::Outcome,
    wait,
};
use serde_json::Value;
use std::time::Duration;

/// Size of the plate: small, so that what is measured is the change and not the data.
const ROWS: usize = 120;
const COLS: usize = 40;

/// How long a job may go on after its last change.
const END_LIMIT: Duration = Duration::from_secs(240);

/// One rank, as `pcmctl ps` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSeen {
    pub node: String,
    pub pid: u32,
    /// Iterations it has started.
    pub iteration: u64,
}

/// How a job ended.
#[derive(Debug)]
pub enum Ended {
    /// With success and the right result.
    Right(Closing),
    /// With a code and a reason.
    Failed(Outcome),
}

/// A job, the first of its cluster.
pub struct Malleable<'a> {
    cluster: &'a Cluster,
    job: Background,
    iterations: u64,
}

impl<'a> Malleable<'a> {
    /// Starts `program`, one of the heat2d, on so many ranks; each iteration takes `sleep_us` and what the machine
    /// needs.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start(cluster: &'a Cluster, program: &str, ranks: u32, iterations: u64, sleep_us: u32) -> Self {
        Self::start_with(cluster, program, ranks, (iterations, sleep_us), &[])
    }

    /// One of 3,000 iterations of half a millisecond, with these options of `run`.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start_on(cluster: &'a Cluster, program: &str, ranks: u32, options: &[&str]) -> Self {
        Self::started(cluster, program, (ranks, options), (3000, 500), &[])
    }

    /// The same, of so many iterations with such a sleep, with these variables in the environment of its ranks.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start_with(
        cluster: &'a Cluster,
        program: &str,
        ranks: u32,
        pace: (u64, u32),
        variables: &[(&str, &str)],
    ) -> Self {
        Self::started(cluster, program, (ranks, &[]), pace, variables)
    }

    fn started(
        cluster: &'a Cluster,
        program: &str,
        (ranks, options): (u32, &[&str]),
        (iterations, sleep_us): (u64, u32),
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = cluster.pcmctl(&["run", "-n", &ranks.to_string()]);
        command
            .args(options)
            .arg("--")
            .arg(built(program))
            .args(["--rows", &ROWS.to_string()]);
        command.args(["--cols", &COLS.to_string(), "--iterations", &iterations.to_string()]);
        command.args(["--sleep-us", &sleep_us.to_string()]);
        command.envs(variables.iter().copied());
        let job = Self {
            cluster,
            job: Background::start(&mut command),
            iterations,
        };
        wait::until("every rank to iterate", LIMIT, || {
            let ranks = job.ranks_if_known()?;
            (!ranks.is_empty() && ranks.iter().all(|rank| rank.iteration > 0)).then_some(())
        });
        job
    }

    fn ranks_if_known(&self) -> Option<Vec<RankSeen>> {
        let status = self.cluster.run(&["ps", "1", "--json"]);
        let document: Value = serde_json::from_str(&status.stdout).ok()?;
        let row = |row: &Value| {
            Some(RankSeen {
                node: row["node"].as_str()?.to_owned(),
                pid: u32::try_from(row["pid"].as_u64()?).ok()?,
                iteration: row["iteration"].as_u64()?,
            })
        };
        document["ranks"].as_array()?.iter().map(row).collect()
    }

    /// The ranks.
    ///
    /// # Panics
    /// When `ps` does not tell them.
    pub fn ranks(&self) -> Vec<RankSeen> {
        let known = wait::within(LIMIT, || self.ranks_if_known());
        known.unwrap_or_else(|| panic!("no ranks: {}", self.told()))
    }

    /// The nodes of the ranks.
    pub fn nodes(&self) -> Vec<String> {
        self.ranks().into_iter().map(|rank| rank.node).collect()
    }

    /// Changes the job and returns what was done.
    ///
    /// # Panics
    /// When it was not done.
    pub fn change(&self, verb: &str, arguments: &[&str]) -> Value {
        let outcome = self
            .cluster
            .run(&[&[verb, "1"], arguments, &["--mode", "live", "--json"]].concat());
        assert!(
            outcome.status.success(),
            "{verb} {arguments:?}: {outcome:?}\n{}",
            self.told()
        );
        serde_json::from_str(&outcome.stdout).expect("a JSON document")
    }

    /// Moves a rank.
    pub fn migrate(&self, rank: usize, to: &str) -> Value {
        self.change("migrate", &["--rank", &rank.to_string(), "--to", to])
    }

    /// Grows or shrinks to so many ranks.
    pub fn resize(&self, to: usize) -> Value {
        let verb = if to > self.ranks().len() { "expand" } else { "shrink" };
        let done = self.change(verb, &["--to", &to.to_string()]);
        assert_eq!(done["ranks_after"].as_u64(), Some(to as u64), "{done}");
        done
    }

    /// Waits until the ranks have gone on by some iterations.
    ///
    /// # Panics
    /// When they do not.
    pub fn goes_on(&self) {
        let least = |ranks: Vec<RankSeen>| ranks.iter().map(|rank| rank.iteration).min().unwrap_or(0);
        let before = least(self.ranks());
        wait::until("the ranks to go on", LIMIT, || {
            (least(self.ranks_if_known()?) > before + 2).then_some(())
        });
    }

    /// What the job has said so far.
    pub fn told(&self) -> String {
        format!("stdout: {}\nstderr: {}", self.job.stdout(), self.job.stderr())
    }

    /// Waits for the end of the job, which must be one of success with the right checksum.
    ///
    /// # Panics
    /// When it is not.
    pub fn ends_right(self) -> Closing {
        match self.ends() {
            Ended::Right(closing) => closing,
            Ended::Failed(outcome) => panic!("{outcome:?}"),
        }
    }

    /// Waits for the end of the job.
    ///
    /// # Panics
    /// When it is one of success with a wrong checksum, or one without a word, or does not come.
    pub fn ends(self) -> Ended {
        let outcome = self.job.end(END_LIMIT);
        if !outcome.status.success() {
            let reason = outcome.stderr.lines().find(|line| line.starts_with("pcmctl: job 1:"));
            assert!(reason.is_some(), "no reason: {outcome:?}");
            return Ended::Failed(outcome);
        }
        let closing = Closing::read(&outcome.stdout);
        let expected = reference_checksum(ROWS, COLS, self.iterations);
        assert_eq!(closing.checksum, expected, "{outcome:?}");
        Ended::Right(closing)
    }

    /// Ends the job.
    pub fn kill(self) {
        self.cluster.run(&["kill", "1"]);
        drop(self.job);
    }
}
