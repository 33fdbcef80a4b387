//! What can be asked of a job's coordinator. Changes nothing.

use super::coordinator::Coordinator;
use super::phase::{NodeStage, Phase};
use super::process::{Process, ProcessState};
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::{JobEnd, JobSpec, JobState, JobStatus};
use std::collections::BTreeMap;

impl Coordinator {
    /// The rank a process has now.
    pub fn rank_of(&self, process: ProcessId) -> Option<Rank> {
        let rank = self.layout.iter().position(|other| *other == process);
        rank.map(|rank| Rank(rank as u32))
    }

    pub fn job(&self) -> JobId {
        self.job
    }

    /// Whose standard input `pcmctl run` forwards: the first rank's.
    pub fn stdin_process(&self) -> Option<(ProcessId, &NodeName)> {
        let process = self.layout.first()?;
        self.processes.get(process).map(|known| (*process, &known.node))
    }

    /// Every process with what is known of it.
    pub fn processes(&self) -> &BTreeMap<ProcessId, Process> {
        &self.processes
    }

    /// Nodes that run processes of the job, or may.
    pub fn active_nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes
            .iter()
            .filter(|(_, stage)| **stage == NodeStage::Active)
            .map(|(node, _)| node)
    }

    /// The ranks in order: process, node, process id (0 while not known).
    pub fn rank_rows(&self) -> impl Iterator<Item = (Rank, ProcessId, NodeName, u32)> + '_ {
        self.layout.iter().enumerate().filter_map(|(rank, process)| {
            let known = self.processes.get(process)?;
            let pid = match known.state {
                ProcessState::Running { pid } => pid,
                _ => 0,
            };
            Some((Rank(rank as u32), *process, known.node.clone(), pid))
        })
    }

    /// Whether the job uses a node, or did.
    pub fn has_node(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }

    /// Whether a node was told of the job as it is now; of one that was started again the others know nothing.
    pub fn is_enlisted(&self, node: &NodeName) -> bool {
        self.nodes.get(node) == Some(&NodeStage::Active)
    }

    /// Nodes that may have output of the job.
    pub fn nodes_with_output(&self) -> impl Iterator<Item = &NodeName> {
        let may = |stage: &NodeStage| matches!(stage, NodeStage::Active | NodeStage::Emptied);
        self.nodes
            .iter()
            .filter(move |(_, stage)| may(stage))
            .map(|(node, _)| node)
    }

    /// How many of its processes are on a node and have not ended; spares do not count.
    pub fn alive_on(&self, node: &NodeName) -> u32 {
        self.processes
            .values()
            .filter(|process| process.node == *node && process.counts())
            .count() as u32
    }

    /// What the job was asked to be.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// How it ended, when it has.
    pub fn end(&self) -> Option<&JobEnd> {
        match &self.phase {
            Phase::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Counts the coordinators before this one, whose nodes were lost.
    pub fn reign(&self) -> u32 {
        self.reign
    }

    /// Its present epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// One line of `jobs`.
    pub fn status(&self) -> JobStatus {
        let mut nodes: BTreeMap<&NodeName, u32> = BTreeMap::new();
        for process in self.processes.values().filter(|process| process.counts()) {
            *nodes.entry(&process.node).or_default() += 1;
        }
        JobStatus {
            job: self.job,
            name: self.spec.name.clone(),
            state: match self.phase {
                Phase::Starting => JobState::Starting,
                Phase::Running => JobState::Running,
                Phase::Recovering(_) => JobState::Recovering,
                Phase::Ending(_) => JobState::Ending,
                Phase::Ended(_) => JobState::Ended,
            },
            epoch: self.epoch,
            size: self.layout.len() as u32,
            nodes: nodes.into_iter().map(|(node, count)| (node.clone(), count)).collect(),
            started_us: self.accepted_us,
            end: self.end().cloned(),
            coordinator: self.own.clone(),
            reign: self.reign,
            spares: self.spare_rows(),
        }
    }
}
