//! Layouts and plans: which process has which rank on which node, and what one reconfiguration changes about it.
//!
//! Values only, with the questions everybody asks of them. Whether a plan may be carried out is decided by the
//! coordinator, not here.

use crate::ids::{Epoch, NodeName, ProcessId, Rank, WorldId};
use crate::method::Method;
use serde::{Deserialize, Serialize};

/// One process of a layout; its rank is its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub process: ProcessId,
    /// Where it runs.
    pub node: NodeName,
    /// The world it started in.
    pub world: WorldId,
}

/// Which process has which rank on which node, in one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Its number among the committed layouts of the job.
    pub epoch: Epoch,
    /// The processes in rank order.
    pub members: Vec<Member>,
    /// Relative share of a partitioned axis for each rank; empty means equal shares.
    pub weights: Vec<u32>,
    /// Nodes without a rank of the job that nevertheless vote on its lease, so that a job on one or two nodes
    /// survives the loss of its coordinator.
    pub witnesses: Vec<NodeName>,
}

impl Layout {
    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The rank of a process, if it has one here.
    pub fn rank_of(&self, process: ProcessId) -> Option<Rank> {
        let position = self.members.iter().position(|m| m.process == process)?;
        Some(Rank(
            u32::try_from(position).expect("a layout has at most RANKS_MAX members"),
        ))
    }

    /// The member of a process, if it is one.
    pub fn member(&self, process: ProcessId) -> Option<&Member> {
        self.members.iter().find(|m| m.process == process)
    }

    /// The nodes that host ranks, each once, in the order of their lowest rank.
    pub fn nodes(&self) -> Vec<NodeName> {
        distinct(self.members.iter().map(|m| &m.node))
    }

    /// The nodes that vote on the lease, in the order in which they try for it: hosts of ranks, then witnesses.
    pub fn voters(&self) -> Vec<NodeName> {
        distinct(self.members.iter().map(|m| &m.node).chain(&self.witnesses))
    }

    /// The distinct worlds in the order of their lowest rank.
    pub fn worlds(&self) -> Vec<WorldId> {
        distinct(self.members.iter().map(|m| &m.world))
    }

    /// The processes on one node, in rank order.
    pub fn processes_on<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = ProcessId> + 'a {
        self.members.iter().filter(move |m| m.node == *node).map(|m| m.process)
    }
}

/// How a reconfiguration is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Newcomers join the running processes.
    Live,
    /// All processes end, a new set starts from parked data.
    Relaunch,
}

/// What a reconfiguration is called in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// Ranks change nodes.
    Migrate,
    /// The job grows.
    Expand,
    /// The job shrinks.
    Shrink,
    /// Only the shares of the ranks change.
    Rebalance,
    /// A fresh set of processes in one world.
    Relaunch,
}

impl PlanKind {
    /// The word of the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Migrate => "migrate",
            Self::Expand => "expand",
            Self::Shrink => "shrink",
            Self::Rebalance => "rebalance",
            Self::Relaunch => "relaunch",
        }
    }
}

/// One rank of the layout that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// The present rank stays where it is.
    Stay { rank: Rank },
    /// The present rank goes on in a newcomer on another node; its process leaves.
    Move { rank: Rank, to: NodeName },
    /// A rank that continues none of the present ones.
    Join { node: NodeName },
}

/// How the asker wants it carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeWanted {
    /// Live, and by relaunch where live is not possible or failed.
    Auto,
    /// Live or not at all.
    Live,
    Relaunch,
}

/// A reconfiguration somebody asks for. Present ranks that no seat names leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// What to call it.
    pub kind: PlanKind,
    /// Who or what asks, for the event.
    pub cause: String,
    pub mode: ModeWanted,
    /// The ranks wanted, in rank order.
    pub seats: Vec<Seat>,
    /// Relative share of each rank; empty means equal shares.
    pub weights: Vec<u32>,
    /// Witnesses of the layout wanted.
    pub witnesses: Vec<NodeName>,
    /// How data moves, if it is carried out live.
    pub method: Method,
}

/// What one reconfiguration does: the layout before and the one after, every process named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What it is called.
    pub kind: PlanKind,
    /// How it is carried out.
    pub mode: Mode,
    /// Who or what asked.
    pub cause: String,
    /// The layout it starts from.
    pub old: Layout,
    /// The layout it leads to; its epoch is the next one.
    pub new: Layout,
    /// For each new rank the old one it continues, if any.
    pub continues: Vec<Option<Rank>>,
    /// How data moves, if it is carried out live.
    pub method: Method,
}

impl Plan {
    /// Every daemon that must agree: hosts of old and new ranks and the voters of both layouts, each once.
    pub fn participants(&self) -> Vec<NodeName> {
        let (old, new) = (self.old.voters(), self.new.voters());
        distinct(old.iter().chain(&new))
    }

    /// Members of the new layout that are not in the old one, in rank order.
    pub fn newcomers(&self) -> impl Iterator<Item = &Member> {
        self.new.members.iter().filter(|m| self.old.member(m.process).is_none())
    }

    /// Members of the old layout that are not in the new one, in rank order.
    pub fn leavers(&self) -> impl Iterator<Item = &Member> {
        self.old.members.iter().filter(|m| self.new.member(m.process).is_none())
    }

    /// Every process that takes part: old members in rank order, then newcomers.
    pub fn everybody(&self) -> impl Iterator<Item = &Member> {
        self.old.members.iter().chain(self.newcomers())
    }
}

fn distinct<'a, T: PartialEq + Clone + 'a>(items: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(item) {
            seen.push(item.clone());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(process: u32, node: &str, world: u32) -> Member {
        Member {
            process: ProcessId(process),
            node: NodeName::new(node).unwrap(),
            world: WorldId(world),
        }
    }

    fn names(nodes: &[NodeName]) -> Vec<&str> {
        nodes.iter().map(NodeName::as_str).collect()
    }

    #[test]
    fn voters_are_the_hosts_in_rank_order_and_then_the_witnesses() {
        let layout = Layout {
            epoch: Epoch(3),
            members: vec![member(4, "b", 0), member(1, "a", 0), member(2, "b", 0)],
            weights: Vec::new(),
            witnesses: vec![NodeName::new("c").unwrap(), NodeName::new("a").unwrap()],
        };
        assert_eq!(names(&layout.nodes()), ["b", "a"]);
        assert_eq!(names(&layout.voters()), ["b", "a", "c"]);
        assert_eq!(layout.rank_of(ProcessId(2)), Some(Rank(2)));
        assert_eq!(layout.rank_of(ProcessId(3)), None);
    }

    fn migration() -> Plan {
        let old = Layout {
            epoch: Epoch(0),
            members: vec![member(0, "a", 0), member(1, "b", 0)],
            weights: Vec::new(),
            witnesses: Vec::new(),
        };
        let mut new = old.clone();
        new.epoch = Epoch(1);
        new.members[1] = member(2, "c", 1);
        Plan {
            kind: PlanKind::Migrate,
            mode: Mode::Live,
            cause: "test".into(),
            old,
            new,
            continues: vec![Some(Rank(0)), Some(Rank(1))],
            method: Method::default(),
        }
    }

    #[test]
    fn a_migration_has_one_leaver_and_one_newcomer() {
        let plan = migration();
        assert_eq!(plan.leavers().map(|m| m.process.0).collect::<Vec<_>>(), [1]);
        assert_eq!(plan.newcomers().map(|m| m.process.0).collect::<Vec<_>>(), [2]);
        assert_eq!(names(&plan.participants()), ["a", "b", "c"]);
    }
}
