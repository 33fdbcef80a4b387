//! Messages between a daemon and the agent of its node, over a local socket whose peer's user is checked, and between
//! agents, passed on by their daemons. The agent starts the link and says who it is; it may be killed and started again
//! at any moment, so neither side keeps anything for the other. Nothing an agent says is an order: the daemon checks it
//! as it checks what a person types.

use crate::control::LayoutChange;
use crate::event::Decision;
use crate::ids::{Bytes, Epoch, JobId, NodeName, ProcessId, Rank};
use crate::keeper::ProcessKey;
use crate::link::LinkMeasured;
use crate::rank_counts::RankCounts;
use serde::{Deserialize, Serialize};

/// Peers of a rank that a sample names, those with the most bytes first: a stencil has up to 26.
pub const PEERS_TOLD_MAX: usize = 32;

/// Nodes a daemon names to its agent; enough for random walks, and independent of the size of the cluster.
pub const NEIGHBOURS_MAX: usize = 32;

/// Names the file with the numbers by which agents decide.
pub const TUNING_VARIABLE: &str = "PCM_AGENT_TUNING";

/// The file's name in the cluster's directory.
pub const TUNING_FILE: &str = "agents.toml";

/// The policies a job may name; the first is the default.
pub const POLICY_NAMES: [&str; 6] = ["cost", "rsm", "ats", "nts", "random", "none"];

/// What the agent tells its daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AgentToDaemon {
    /// First message: the agent runs.
    Ready {
        /// Its process id.
        pid: u32,
    },
    /// How the node is, every second and at each notable change.
    Profile(NodeProfile),
    /// What do the pages of the ranks here show, and what are the links like? Answered by `Samples`.
    Sample {
        /// Nodes whose links it wants to know besides those of its jobs: thieves.
        about: Vec<NodeName>,
    },
    /// For the agent of another node.
    Tell { to: NodeName, message: Box<AgentToAgent> },
    /// A job that this daemon coordinates should be changed; answered by `Proposed`.
    Propose {
        /// Number of the proposal among this agent's.
        number: u64,
        job: JobId,
        /// The layout it was thought of for; another one is in force means no.
        epoch: Epoch,
        /// What to change.
        change: LayoutChange,
        /// Why, in words and numbers, for the event.
        cause: String,
    },
    /// What was decided about a job, for the events.
    Decided { job: JobId, decision: Box<Decision> },
}

/// What the daemon tells its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DaemonToAgent {
    /// First message: the node the agent is to look after.
    Welcome {
        node: NodeName,
        cpus: Vec<u32>,
        /// The speed an earlier agent of this daemon measured; 0 asks for a calibration.
        speed: f64,
    },
    /// The levels of its log from now on, above those it began with.
    Levels(String),
    /// The ranks the node runs from now on, with their process ids.
    Ranks(Vec<(ProcessKey, u32)>),
    /// Answer to `Sample`.
    Samples {
        /// CLOCK_MONOTONIC at the look.
        at_ns: u64,
        /// The jobs that have ranks here or are coordinated here.
        jobs: Vec<JobSample>,
        /// What was measured of the links to other hosts that the agent may care about, those of its jobs first.
        links: Vec<LinkMeasured>,
    },
    /// Other nodes that the agent may talk to, a few at random, and what they think of this node.
    Neighbours {
        nodes: Vec<Neighbour>,
        /// Where this node stands.
        own: Neighbour,
        /// Whether this node is being emptied.
        is_draining: bool,
        /// Whether this node ends too soon for new ranks.
        ends_soon: bool,
    },
    /// Something from the agent of another node.
    Heard { from: NodeName, message: Box<AgentToAgent> },
    /// What became of a proposal.
    Proposed { number: u64, outcome: ProposalOutcome },
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ProposalOutcome {
    /// It was carried out.
    Done {
        /// Longest time a rank's application code was held.
        pause_ms: f64,
        /// Bytes that went from one process to another.
        bytes_moved: Bytes,
        /// From the request to the commit.
        total_ms: f64,
    },
    /// It was not, and changed nothing.
    Refused {
        /// A code of [`crate::refusal`].
        code: String,
        message: String,
    },
}

/// Another node, as far as stealing is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    pub node: NodeName,
    pub site: String,
    /// Nodes with the same number share memory.
    pub host: u64,
}

/// A job as its daemon knows it, and the counters of its ranks on this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSample {
    pub job: JobId,
    /// The node whose daemon coordinates it.
    pub coordinator: NodeName,
    /// Its layout's epoch.
    pub epoch: Epoch,
    /// Ranks of that layout.
    pub size: u32,
    /// Nodes of that layout.
    pub nodes: u32,
    /// Ranks it started with.
    pub started_with: u32,
    /// Fewest ranks a decision may leave it.
    pub min: u32,
    /// Most ranks a decision may give it.
    pub max: u32,
    /// Numbers of ranks on which the program can run.
    #[serde(default)]
    pub counts: RankCounts,
    /// Whether its data can be divided by shares.
    pub follows_shares: bool,
    /// The shares of its ranks now; empty means equal ones.
    #[serde(default)]
    pub shares: Vec<u32>,
    /// Nodes it may use; empty means all.
    pub allowed: Vec<NodeName>,
    /// Its policy; empty means the default.
    pub policy: String,
    /// Its ranks here.
    pub ranks: Vec<RankCounters>,
}

