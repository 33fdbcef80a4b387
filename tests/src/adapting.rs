//! A heat2d whose agents decide: where its ranks are, what was decided, whether it goes on. Must never change it
//! itself.

use crate::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    wait,
};
use serde_json::Value;
use std::{process::Command, thread, time::Duration};

/// Agents need two or three seconds; this is for a machine that does much else.
pub const DECIDED: Duration = Duration::from_secs(60);

/// Time between two looks at a job.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Changes that follow a change of places come in so many looks.
const SETTLING: u32 = 5;

/// Ranks are put where CPUs are free: by the order of nodes, once those that have just come up are done with that.
///
/// # Panics
/// When they do not come to rest.
pub fn wait_until_idle(cluster: &Cluster) {
    wait::until("idle nodes", LIMIT, || {
        // To look is work for a CPU, too.
        thread::sleep(Duration::from_millis(500));
        let nodes = cluster.json(&["nodes"]);
        let is_idle = |node: &Value| node["load_by_others"].as_f64().is_some_and(|load| load < 0.1);
        nodes.as_array()?.iter().all(is_idle).then_some(())
    });
}

/// The first job of a cluster.
pub struct Adapting<'a> {
    cluster: &'a Cluster,
    number: String,
    job: Background,
}

impl<'a> Adapting<'a> {
    /// Starts heat2d with these options of `run` and waits until it iterates. It does not end by itself.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start(cluster: &'a Cluster, options: &[&str]) -> Self {
        Self::start_program(
            cluster,
            options,
            "heat2d-c",
            &["--rows", "2000", "--cols", "1500", "--iterations", "100000000"],
        )
    }

    /// The same with another program.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start_program(cluster: &'a Cluster, options: &[&str], program: &str, arguments: &[&str]) -> Self {
        Self::start_nth(cluster, 1, options, program, arguments)
    }

    /// The same where jobs ran before: it is the cluster's job of this number.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start_nth(cluster: &'a Cluster, number: u32, options: &[&str], program: &str, arguments: &[&str]) -> Self {
        let mut command = cluster.pcmctl(&["run"]);
        command.args(options).arg("--").arg(built(program)).args(arguments);
        Self::started(cluster, number, &mut command)
    }

    /// The same by a whole command.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start_command(cluster: &'a Cluster, command: &mut Command) -> Self {
        Self::started(cluster, 1, command)
    }

    fn started(cluster: &'a Cluster, number: u32, command: &mut Command) -> Self {
        let (number, job) = (number.to_string(), Background::start(command));
        cluster.wait_until_ranks_of_iterate(&number);
        Self { cluster, number, job }
    }

    fn ps(&self) -> Option<Value> {
        let outcome = self.cluster.run(&["ps", &self.number, "--json"]);
        serde_json::from_str(&outcome.stdout).ok()
    }

    /// The nodes of its ranks, by rank; nothing while that is not known.
    pub fn places(&self) -> Option<Vec<String>> {
        places(&self.ps()?)
    }

    /// The same; nothing while the job is being changed, too.
    fn places_at_rest(&self) -> Option<Vec<String>> {
        let ps = self.ps()?;
        (ps["state"] == "running").then(|| places(&ps))?
    }

    /// Waits until the places are as wanted, and whatever made them so is over.
    ///
    /// # Panics
    /// When they do not become so; with what the agents thought.
    pub fn wait_until(&self, what: &str, is_wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let found = wait::within(DECIDED, || {
            // As a person would look: each look starts a program, and many take the CPU time that is to be idle.
            thread::sleep(LOOK_EVERY);
            self.places_at_rest().filter(|places| is_wanted(places))
        });
        found.unwrap_or_else(|| {
            panic!(
                "waited in vain for {what}: {:?}\n{}\n{}",
                self.places(),
                self.explained(),
                self.cluster.logs()
            )
        })
    }

    /// Sees that nothing changes for so long. Meanwhile it does not look: that would take CPU time from the ranks,
    /// which is what agents move them for.
    ///
    /// # Panics
    /// When something does.
    pub fn stays(&self, time: Duration) {
        assert!(self.has_stayed(time), "{}\n{}", self.explained(), self.cluster.logs());
    }

    /// Waits until nothing has changed for so long: after a change of places, shares may follow them.
    ///
    /// # Panics
    /// When changes do not end.
    pub fn settles(&self, time: Duration) {
        let has_settled = (0..SETTLING).any(|_| self.has_stayed(time));
        assert!(has_settled, "{}\n{}", self.explained(), self.cluster.logs());
    }

    /// Whether nothing changes for so long.
    pub fn has_stayed(&self, time: Duration) -> bool {
        let look = || (wait::within(LIMIT, || self.places()), self.events("reconfigured").len());
        let before = look();
        thread::sleep(time);
        look() == before
    }

    /// What `explain` says.
    pub fn explained(&self) -> String {
        self.cluster.run(&["explain", &self.number]).stdout
    }

    /// Events of a kind.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.cluster.events(None, kind)
    }

    /// The iteration all ranks have begun.
    fn iteration(&self) -> Option<u64> {
        let ps = self.ps()?;
        let ranks = ps["ranks"].as_array()?;
        ranks.iter().filter_map(|rank| rank["iteration"].as_u64()).min()
    }

    /// Sees that the ranks iterate.
    ///
    /// # Panics
    /// When they do not.
    pub fn goes_on(&self) {
        let before = wait::within(LIMIT, || self.iteration()).unwrap_or(0);
        wait::until("the ranks to go on", LIMIT, || {
            (self.iteration()? > before + 2).then_some(())
        });
    }

    /// Ends it.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(self) {
        let outcome = self.cluster.run(&["kill", &self.number]);
        assert!(outcome.status.success(), "{outcome:?}");
        self.job.end(LIMIT);
    }
}

fn places(ps: &Value) -> Option<Vec<String>> {
    let places = ps["ranks"].as_array()?.iter();
    let places = places.map(|rank| rank["node"].as_str().map(str::to_owned));
    places
        .collect::<Option<Vec<String>>>()
        .filter(|places| !places.is_empty())
}
