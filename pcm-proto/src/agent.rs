//! Messages between a daemon and the agent of its node, over a local socket whose peer's user is checked. The agent
//! starts the link and says who it is; it may be killed and started again at any moment, so neither side keeps
//! anything for the other.

use crate::ids::NodeName;
use crate::keeper::ProcessKey;
use serde::{Deserialize, Serialize};

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
}

/// What the daemon tells its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DaemonToAgent {
    /// First message: the node the agent is to look after.
    Welcome {
        /// Its name.
        node: NodeName,
        /// Its CPUs.
        cpus: Vec<u32>,
        /// The speed an earlier agent of this daemon measured; 0 asks for a calibration.
        speed: f64,
    },
    /// The ranks the node runs from now on, with their process ids.
    Ranks(Vec<(ProcessKey, u32)>),
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
