//! Files in `/dev/shm` that no process holds any more. A process that makes one there for MPI holds it open or mapped:
//! what no process holds was left by processes that were killed, all at once.

use pcm_core::pmi::segment::is_of_mpi;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where shared memory has names.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// File systems stamp births with a clock that ticks only every some milliseconds.
const CLOCK_COARSENESS: Duration = Duration::from_millis(20);

/// The inode number of the machine's first PID namespace, fixed in the kernel (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// A file by device and inode, which a new file of the same name does not share.
pub type Identity = (u64, u64);

/// A file of our own user in `/dev/shm`.
#[derive(Debug)]
pub struct LeftFile {
    /// With its folder.
    pub path: PathBuf,
    /// Which file it is, whatever its name.
    pub identity: Identity,
    born: Option<SystemTime>,
}

impl LeftFile {
    /// Whether it was made at this time or later; no if the file system does not say.
    #[must_use]
    pub fn is_younger_than(&self, time: SystemTime) -> bool {
        self.born.is_some_and(|born| born + CLOCK_COARSENESS >= time)
    }
}

/// All of them.
#[must_use]
pub fn left_files() -> Vec<LeftFile> {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    entries.filter_map(|entry| left_file(entry.path(), own)).collect()
}

fn left_file(path: PathBuf, owner: u32) -> Option<LeftFile> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = statx(rustix::fs::CWD, &path, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    let is_file = FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile;
    if !is_file || stat.stx_uid != owner {
        return None;
    }
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let seconds = u64::try_from(stat.stx_btime.tv_sec).unwrap_or(0);
    let born = has_birth.then(|| UNIX_EPOCH + Duration::new(seconds, stat.stx_btime.tv_nsec));
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    Some(LeftFile {
        path,
        identity: (device, stat.stx_ino),
        born,
    })
}

/// Every file in `/dev/shm` that some process has open or mapped, as far as we may look. What we may not look into
/// belongs to other users, who cannot open our files; root could, and root's MPI files are root's own.
#[must_use]
pub fn held_files() -> BTreeSet<Identity> {
    let Ok(device) = fs::metadata(SHARED_MEMORY).map(|metadata| metadata.dev()) else {
        return BTreeSet::new();
    };
    let mut held = BTreeSet::new();
    for pid in proc_files::pids() {
        // First what is open: a file is closed once it is mapped, and would be seen in neither the other way round.
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        held.extend(
            open.map(|metadata| (metadata.dev(), metadata.ino()))
                .filter(|(on, _)| *on == device),
        );
        let mapped = proc_files::mapped_files(pid).into_iter();
        let shared = mapped.filter(|file| file.path.starts_with(SHARED_MEMORY));
        held.extend(shared.map(|file| (device, file.inode)));
    }
    held
}

/// Whether every process of this machine can be seen: in a container others could share `/dev/shm` and be invisible.
#[must_use]
pub fn is_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|metadata| metadata.ino() == FIRST_PID_NAMESPACE)
}

/// Removes files with names of MPI that were made since then and that no process holds; how many there were. Does
/// nothing where not every process can be seen.
pub fn remove_unheld(since: SystemTime) -> usize {
    let suspects: Vec<LeftFile> = left_files()
        .into_iter()
        .filter(|file| is_suspect(file, since))
        .collect();
    if suspects.is_empty() || !is_first_pid_namespace() {
        return 0;
    }
    let held = held_files();
    let unheld = suspects.iter().filter(|file| !held.contains(&file.identity));
    unheld.filter(|file| fs::remove_file(&file.path).is_ok()).count()
}

fn is_suspect(file: &LeftFile, since: SystemTime) -> bool {
    let name = file.path.strip_prefix(SHARED_MEMORY).ok().and_then(Path::to_str);
    name.is_some_and(is_of_mpi) && file.is_younger_than(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn made(name: &str) -> (PathBuf, File) {
        let path = Path::new(SHARED_MEMORY).join(format!("{name}_unheld_{}", std::process::id()));
        let file = File::create(&path).unwrap();
        (path, file)
    }

    #[test]
    fn what_a_process_holds_is_older_or_of_no_mpi_library_stays() {
        let began = SystemTime::now();
        let later = began + Duration::from_secs(60);
        let ((left, file), (held, _file), (other, _)) = (made("mpich_shm_1"), made("mpich_shm_2"), made("results"));
        remove_unheld(began);
        assert!(left.exists(), "this process holds it");
        drop(file);
        remove_unheld(later);
        assert!(left.exists(), "it is older");
        remove_unheld(began);
        assert_eq!(left.exists(), !is_first_pid_namespace());
        assert!(held.exists() && other.exists());
        for path in [left, held, other] {
            // One is gone already, as it should be.
            let _ = fs::remove_file(path);
        }
    }
}
