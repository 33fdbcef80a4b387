//! What a policy sees: one job, its ranks, the nodes it uses and those it could use. Values only; indices name ranks
//! and nodes within the view.

use super::links::Links;
use pcm_proto::ids::NodeName;
use pcm_proto::rank_counts::RankCounts;
use std::collections::BTreeMap;

/// CPU that a newcomer must find on a node for a policy to lead it there.
pub const SPARE_PER_RANK: f64 = 0.7;

/// CPU that it must find there still for the node to keep a place. A little less: what looks at a cluster and others
/// that come and go for a moment must not undo what was decided a moment ago.
pub const SPARE_TO_ACCEPT: f64 = 0.5;

/// A rank as it ran over the last windows.
#[derive(Clone, Debug, PartialEq)]
pub struct RankView {
    /// Index of its node.
    pub node: usize,
    /// Time outside MPI in an iteration.
    pub useful_ms: f64,
    /// Part of the time it wanted a CPU in which it had one.
    pub cpu_share: f64,
    /// Bytes that move with it.
    pub registered: f64,
    /// Its share of the data, relative to the others'.
    pub data: f64,
    /// Messages and bytes it sends in an iteration, by rank.
    pub sends: Vec<(usize, f64, f64)>,
}

/// A node the job uses or could use.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub name: NodeName,
    pub site: String,
    /// Nodes with the same number share memory.
    pub host: u64,
    pub cpus: Vec<u32>,
    /// Speed of one of them.
    pub speed: f64,
    /// CPUs that others would use if nothing stood in their way.
    pub demand: f64,
    /// How long they have wanted much without a pause.
    pub others_since_s: f64,
    /// Ranks of all jobs there, promised ones too.
    pub ranks: u32,
    /// Free memory in bytes.
    pub free_memory: f64,
    /// Whether it is being emptied.
    pub is_draining: bool,
    /// Whether new ranks of this job may be offered to it now.
    pub is_open: bool,
}

/// One job and what surrounds it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Its ranks in order.
    pub ranks: Vec<RankView>,
    /// The nodes it uses, then others.
    pub nodes: Vec<NodeView>,
    /// What was measured of the links between them.
    pub links: Links,
    /// Time of an iteration.
    pub iteration_ms: f64,
    /// Iterations that are still to come, as declared or guessed.
    pub remaining: f64,
    /// Fewest ranks a decision may leave it.
    pub min: usize,
    /// Most ranks a decision may give it.
    pub max: usize,
    /// Numbers of ranks on which the program can run.
    pub counts: RankCounts,
    /// Whether its data can be divided by shares.
    pub follows_shares: bool,
    /// Ranks it began with.
    pub started_with: usize,
    /// Pause of a change that moves no data, as far as is known.
    pub fixed_cost_ms: f64,
    /// Speed of moving data, as far as is known.
    pub megabytes_per_s: f64,
    /// Time of an iteration with other numbers of ranks, where that was measured.
    pub measured_sizes: BTreeMap<usize, f64>,
}

impl View {
    /// The parts of the data of all ranks together.
    pub fn all_data(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.data).sum::<f64>().max(1e-9)
    }

    /// Ranks of the job on a node.
    pub fn own_ranks(&self, node: usize) -> usize {
        self.ranks.iter().filter(|rank| rank.node == node).count()
    }

    /// Whether the job has ranks there.
    pub fn is_used(&self, node: usize) -> bool {
        self.ranks.iter().any(|rank| rank.node == node)
    }

    /// Nodes on one host with a CPU in common: what one takes, the other lacks.
    pub fn share_cpus(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.nodes[a], &self.nodes[b]);
        one.host == other.host && one.cpus.iter().any(|cpu| other.cpus.contains(cpu))
    }

    /// CPUs of a node that neither others nor ranks want.
    pub fn spare(&self, node: usize) -> f64 {
        let view = &self.nodes[node];
        view.cpus.len() as f64 - view.demand - f64::from(view.ranks)
    }

    /// The part of the time that the average rank spends outside MPI.
    pub fn useful_part(&self) -> f64 {
        let useful: f64 = self.ranks.iter().map(|rank| rank.useful_ms).sum();
        useful / self.ranks.len().max(1) as f64 / self.iteration_ms.max(1e-9)
    }

    /// Where each rank is.
    pub fn places(&self) -> Vec<usize> {
        self.ranks.iter().map(|rank| rank.node).collect()
    }
}
