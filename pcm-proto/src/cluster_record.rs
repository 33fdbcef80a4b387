//! What `cluster.json` in the cluster's directory holds: the cluster's id and its nodes, so that `pcmctl` and nodes
//! that join by themselves find a daemon.

use crate::boot::{NodeSpec, is_cluster_id};
use crate::fabric::FabricWish;
use serde::{Deserialize, Serialize};

/// Its name in the cluster's directory.
pub const RECORD_FILE: &str = "cluster.json";

/// Held by whoever changes it; beside it.
pub const LOCK_FILE: &str = "lock";

/// The longest: ten thousand nodes with long names.
pub const RECORD_BYTES_MAX: u64 = 8 << 20;

/// A node as it was booted, or as it joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedNode {
    /// How it was described.
    #[serde(flatten)]
    pub spec: NodeSpec,
    /// Where its daemon listened at first, as `host:port`; absent until it has reported, and for a node that joined by
    /// itself.
    pub listens: Option<String>,
}

/// How the daemons of a cluster deal with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    /// What carries their messages.
    pub fabric: FabricWish,
    /// Whether copies of checkpoints over InfiniBand or RoCE are encrypted.
    pub is_rdma_sealed: bool,
    /// How long one of them may be silent before it is taken for dead, in milliseconds.
    pub patience_ms: u32,
}

/// The job of an engine such as Slurm in which a cluster began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineJob {
    /// The engine, as people call it.
    pub engine: String,
    /// Its number of the job.
    pub job: String,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Names the cluster in environments, sockets and logs.
    pub id: String,
    /// Microseconds since 1970.
    pub created_us: u64,
    /// Its nodes in boot order.
    pub nodes: Vec<RecordedNode>,
    /// For nodes that join by themselves.
    #[serde(default)]
    pub manner: Option<Manner>,
    /// For nodes that are asked for later.
    #[serde(default)]
    pub core: Option<EngineJob>,
}

impl ClusterRecord {
    /// Refuses one whose id or destinations would run what they name.
    pub fn check(&self) -> Result<(), String> {
        if !is_cluster_id(&self.id) {
            return Err("its id is not valid".to_owned());
        }
        match self.nodes.iter().find(|node| !node.spec.is_reachable()) {
            Some(node) => Err(format!("node {} has no valid ssh destination", node.spec.name)),
            None => Ok(()),
        }
    }
}