/// What a rank's page shows: counters since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankCounters {
    pub process: ProcessId,
    pub rank: Rank,
    pub iterations: u64,
    /// Iteration its loop ends at, 0 when it never said.
    pub iterations_declared: u64,
    /// Time outside MPI, as of the last iteration.
    pub useful_ns: u64,
    /// Time in MPI calls that have returned.
    pub mpi_ns: u64,
    /// Bytes of its registered data, 0 when it never said.
    pub registered: Bytes,
    /// Point-to-point messages and bytes sent, by rank.
    pub sent: Vec<(Rank, u64, u64)>,
}

/// How a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeProfile {
    /// Speed of one CPU relative to a fixed calibration loop; 0 while not measured.
    pub speed: f64,
    /// CPU time taken on the node's CPUs by processes that are not ranks of ours, in CPUs.
    pub load_by_others: f64,
    /// CPU time used by our ranks, in CPUs.
    pub load_by_ranks: f64,
    /// Part of the time that ranks were ready to run but had no CPU, from 0 to 1, the worst rank's.
    pub run_delay: f64,
    /// Part of the time in which some task of this machine waited for a CPU, from 0 to 1, where the kernel tells.
    pub cpu_pressure: f64,
    /// The same for memory.
    pub memory_pressure: f64,
    /// Memory that could be allocated without swapping, in bytes.
    pub free_memory: u64,
    /// CPU time the agent itself used, in CPUs.
    pub own_cost: f64,
}

/// What a node has to give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    pub node: NodeName,
    pub site: String,
    /// Nodes with the same number share memory.
    pub host: u64,
    pub cpus: Vec<u32>,
    /// Speed of one of them.
    pub speed: f64,
    /// CPUs that others would use if nothing stood in their way.
    pub demand_by_others: f64,
    /// How long others have wanted more than half a CPU without a pause.
    pub others_since_s: f64,
    /// Ranks it runs, and ranks it has promised to take.
    pub ranks: u32,
    pub free_memory: Bytes,
    /// Whether it is being emptied.
    pub is_draining: bool,
    /// Whether it ends too soon for new ranks.
    pub ends_soon: bool,
}

/// What a rank does in one iteration, over the last windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    pub rank: Rank,
    pub iterations: u64,
    /// Iteration its loop ends at, 0 when it never said.
    pub iterations_declared: u64,
    /// Wall time of an iteration.
    pub iteration_ms: f64,
    /// Part of it outside MPI.
    pub useful_ms: f64,
    /// Part of the time it wanted a CPU in which it had one, from 0 to 1.
    pub cpu_share: f64,
    /// Bytes of its registered data.
    pub registered: Bytes,
    /// Messages and bytes it sends in an iteration, by rank.
    pub sends: Vec<(Rank, f64, f64)>,
}

/// The part of a job on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartReport {
    pub job: JobId,
    /// The layout the ranks are of.
    pub epoch: Epoch,
    /// The node they run on.
    pub node: Resources,
    /// The ranks there.
    pub ranks: Vec<RankReport>,
    /// What was measured of the links from there, that to the leader first.
    pub links: Vec<LinkMeasured>,
}

/// Why a job wants a place on another node, the most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Need {
    /// It would run faster with more ranks.
    Growth,
    /// Its ranks would run faster elsewhere.
    Relief,
    /// A node it uses is being emptied or wanted by its owner.
    Refuge,
}

/// An offer, named by the node that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OfferNumber(pub u64);

/// What one agent tells another. Any of these may be lost, late, or come twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AgentToAgent {
    /// To the agent beside a job's coordinator: how the job does here.
    Report(Box<PartReport>),
    /// Has anybody work for this node? Goes from node to node until its hops run out.
    Steal {
        /// What the thief has to give.
        thief: Box<Resources>,
        /// Nodes it may still be passed on to.
        hops: u8,
    },
    /// Has anybody room for a rank of a job? Goes from node to node; who has answers the leader with `Steal`.
    Seek {
        /// The node that asks: the job's leader.
        leader: NodeName,
        need: Need,
        /// Nodes it may still be passed on to.
        hops: u8,
    },
    /// To a thief: these ranks could come to you; keep a place for them.
    Offer {
        /// Number of the offer among the sender's.
        offer: OfferNumber,
        job: JobId,
        /// How many ranks.
        ranks: u32,
        need: Need,
        /// Ranks the job has, in thousandths of those it started with.
        size_permille: u32,
        /// Seconds it is predicted to gain.
        gain_s: f64,
    },
    /// Thief: the place is kept until a deadline that both know.
    Accept { offer: OfferNumber },
    /// Thief: no place.
    Decline { offer: OfferNumber },
    /// Leader: the place is not needed, or not any more.
    Release { offer: OfferNumber },
    /// Leader: the ranks are there.
    Moved { offer: OfferNumber },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refuge_is_more_urgent_than_growth() {
        assert!(Need::Refuge > Need::Relief && Need::Relief > Need::Growth);
    }
}
