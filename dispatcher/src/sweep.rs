//! Finds and ends, without the help of any daemon, what a cluster left on this machine: processes by the cluster's id
//! in their environment, and the shared memory they had mapped. It never touches what does not carry the id.

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names the cluster in the environment of every process it starts.
pub const CLUSTER_ID_VARIABLE: &str = "PCM_CLUSTER_ID";

/// How long processes may take to vanish after SIGKILL; a process in an uninterruptible wait takes longer.
const VANISH_MAX: Duration = Duration::from_secs(5);

/// Rounds of looking and killing; each catches what was started between the look and the kill of the one before.
const ROUNDS_MAX: usize = 5;

/// Processes of this user that carry the cluster's id, but for this one and its parents.
pub fn processes(cluster_id: &str) -> Vec<i32> {
    let wanted = format!("{CLUSTER_ID_VARIABLE}={cluster_id}");
    let ours = own_line();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| !ours.contains(pid))
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|&byte| byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        })
        .collect()
}

/// Waits until no process carries the cluster's id; false when some still do at the deadline.
pub fn wait_until_gone(cluster_id: &str, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(2);
    loop {
        if processes(cluster_id).is_empty() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Ends every process of the cluster on this machine and removes the shared memory they had mapped. Returns how many
/// there were, and how many could not be ended.
pub fn end_all(cluster_id: &str) -> (usize, usize) {
    let mut seen = BTreeSet::new();
    let mut segments = BTreeMap::new();
    for _ in 0..ROUNDS_MAX {
        let found = processes(cluster_id);
        if found.is_empty() {
            break;
        }
        // All are looked at before the first is ended: ranks die with their keeper, and their maps with them.
        for &pid in &found {
            note_segments(pid, &mut segments);
        }
        for &pid in &found {
            if let Some(pid) = Pid::from_raw(pid) {
                // A process that ended in between is what was wanted.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        seen.extend(found);
        wait_until_gone(cluster_id, VANISH_MAX / ROUNDS_MAX as u32);
    }
    remove_unused(segments);
    (seen.len(), processes(cluster_id).len())
}

/// This process and its ancestors: a `down` typed inside a job must not end itself.
fn own_line() -> Vec<i32> {
    let mut line = Vec::new();
    let mut pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    while pid > 1 && line.len() < 64 {
        line.push(pid);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        pid = after_name
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
    }
    line
}

/// Device and inode of a segment, as `/proc/PID/maps` writes them.
type Identity = (String, u64);

/// Where a segment can be removed: its folder as the process that maps it sees it, and its name there. A process may
/// have a `/dev/shm` of its own, and the folder stays reachable when the process is gone.
#[derive(Debug)]
struct Segment {
    folder: Arc<OwnedFd>,
    name: String,
}

fn note_segments(pid: i32, segments: &mut BTreeMap<Identity, Segment>) {
    let mapped = mapped_segments(pid);
    if mapped.is_empty() {
        return;
    }
    let folder = format!("/proc/{pid}/root/dev/shm");
    let Ok(folder) = rustix::fs::open(
        folder,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return;
    };
    let folder = Arc::new(folder);
    for (identity, name) in mapped {
        let folder = Arc::clone(&folder);
        segments.entry(identity).or_insert(Segment { folder, name });
    }
}

fn mapped_segments(pid: i32) -> Vec<(Identity, String)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter_map(mapped_segment).collect()
}

/// A line of `/proc/PID/maps` about a file that still has its name.
fn mapped_segment(line: &str) -> Option<(Identity, String)> {
    let (fields, name) = line.split_once(" /dev/shm/")?;
    if name.ends_with(" (deleted)") {
        return None;
    }
    let mut fields = fields.split_ascii_whitespace().skip(3);
    let device = fields.next()?.to_owned();
    Some(((device, fields.next()?.parse().ok()?), name.to_owned()))
}

/// Removes segments that no living process has mapped any more.
fn remove_unused(mut segments: BTreeMap<Identity, Segment>) {
    if segments.is_empty() {
        return;
    }
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        for (used, _) in mapped_segments(pid) {
            segments.remove(&used);
        }
    }
    for Segment { folder, name } in segments.into_values() {
        // Gone already where its owner was quicker.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_line_of_maps_names_a_segment_that_has_its_name() {
        let line = "7f01-7f02 rw-s 00000000 00:1b 11                         /dev/shm/mpich_shm_a b";
        let found = mapped_segment(line);
        assert_eq!(found, Some((("00:1b".to_owned(), 11), "mpich_shm_a b".to_owned())));
        assert_eq!(
            mapped_segment("7f01-7f02 rw-s 00000000 00:1b 9 /dev/shm/x (deleted)"),
            None
        );
        assert_eq!(mapped_segment("7f01-7f02 rw-p 00000000 08:01 9 /usr/lib/x.so"), None);
    }

    #[test]
    fn only_processes_that_carry_the_id_are_ended() {
        let id = format!("sweep-test-{}", std::process::id());
        let sleeper = |id: &str| {
            Command::new("sleep")
                .arg("60")
                .env(CLUSTER_ID_VARIABLE, id)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let (mut mine, mut other) = (sleeper(&id), sleeper("sweep-test-other"));
        let deadline = Instant::now() + Duration::from_secs(5);
        while processes(&id).is_empty() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let reaper = std::thread::spawn(move || mine.wait().unwrap());
        assert_eq!(end_all(&id), (1, 0));
        assert!(!reaper.join().unwrap().success());
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
