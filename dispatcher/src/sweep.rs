//! Finds and ends, without the help of any daemon, what a cluster left on this machine: processes by the cluster's id
//! in their environment, and the shared memory they had mapped. It never touches what does not carry the id.

use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
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
    let mut segments = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let found = processes(cluster_id);
        if found.is_empty() {
            break;
        }
        // All are looked at before the first is ended: ranks die with their keeper, and their maps with them.
        segments.extend(found.iter().flat_map(|&pid| shared_memory_of(pid)));
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

fn shared_memory_of(pid: i32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines()
        .filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]))
        .filter(|path| !path.ends_with(" (deleted)"))
        .map(PathBuf::from)
        .collect()
}

/// Removes segments that no living process has mapped any more.
fn remove_unused(mut segments: BTreeSet<PathBuf>) {
    if segments.is_empty() {
        return;
    }
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        for used in shared_memory_of(pid) {
            segments.remove(&used);
        }
    }
    for path in segments {
        // Gone already where its owner was quicker.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

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
