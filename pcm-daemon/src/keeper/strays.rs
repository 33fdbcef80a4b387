//! Finds processes by what `/proc` says of them: what ranks started and left behind. A process belongs to a job when
//! its environment names the cluster, the node and the job, or when it descends from one of the job's ranks. Kills
//! only through process descriptors, after looking again, so that a number used anew is never hit.

use pcm_proto::app::environment::{JOB, NODE};
use pcm_proto::ids::{JobId, NodeName};
use proc_files::{Environment, ProcessStat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime};

use super::segments::Footprint;
use pcm_proto::app::environment::CLUSTER as CLUSTER_ID;

/// How long [`sweep`] goes on finding processes that were born meanwhile.
const SWEEP_MAX: Duration = Duration::from_secs(5);
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

/// What marks the processes of this node in their environment.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    cluster_id: String,
    node: String,
}

impl Mark {
    pub(super) fn new(cluster_id: &str, node: &NodeName) -> Self {
        Self {
            cluster_id: cluster_id.to_owned(),
            node: node.to_string(),
        }
    }

    /// The job a process of this node belongs to, by its environment.
    fn job_of(&self, pid: i32) -> Option<JobId> {
        let environment = Environment::of(pid.cast_unsigned())?;
        let job = environment.value(JOB)?.parse().ok()?;
        let is_marked = environment.has(CLUSTER_ID, &self.cluster_id) && environment.has(NODE, &self.node);
        // Anybody can give a process of theirs these marks, and root could read them and act on them.
        let is_ours = || proc_files::real_user(pid.cast_unsigned()) == Some(rustix::process::geteuid().as_raw());
        (is_marked && is_ours()).then_some(JobId(job))
    }
}

/// One living process.
#[derive(Clone, Copy, Debug)]
struct Seen {
    parent: i32,
    group: i32,
    born: u64,
}

fn look(pid: i32) -> Option<Seen> {
    let stat = ProcessStat::of(pid.cast_unsigned())?;
    stat.is_alive().then_some(Seen {
        parent: stat.parent.cast_signed(),
        group: stat.group.cast_signed(),
        born: stat.begun_ticks,
    })
}

fn all() -> BTreeMap<i32, Seen> {
    let pids = proc_files::pids().map(u32::cast_signed);
    pids.filter_map(|pid| Some((pid, look(pid)?))).collect()
}

/// Children of this process that are none of `known` and may have been started by a rank; `None` when the system does
/// not say. The keepers of other nodes on this machine may be children too, booted by our daemon; they are passed over,
/// because they stay, and looking through all processes at the end of every job costs milliseconds.
pub(super) fn unknown_children(known: &BTreeSet<i32>) -> Option<Vec<i32>> {
    let own = std::process::id();
    let program = |pid: u32| {
        fs::metadata(format!("/proc/{pid}/exe"))
            .map(|file| (file.dev(), file.ino()))
            .ok()
    };
    let keepers = program(own);
    let children = proc_files::children(own)?.into_iter();
    let others = children.filter(|pid| program(*pid) != keepers).map(u32::cast_signed);
    Some(others.filter(|pid| !known.contains(pid)).collect())
}

/// A process that is going to be killed, safe against its number being used anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stray {
    pid: i32,
    born: u64,
}

impl Stray {
    /// Whether there was such a process to kill.
    pub(super) fn kill(self) -> bool {
        kill(self.pid, self.born)
    }
}

/// What a job's ranks started and what these started in turn, as far as it lives. `ranks` are the job's own processes,
/// also those that ended; `known` are all ranks and the daemon, which are never strays. A process that hid its
/// environment and left its group is only found while its parents live.
pub(super) fn strays(mark: &Mark, job: JobId, ranks: &BTreeSet<i32>, known: &BTreeSet<i32>) -> BTreeSet<Stray> {
    let processes = all();
    let own = std::process::id().cast_signed();
    let is_root = |pid: &i32, seen: &Seen| {
        let is_orphan_of_group = seen.parent == own && ranks.contains(&seen.group);
        is_orphan_of_group || descends(*pid, &processes, ranks) || mark.job_of(*pid) == Some(job)
    };
    let others = || processes.iter().filter(|(pid, _)| !known.contains(pid) && **pid != own);
    let roots: BTreeSet<i32> = others()
        .filter(|(pid, seen)| is_root(pid, seen))
        .map(|(pid, _)| *pid)
        .collect();
    let all = others().filter(|(pid, _)| roots.contains(pid) || descends(**pid, &processes, &roots));
    all.map(|(pid, seen)| Stray {
        pid: *pid,
        born: seen.born,
    })
    .collect()
}

fn descends(pid: i32, processes: &BTreeMap<i32, Seen>, ancestors: &BTreeSet<i32>) -> bool {
    let mut at = pid;
    // As long as the tree is; a cycle cannot be but for numbers that were used anew while we looked.
    for _ in 0..processes.len() {
        match processes.get(&at) {
            Some(seen) if ancestors.contains(&seen.parent) => return true,
            Some(seen) if seen.parent > 1 => at = seen.parent,
            _ => return false,
        }
    }
    false
}

fn kill(pid: i32, born: u64) -> bool {
    let Some(descriptor) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return false;
    };
    look(pid).is_some_and(|seen| seen.born == born) && pidfd_send_signal(&descriptor, Signal::KILL).is_ok()
}

/// What [`sweep`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Processes it killed.
    pub killed: u32,
    /// Files of shared memory it removed.
    pub segments: u32,
}

/// Kills every process of this cluster's jobs on this node, wherever it hangs in the tree, and then removes what is
/// left in `/dev/shm` of the worlds with these `segments` (as in `ProcessSpec`). For a daemon whose keeper died, and
/// for whoever clears up after both died.
pub fn sweep(cluster_id: &str, node: &NodeName, segments: &[String]) -> Swept {
    let mark = Mark::new(cluster_id, node);
    let deadline = Instant::now() + SWEEP_MAX;
    let mut killed = BTreeSet::new();
    loop {
        let processes = all();
        let marked = processes.iter().filter(|(pid, _)| mark.job_of(**pid).is_some());
        let strays: Vec<Stray> = marked
            .map(|(pid, seen)| Stray {
                pid: *pid,
                born: seen.born,
            })
            .filter(|stray| stray.kill())
            .collect();
        killed.extend(strays.iter().copied());
        if strays.is_empty() || Instant::now() > deadline {
            let mut footprint = Footprint::new(SystemTime::now());
            footprint.expect(segments);
            return Swept {
                killed: u32::try_from(killed.len()).unwrap_or(u32::MAX),
                segments: footprint.remove(),
            };
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
}
