//! Gives the virtual nodes of a cluster a share of a CPU each, by control groups of the kernel's first or second version.
//! Needs root. Must never leave a group behind: dropping it moves what is left in them back and removes them.

use crate::own_cluster::OwnCluster;
use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

/// Where the first version's controllers are, each in a hierarchy of its own.
const OLD: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"];

/// Where the second version's hierarchy is.
const NEW: &str = "/sys/fs/cgroup";

/// So many shares as a hundred processes of the root group: what the nodes may take they get.
const SHARES: &str = "100000";

/// The groups of a cluster's nodes.
pub(super) struct LimitedNodes {
    parents: Vec<PathBuf>,
    nodes: Vec<PathBuf>,
}

impl LimitedNodes {
    /// Puts the daemons of each node, and so all they start, under a limit of so many microseconds in a period. A
    /// sentence on why not, where it cannot be done.
    pub(super) fn limit(cluster: &OwnCluster<'_>, share: (u32, u32)) -> Result<Self, String> {
        let id = cluster.id().ok_or("the cluster's id is not known")?;
        let is_old = Path::new(OLD[0]).join("cpu.shares").exists();
        let roots: Vec<&str> = if is_old { OLD.to_vec() } else { vec![NEW] };
        let name = format!("pcm-bench-{}", process::id());
        let mut limited = Self {
            parents: roots.iter().map(|root| Path::new(root).join(&name)).collect(),
            nodes: Vec::new(),
        };
        for parent in &limited.parents {
            make(parent)?;
        }
        if is_old {
            write(&limited.parents[0].join("cpu.shares"), SHARES)?;
        } else {
            write(&limited.parents[0].join("cgroup.subtree_control"), "+cpu")?;
        }
        for (pid, node) in daemons(&id) {
            for number in 0..limited.parents.len() {
                let folder = limited.parents[number].join(&node);
                if !folder.exists() {
                    make(&folder)?;
                    limited.nodes.push(folder.clone());
                    limited.set(number, &folder, share, is_old)?;
                }
                write(&folder.join("cgroup.procs"), &pid.to_string())?;
            }
        }
        if limited.nodes.is_empty() {
            return Err("no daemon of the cluster was found".to_owned());
        }
        Ok(limited)
    }

    fn set(&self, hierarchy: usize, folder: &Path, (quota, period): (u32, u32), is_old: bool) -> Result<(), String> {
        match (is_old, hierarchy) {
            (true, 0) => {
                write(&folder.join("cpu.cfs_period_us"), &period.to_string())?;
                write(&folder.join("cpu.cfs_quota_us"), &quota.to_string())
            }
            (true, _) => Ok(()),
            (false, _) => write(&folder.join("cpu.max"), &format!("{quota} {period}")),
        }
    }
}

impl Drop for LimitedNodes {
    fn drop(&mut self) {
        for folder in self.nodes.iter().chain(&self.parents) {
            let top = OLD.iter().find(|top| folder.starts_with(top)).unwrap_or(&NEW);
            let left = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for pid in left.lines() {
                let _ = fs::write(Path::new(top).join("cgroup.procs"), pid);
            }
            let _ = fs::remove_dir(folder);
        }
    }
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir(folder).map_err(|error| format!("{}: {error}; it takes root", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Process id and node of every daemon, keeper and agent of the cluster: they bear its id in their environment.
fn daemons(cluster: &str) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let value = |name: &str| {
            let words = environment.split(|byte| *byte == 0);
            let prefix = format!("{name}=");
            words
                .filter_map(|word| std::str::from_utf8(word).ok()?.strip_prefix(&prefix).map(str::to_owned))
                .next()
        };
        (value("PCM_CLUSTER_ID")? == cluster).then(|| value("PCM_NODE").map(|node| (pid, node)))?
    });
    found.collect()
}
