//! What a daemon is told when it is booted, and what the booting side hears back.
//!
//! A cluster is booted along a tree: `pcmctl up` starts the first daemon with the whole list of nodes, each daemon
//! splits the rest among a few others, starts them in the same way and reports its whole subtree. The specification
//! travels on standard input (over ssh too), so the key never stands in a command line.

use crate::fabric::FabricWish;
use crate::ids::NodeName;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Most daemons one daemon boots itself; the rest goes to them as their subtrees. With 4, a thousand nodes are five
/// levels deep.
pub const BOOT_FANOUT_MAX: usize = 4;

/// What each level of the tree may take at least: a local start needs 0.1 s, ssh to a loaded machine a few seconds.
const LEVEL_MIN: Duration = Duration::from_secs(10);

/// The same in patiences: who allows for machines that stand still allows for starts on them.
const LEVEL_PATIENCES: u32 = 3;

/// Longest id of a cluster; today's have 16 digits.
const CLUSTER_ID_MAX: usize = 64;

/// How a node's daemon is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// As a process on the machine of the one that boots it; also for a node that joins by itself.
    Local,
    /// Over ssh, to this destination.
    Ssh {
        /// Host, alias or `user@host`, as ssh takes it.
        destination: String,
    },
}

/// What ssh may be handed as a destination: never an option, a space or a control character.
pub fn is_destination(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '@' | '%'))
}

/// Whether a text can be the id of a cluster: letters, digits and dashes, safe in a file name and on a command line.
pub fn is_cluster_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= CLUSTER_ID_MAX && !text.starts_with('-') && text.bytes().all(is_plain)
}

/// One node of the cluster as its owner describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    pub name: NodeName,
    /// The address its daemon listens on and others reach it at; a host name or a numeric address.
    pub address: String,
    /// The site it stands in; nodes of one site are near each other.
    pub site: String,
    /// The CPUs it may use; empty means all that the daemon may use.
    pub cpus: Vec<u32>,
    /// How to start its daemon.
    pub reach: Reach,
}

/// Everything a daemon needs to know at birth; the keeper holds it for a daemon that starts again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootSpec {
    /// [`crate::handshake::PROTOCOL_VERSION`] of the side that boots.
    pub version: u16,
    /// Names the cluster in environments, sockets and logs.
    pub cluster_id: String,
    /// The cluster's directory, the same path on every node.
    pub cluster_dir: PathBuf,
    /// The cluster's secret in hexadecimal.
    pub key: Secret,
    /// The node of this daemon.
    pub node: NodeSpec,
    /// Nodes this daemon has to boot, directly or through others.
    pub subtree: Vec<NodeSpec>,
    /// Daemons that are already up, as `host:port`; the first to answer introduces this one to the cluster.
    pub seeds: Vec<String>,
    /// What is to carry its messages.
    pub fabric: FabricWish,
    /// Whether copies of checkpoints over InfiniBand or RoCE are encrypted, not only authenticated.
    pub is_rdma_sealed: bool,
    /// How long another node may be silent before it is taken for dead, in milliseconds.
    pub patience_ms: u32,
}

impl NodeSpec {
    /// Whether it can be started as it says.
    pub fn is_reachable(&self) -> bool {
        match &self.reach {
            Reach::Local => true,
            Reach::Ssh { destination } => is_destination(destination),
        }
    }
}

impl BootSpec {
    /// What in it is not valid, though it can be read.
    pub fn fault(&self) -> Option<String> {
        if !is_cluster_id(&self.cluster_id) {
            return Some("the id of the cluster is not valid".to_owned());
        }
        let mut nodes = self.subtree.iter().chain([&self.node]);
        let bad = nodes.find(|node| !node.is_reachable())?;
        Some(format!("node {} has no valid ssh destination", bad.name))
    }

    /// How long another node may be silent before it is taken for dead.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.into())
    }

    /// How long its node and the subtree may take to come up.
    pub fn deadline(&self) -> Duration {
        LEVEL_MIN.max(self.patience() * LEVEL_PATIENCES) * levels(1 + self.subtree.len())
    }
}

/// Depth of a boot tree of this many nodes.
fn levels(nodes: usize) -> u32 {
    let (mut depth, mut reached, mut width) = (1, 1, 1);
    while reached < nodes {
        width *= BOOT_FANOUT_MAX;
        reached += width;
        depth += 1;
    }
    depth
}

/// One line of JSON per node of a subtree, on the standard output of the booting daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum BootReport {
    /// The daemon listens and is part of the cluster.
    Ready {
        node: NodeName,
        /// Where it listens, as `host:port`.
        address: String,
        /// Its keeper's process.
        keeper_pid: u32,
        /// Its own process.
        daemon_pid: u32,
    },
    /// The node could not be booted.
    Failed {
        node: NodeName,
        /// What happened and what to do next.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::PROTOCOL_VERSION;

    fn spec(patience_ms: u32, others: usize) -> BootSpec {
        let node = NodeSpec {
            name: NodeName::new("n0").unwrap(),
            address: "127.0.0.1".into(),
            site: "here".into(),
            cpus: Vec::new(),
            reach: Reach::Local,
        };
        BootSpec {
            version: PROTOCOL_VERSION,
            cluster_id: "c".into(),
            cluster_dir: "/c".into(),
            key: Secret::default(),
            subtree: vec![node.clone(); others],
            node,
            seeds: Vec::new(),
            fabric: FabricWish::Auto,
            is_rdma_sealed: false,
            patience_ms,
        }
    }

    #[test]
    fn the_tree_is_as_deep_as_its_fan_out_makes_it() {
        assert_eq!([1, 2, 5, 6, 21, 22, 1024].map(levels), [1, 2, 2, 3, 3, 4, 6]);
    }

    #[test]
    fn a_tree_may_take_longer_the_deeper_it_is_and_the_more_patient_its_owner() {
        let seconds = |patience_ms, others| spec(patience_ms, others).deadline().as_secs();
        let depths = [0, 1, 4, 5, 20, 21];
        assert_eq!(depths.map(|others| seconds(2400, others)), [10, 20, 20, 30, 30, 40]);
        assert_eq!(
            depths.map(|others| seconds(20_000, others)),
            [60, 120, 120, 180, 180, 240]
        );
    }
}
