//! Engines that own machines and give them to jobs, such as Slurm. What an engine is asked and what its answers mean is
//! pure and behind one trait; the calls are made here, each with a deadline, because a client whose controller is away
//! waits without end.

mod call;
pub mod slurm;

pub use call::{Call, run};

use crate::failure::Failure;
use pcm_proto::ids::NodeName;
use std::path::PathBuf;

/// Machines that an engine gave to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The engine's number of the job.
    pub job: String,
    /// Its nodes as the engine writes them.
    pub node_list: String,
}

/// What becomes the daemon of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// The program `pcm-daemon`.
    pub daemon: PathBuf,
    /// The cluster's directory.
    pub cluster_dir: PathBuf,
}

/// What a helper shares with the job that it helps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreJob {
    pub job: String,
    pub account: String,
    pub qos: String,
    pub features: String,
    pub partition: String,
    /// What is left of its time, as the engine writes it; empty where it has no limit.
    pub time_left: String,
}

/// One more node, as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Helper<'a> {
    /// Its job lasts while no other wants the node, and comes back later.
    pub scavenges: bool,
    /// The user's own options for the engine.
    pub options: &'a [String],
}

/// A resource manager: pure planning and parsing.
pub trait ResourceManager {
    /// As people call it.
    fn name(&self) -> &'static str;

    /// The allocation that this process runs in, by its environment.
    fn allocation(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<Allocation>;

    /// Asks for the names of an allocation's nodes.
    fn ask_nodes(&self, allocation: &Allocation) -> Call;

    /// Reads the answer.
    fn read_nodes(&self, answer: &str) -> Result<Vec<NodeName>, String>;

    /// Asks when an allocation ends.
    fn ask_end(&self, allocation: &Allocation) -> Call;

    /// Reads the answer: microseconds since 1970; none where there is no limit, or it is not known.
    fn read_end(&self, answer: &str, now_us: u64) -> Option<u64>;

    /// Starts a daemon on every node of an allocation; lasts as long as they do. The first node begins the cluster.
    fn start_daemons(&self, allocation: &Allocation, nodes: &[NodeName], joining: &Joining) -> Call;

    /// Asks what a helper has to share with this job.
    fn ask_core_job(&self, job: &str) -> Call;

    /// Reads the answer.
    fn read_core_job(&self, answer: &str) -> Result<CoreJob, String>;

    /// Asks for one more node, whose daemon joins.
    fn submit_helper(&self, core: &CoreJob, joining: &Joining, helper: &Helper<'_>) -> Call;

    /// Reads the number of the helper's job.
    fn read_helper(&self, answer: &str) -> Result<String, String>;

    /// Takes back what was asked for this job and has not started: its cluster is over.
    fn cancel_waiting_helpers(&self, job: &str) -> Call;
}

/// An allocation with its engine.
pub type Present = (Box<dyn ResourceManager>, Allocation);

/// The allocation that this process runs in, with its engine.
pub fn present() -> Option<Present> {
    let manager: Box<dyn ResourceManager> = Box::new(slurm::Slurm);
    let allocation = manager.allocation(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))?;
    Some((manager, allocation))
}

/// The engine that people call so, as the list of nodes has it.
pub fn named(name: &str) -> Option<Box<dyn ResourceManager>> {
    let managers: [Box<dyn ResourceManager>; 1] = [Box::new(slurm::Slurm)];
    managers.into_iter().find(|manager| manager.name() == name)
}

/// Asks an engine and reads its answer.
pub async fn ask<T>(call: Call, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Failure> {
    let shown = call.shown();
    let answer = run(call).await?;
    read(&answer)
        .map_err(|reason| Failure::system(format!("'{shown}' gave an answer that is not understood: {reason}")))
}
