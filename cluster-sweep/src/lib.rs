//! Finds and ends, without the help of any daemon, what a cluster left on this machine: processes by the cluster's id
//! in their environment, and the shared memory of MPI that they had mapped or that no process holds. It never ends what
//! does not carry the id, and never touches what another user started or owns, or files without names of MPI that a
//! process had merely mapped: their owner may be any program.

pub mod left;

use pcm_core::node::pmix::folder;
use pcm_core::pmi::segment::is_of_mpi;
use proc_files::{Environment, MappedFile, ProcessStat};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, statat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names the cluster in the environment of every process it starts.
pub const CLUSTER_ID_VARIABLE: &str = "PCM_CLUSTER_ID";

/// How long processes may take to vanish after SIGKILL; a process in an uninterruptible wait takes longer.
const VANISH_MAX: Duration = Duration::from_secs(5);

/// Rounds of looking and killing; each catches what was started between the look and the kill of the one before.
const ROUNDS_MAX: usize = 5;

/// Processes of this user that carry the cluster's id, but for this one and its parents.
pub fn processes(cluster_id: &str) -> Vec<u32> {
    let ours = own_line();
    proc_files::pids()
        .filter(|pid| !ours.contains(pid))
        .filter(|pid| is_marked(*pid, cluster_id))
        .collect()
}

/// Anybody can give a process of theirs this mark, and root could read it and act on it.
fn is_marked(pid: u32, cluster_id: &str) -> bool {
    Environment::of(pid).is_some_and(|variables| variables.has(CLUSTER_ID_VARIABLE, cluster_id))
        && proc_files::real_user(pid) == Some(rustix::process::geteuid().as_raw())
}

/// Ends a process if it still is one of the cluster's: its number may have been given to another since it was found.
fn end(pid: u32, cluster_id: &str) {
    let descriptor = Pid::from_raw(pid.cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(descriptor) = descriptor
        && is_marked(pid, cluster_id)
    {
        // A process that ended in between is what was wanted.
        let _ = pidfd_send_signal(&descriptor, Signal::KILL);
    }
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
            end(pid, cluster_id);
        }
        seen.extend(found);
        wait_until_gone(cluster_id, VANISH_MAX / ROUNDS_MAX as u32);
    }
    remove_unused(segments);
    remove_folders(cluster_id);
    (seen.len(), processes(cluster_id).len())
}

/// Removes what processes that served PMIx left.
fn remove_folders(cluster_id: &str) {
    let prefix = folder::prefix(cluster_id);
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(folder::PARENT).into_iter().flatten().flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
        let is_own = || entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_named && is_own() {
            // Gone already where its owner was quicker.
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// This process and its ancestors: a `down` typed inside a job must not end itself.
fn own_line() -> Vec<u32> {
    let mut line = Vec::new();
    let mut pid = std::process::id();
    while pid > 1 && line.len() < 64 {
        line.push(pid);
        pid = ProcessStat::of(pid).map_or(0, |stat| stat.parent);
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

fn note_segments(pid: u32, segments: &mut BTreeMap<Identity, Segment>) {
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

fn mapped_segments(pid: u32) -> Vec<(Identity, String)> {
    let segment = |file: MappedFile| {
        let name = file.path.strip_prefix("/dev/shm").ok()?.to_str()?.to_owned();
        if !is_of_mpi(&name) || name.contains('/') {
            return None;
        }
        Some(((file.device, file.inode), name))
    };
    proc_files::mapped_files(pid).into_iter().filter_map(segment).collect()
}

/// Removes segments that no living process has mapped any more.
fn remove_unused(mut segments: BTreeMap<Identity, Segment>) {
    if segments.is_empty() {
        return;
    }
    for pid in proc_files::pids() {
        for (used, _) in mapped_segments(pid) {
            segments.remove(&used);
        }
    }
    for Segment { folder, name } in segments.into_values() {
        let own = rustix::process::geteuid().as_raw();
        let is_own = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| stat.st_uid == own && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if is_own {
            // Gone already where its owner was quicker.
            let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

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

    /// A process that maps these files of shared memory for as long as it lives.
    fn mapping(id: &str, files: &[&Path]) -> Child {
        let code = "import mmap,sys,time\nfiles=[open(f,'r+b') for f in sys.argv[1:]]\n\
                    maps=[mmap.mmap(f.fileno(),0) for f in files]\n\
                    print('mapped',flush=True)\ntime.sleep(60)";
        let mut process = Command::new("python3")
            .args(["-c", code])
            .args(files)
            .env(CLUSTER_ID_VARIABLE, id)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        process.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        process
    }

    #[test]
    fn of_what_a_process_had_mapped_only_the_shared_memory_of_mpi_is_removed() {
        let id = format!("sweep-maps-{}", std::process::id());
        let file = |prefix: &str| {
            let path = Path::new("/dev/shm").join(format!("{prefix}{id}"));
            let mut file = File::create(&path).unwrap();
            file.write_all(b"data").unwrap();
            (path, file)
        };
        // Held until the process has them: another test of this program removes what no process holds.
        let ((of_mpi, mpi_file), (of_user, user_file)) = (file("mpich_shm_"), file("results-"));
        let mut process = mapping(&id, &[&of_mpi, &of_user]);
        drop((mpi_file, user_file));
        let reaper = std::thread::spawn(move || process.wait().unwrap());
        assert_eq!(end_all(&id), (1, 0));
        reaper.join().unwrap();
        let left = (of_mpi.exists(), of_user.exists());
        for path in [of_mpi, of_user] {
            let _ = fs::remove_file(path);
        }
        assert_eq!(left, (false, true));
    }

    #[test]
    fn a_process_that_another_user_marked_as_the_clusters_is_left_alone() {
        if !rustix::process::geteuid().is_root() {
            // An ordinary user cannot start such a process; the first one of the machine is root's.
            assert_eq!(proc_files::real_user(1), Some(0));
            return assert!(!is_marked(1, ""));
        }
        let id = format!("sweep-other-{}", std::process::id());
        let mut other = Command::new("sleep")
            .arg("60")
            .uid(65_534)
            .env(CLUSTER_ID_VARIABLE, &id)
            .spawn()
            .unwrap();
        let marked = (
            Environment::of(other.id()).unwrap().has(CLUSTER_ID_VARIABLE, &id),
            end_all(&id),
        );
        let is_alive = other.try_wait().unwrap().is_none();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((marked, is_alive), ((true, (0, 0)), true));
    }
}
