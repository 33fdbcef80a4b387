//! Control groups of the kernel's first or second version that limit CPU time. Needs root. Must never leave a group
//! behind: dropping them moves what is left in them back and removes them.

use crate::Share;
use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// Where the first version's controllers are, each in a hierarchy of its own.
const OLD: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"];

/// Where the second version's hierarchy is.
const NEW: &str = "/sys/fs/cgroup";

/// So many shares as a hundred processes of the root group: what the groups may take they get.
const SHARES: &str = "100000";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A group of groups, in each hierarchy there is.
#[derive(Debug)]
pub(crate) struct Groups {
    parents: Vec<PathBuf>,
    is_old: bool,
    made: Vec<PathBuf>,
}

impl Groups {
    /// Nothing is limited yet. A sentence on why not, where it cannot be done.
    pub(crate) fn make() -> Result<Self, String> {
        let is_old = Path::new(OLD[0]).join("cpu.shares").exists();
        let roots: Vec<&str> = if is_old { OLD.to_vec() } else { vec![NEW] };
        let name = format!(
            "pcm-limited-{}-{}",
            process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let parents: Vec<PathBuf> = roots.iter().map(|root| Path::new(root).join(&name)).collect();
        let mut groups = Self {
            parents: parents.clone(),
            is_old,
            made: Vec::new(),
        };
        for parent in &parents {
            make(parent)?;
            groups.made.push(parent.clone());
        }
        if is_old {
            write(&parents[0].join("cpu.shares"), SHARES)?;
        } else {
            write(&parents[0].join("cgroup.subtree_control"), "+cpu")?;
        }
        Ok(groups)
    }

    /// The folders of a member, made and limited when there were none.
    pub(crate) fn member(&mut self, name: &str, share: Share) -> Result<Vec<PathBuf>, String> {
        let folders: Vec<PathBuf> = self.parents.iter().map(|parent| parent.join(name)).collect();
        for (hierarchy, folder) in folders.iter().enumerate() {
            if self.made.contains(folder) {
                continue;
            }
            make(folder)?;
            self.made.push(folder.clone());
            if hierarchy == 0 {
                self.limit(folder, share)?;
            }
        }
        Ok(folders)
    }

    fn limit(&self, folder: &Path, share: Share) -> Result<(), String> {
        let Share { quota_us, period_us } = share;
        if !self.is_old {
            return write(&folder.join("cpu.max"), &format!("{quota_us} {period_us}"));
        }
        write(&folder.join("cpu.cfs_period_us"), &period_us.to_string())?;
        write(&folder.join("cpu.cfs_quota_us"), &quota_us.to_string())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            let top = OLD.iter().find(|top| folder.starts_with(top)).unwrap_or(&NEW);
            let left = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for pid in left.lines() {
                let _ = fs::write(Path::new(top).join("cgroup.procs"), pid);
            }
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Puts a process into these groups.
pub(crate) fn put(pid: u32, folders: &[PathBuf]) -> Result<(), String> {
    folders
        .iter()
        .try_for_each(|folder| write(&folder.join("cgroup.procs"), &pid.to_string()))
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir(folder).map_err(|error| format!("{}: {error}; it takes root", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
