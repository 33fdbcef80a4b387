//! Finds processes by what `/proc` says of them: what ranks started and left behind. A process belongs to a job when
//! its environment names the cluster, the node and the job, or when it descends from one of the job's ranks. Kills
//! only through process descriptors, after looking again, so that a number used anew is never hit.

use pcm_proto::app::environment::{JOB, NODE};
use pcm_proto::ids::{JobId, NodeName};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::rank::environment::CLUSTER_ID;

/// How long [`sweep`] goes on finding processes that were born meanwhile.
const SWEEP_MAX: Duration = Duration::from_secs(5);
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

/// What marks the processes of this node in their environment.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    cluster: Vec<u8>,
    node: Vec<u8>,
}

impl Mark {
    pub(super) fn new(cluster_id: &str, node: &NodeName) -> Self {
        Self {
            cluster: format!("{CLUSTER_ID}={cluster_id}").into_bytes(),
            node: format!("{NODE}={node}").into_bytes(),
        }
    }

    /// The job a process of this node belongs to, by its environment.
    fn job_of(&self, pid: i32) -> Option<JobId> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut entries = environment.split(|byte| *byte == 0);
        let has = |wanted: &[u8]| environment.split(|byte| *byte == 0).any(|entry| entry == wanted);
        let job = entries.find_map(|entry| entry.strip_prefix(JOB.as_bytes())?.strip_prefix(b"="))?;
        let job = std::str::from_utf8(job).ok()?.parse().ok()?;
        (has(&self.cluster) && has(&self.node)).then_some(JobId(job))
    }
}

/// One process as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    parent: i32,
    group: i32,
    born: u64,
    is_zombie: bool,
}

fn look(pid: i32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, brackets too; the fields come after the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let born = fields.nth(16)?.parse().ok()?;
    Some(Seen {
        parent,
        group,
        born,
        is_zombie: matches!(state, "Z" | "X"),
    })
}

fn all() -> BTreeMap<i32, Seen> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, look(pid)?)))
        .filter(|(_, seen)| !seen.is_zombie)
        .collect()
}

/// Children of this process that are none of `known`; `None` when the system does not say.
pub(super) fn unknown_children(known: &BTreeSet<i32>) -> Option<Vec<i32>> {
    let own = std::process::id();
    let list = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
    let children = list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    Some(children.filter(|pid| !known.contains(pid)).collect())
}

/// Kills what a job's ranks started, the ranks themselves and the daemon excepted (`known`). `ranks` are the job's
/// processes that still live and the numbers of those that ended; `living` only the former. Returns how many.
pub(super) fn kill_strays(mark: &Mark, job: JobId, ranks: &BTreeSet<i32>, known: &BTreeSet<i32>) -> u32 {
    let processes = all();
    let own = std::process::id().cast_signed();
    let mut doomed = BTreeSet::new();
    for (pid, seen) in &processes {
        if known.contains(pid) || *pid == own {
            continue;
        }
        let is_orphan_of_group = seen.parent == own && ranks.contains(&seen.group);
        if is_orphan_of_group || mark.job_of(*pid) == Some(job) || descends(*pid, &processes, ranks) {
            doomed.insert(*pid);
        }
    }
    let descendants = processes
        .keys()
        .filter(|pid| !known.contains(pid) && descends(**pid, &processes, &doomed));
    let with_descendants: BTreeSet<i32> = descendants.copied().chain(doomed.iter().copied()).collect();
    with_descendants
        .into_iter()
        .filter(|pid| kill(*pid, processes[pid].born))
        .count()
        .try_into()
        .unwrap_or(u32::MAX)
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

/// Kills every process of this cluster's jobs on this node, wherever it hangs in the tree, and returns how many were
/// killed. For a daemon whose keeper died, and for whoever clears up after both died.
pub fn sweep(cluster_id: &str, node: &NodeName) -> u32 {
    let mark = Mark::new(cluster_id, node);
    let deadline = Instant::now() + SWEEP_MAX;
    let mut killed = BTreeSet::new();
    loop {
        let processes = all();
        let marked = processes.iter().filter(|(pid, _)| mark.job_of(**pid).is_some());
        let now: Vec<(i32, u64)> = marked
            .filter(|(pid, seen)| kill(**pid, seen.born))
            .map(|(pid, seen)| (*pid, seen.born))
            .collect();
        killed.extend(now.iter().copied());
        if now.is_empty() || Instant::now() > deadline {
            return u32::try_from(killed.len()).unwrap_or(u32::MAX);
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
}
