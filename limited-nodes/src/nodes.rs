//! Gives the virtual nodes of a running cluster a share of a CPU each. Finds their daemons by their environment; must
//! never touch a process of another cluster.

use crate::{
    Share,
    groups::{self, Groups},
    place::Place,
};
use proc_files::Environment;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    thread,
    time::Duration,
};

/// The nodes of a cluster, limited while it lives.
#[derive(Debug)]
pub struct LimitedNodes {
    groups: Groups,
    cluster: String,
    folders: BTreeMap<String, Vec<PathBuf>>,
}

impl LimitedNodes {
    /// Puts the daemons of each node of the cluster with this id, and so all they start, under a limit.
    ///
    /// # Errors
    /// A sentence on why it cannot be done here.
    pub fn limit(cluster: &str, share: Share) -> Result<Self, String> {
        Self::limit_each(cluster, |_| share)
    }

    /// The same with a share by the node's name.
    ///
    /// # Errors
    /// A sentence on why it cannot be done here.
    pub fn limit_each(cluster: &str, share: impl Fn(&str) -> Share) -> Result<Self, String> {
        let mut limited = Self {
            groups: Groups::make()?,
            cluster: cluster.to_owned(),
            folders: BTreeMap::new(),
        };
        limited.limit_new(share)?;
        if limited.folders.is_empty() {
            return Err("no daemon of the cluster was found".to_owned());
        }
        Ok(limited)
    }

    /// Limits nodes that have joined since.
    ///
    /// # Errors
    /// A sentence on why it cannot be done.
    pub fn limit_new(&mut self, share: impl Fn(&str) -> Share) -> Result<(), String> {
        let (mut known, mut idle_passes) = (BTreeSet::new(), 0);
        while idle_passes < IDLE_PASSES && known.len() < PROCESSES_MAX {
            let mut has_new = false;
            for (pid, node) in daemons(&self.cluster) {
                if known.insert(pid) {
                    let folders = self.groups.member(&node, share(&node))?;
                    groups::put(pid, &folders)?;
                    self.folders.insert(node, folders);
                    has_new = true;
                }
            }
            idle_passes = if has_new { 0 } else { idle_passes + 1 };
            thread::sleep(BETWEEN_PASSES);
        }
        Ok(())
    }

    /// Where what shall run on a node is put; `cpu` is the one the node has.
    pub fn place(&self, node: &str, cpu: u32) -> Place {
        Place {
            groups: self.folders.get(node).cloned().unwrap_or_default(),
            cpu,
        }
    }
}

/// A daemon that was not in its group yet may have started an agent while it was looked for; once it is, so is what it
/// starts.
const IDLE_PASSES: u32 = 2;

const BETWEEN_PASSES: Duration = Duration::from_millis(20);

/// More are not looked for: this is for a cluster on one machine.
const PROCESSES_MAX: usize = 4096;

/// Process id and node of every daemon, keeper and agent of the cluster: they bear its id in their environment.
fn daemons(cluster: &str) -> Vec<(u32, String)> {
    let found = proc_files::pids().filter_map(|pid| {
        let environment = Environment::of(pid)?;
        let node = environment.value("PCM_NODE")?.to_owned();
        environment.has("PCM_CLUSTER_ID", cluster).then_some((pid, node))
    });
    found.collect()
}
