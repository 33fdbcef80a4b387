//! Removes shared memory that killed ranks left in `/dev/shm`, and never anybody else's.
//!
//! A file is removed only if it is a regular file of our own user and one of these holds:
//! 1. Its name begins as MPI names the memory of one of the job's worlds ([`ProcessSpec::segments`]): the name follows
//!    from the world's name, which no other job on any cluster bears. MPICH 5 leaves no other file behind, because it
//!    unlinks all others as soon as they are open on all sides.
//! 2. One of the job's ranks had it mapped when it was killed, its name is one that MPI libraries use, and no process
//!    has it open or mapped now.
//! 3. Its name is one that MPI libraries use, it was born after the job's first rank on this node, no process has it
//!    open or mapped, and the job had a rank that did not end by itself. Whoever makes such a file holds it open, so a
//!    file that nobody holds is nobody's; a process that was killed between making a file and unlinking it leaves just
//!    that. This needs sight of every process that could hold it, so it applies only in the machine's first PID
//!    namespace: in a container others could share `/dev/shm` and be invisible.
//!
//! [`ProcessSpec::segments`]: pcm_proto::keeper::ProcessSpec::segments

use pcm_core::pmi::segment;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SHARED_MEMORY: &str = "/dev/shm";

/// The inode number of the machine's first PID namespace, fixed in the kernel (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// File systems stamp births with a clock that ticks only every some milliseconds.
const CLOCK_COARSENESS: Duration = Duration::from_millis(20);

/// A file by device and inode, which a new file of the same name does not share.
type Identity = (u64, u64);

/// What is known of a job's shared memory on this node.
#[derive(Debug)]
pub(super) struct Footprint {
    prefixes: BTreeSet<String>,
    began: SystemTime,
    /// Mapped by ranks when they were killed.
    mapped: BTreeSet<(PathBuf, u64)>,
    /// Whether a rank ended otherwise than by returning.
    pub(super) has_killed: bool,
}

impl Footprint {
    pub(super) fn new(now: SystemTime) -> Self {
        Self {
            prefixes: BTreeSet::new(),
            began: now,
            mapped: BTreeSet::new(),
            has_killed: false,
        }
    }

    pub(super) fn expect(&mut self, prefixes: &[String]) {
        // An empty or general prefix would name the memory of others.
        let own = prefixes
            .iter()
            .filter(|prefix| prefix.len() > segment::OF_WORLDS.len() && !prefix.contains('/'));
        self.prefixes.extend(own.cloned());
    }

    /// Notes what a rank that is about to be killed has mapped.
    pub(super) fn note_mapped(&mut self, pid: i32) {
        let mapped = proc_files::mapped_files(pid.cast_unsigned()).into_iter();
        let transient = mapped.filter(|file| is_transient(&file.path));
        self.mapped.extend(transient.map(|file| (file.path, file.inode)));
        self.has_killed = true;
    }

    /// Removes what is left; to be called when no process of the job lives. Returns how many files.
    pub(super) fn remove(&self) -> u32 {
        let files = left_files();
        let named = files.iter().filter(|left| self.is_named(left));
        let mut doomed: Vec<&Left> = named.collect();
        if self.has_killed {
            let suspects: Vec<&Left> = files.iter().filter(|left| self.is_suspect(left)).collect();
            if !suspects.is_empty() {
                let held = held_files();
                doomed.extend(suspects.into_iter().filter(|left| !held.contains(&left.identity)));
            }
        }
        doomed
            .iter()
            .filter(|left| fs::remove_file(&left.path).is_ok())
            .count()
            .try_into()
            .unwrap_or(u32::MAX)
    }

    fn is_named(&self, left: &Left) -> bool {
        let name = left.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    fn is_suspect(&self, left: &Left) -> bool {
        let is_mapped = self.mapped.contains(&(left.path.clone(), left.identity.1));
        let is_young = left.born.is_some_and(|born| born + CLOCK_COARSENESS >= self.began);
        is_mapped || (is_transient(&left.path) && is_young && is_first_pid_namespace())
    }
}

/// A file of our own user in `/dev/shm`.
#[derive(Debug)]
struct Left {
    path: PathBuf,
    identity: Identity,
    born: Option<SystemTime>,
}

fn left_files() -> Vec<Left> {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    entries.filter_map(|entry| left_file(entry.path(), own)).collect()
}

fn left_file(path: PathBuf, owner: u32) -> Option<Left> {
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
    Some(Left {
        path,
        identity: (device, stat.stx_ino),
        born,
    })
}

fn is_transient(path: &Path) -> bool {
    let name = path.strip_prefix(SHARED_MEMORY).ok().and_then(Path::to_str);
    name.is_some_and(segment::is_transient)
}

/// Every file in `/dev/shm` that some process has open or mapped, as far as we may look. What we may not look into
/// belongs to other users, who cannot open our files; root could, and root's MPI files are root's own.
fn held_files() -> BTreeSet<Identity> {
    let Ok(device) = fs::metadata(SHARED_MEMORY).map(|metadata| metadata.dev()) else {
        return BTreeSet::new();
    };
    let mut held = BTreeSet::new();
    for pid in proc_files::pids() {
        let mapped = proc_files::mapped_files(pid).into_iter();
        let shared = mapped.filter(|file| file.path.starts_with(SHARED_MEMORY));
        held.extend(shared.map(|file| (device, file.inode)));
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        held.extend(
            open.map(|metadata| (metadata.dev(), metadata.ino()))
                .filter(|(on, _)| *on == device),
        );
    }
    held
}

fn is_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|metadata| metadata.ino() == FIRST_PID_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_could_name_the_memory_of_others_is_not_taken() {
        let mut footprint = Footprint::new(SystemTime::now());
        footprint.expect(&[
            String::new(),
            "mpich_shm_".to_owned(),
            "../../x/mpich_shm_1_".to_owned(),
        ]);
        assert!(footprint.prefixes.is_empty());
        footprint.expect(&["mpich_shm_1f_".to_owned()]);
        assert_eq!(footprint.prefixes.len(), 1);
    }

    fn left_by_nobody(name: &str) -> PathBuf {
        let path = Path::new(SHARED_MEMORY).join(format!("{name}_test_{}", std::process::id()));
        fs::write(&path, "left").unwrap();
        path
    }

    fn remove_if_there(path: &Path) -> bool {
        fs::remove_file(path).is_ok()
    }

    #[test]
    fn a_file_that_nobody_holds_is_removed_only_where_everybody_can_be_seen() {
        let mut footprint = Footprint::new(SystemTime::now());
        footprint.has_killed = true;
        let path = left_by_nobody("mpich_shar_tmp");
        footprint.remove();
        assert_eq!(remove_if_there(&path), !is_first_pid_namespace());
    }

    #[test]
    fn a_file_older_than_the_job_or_of_no_mpi_library_stays() {
        let old = left_by_nobody("ucx_shm_posix_");
        let mut footprint = Footprint::new(SystemTime::now() + Duration::from_secs(1));
        footprint.has_killed = true;
        let foreign = left_by_nobody("somebody");
        footprint.remove();
        let stayed = (remove_if_there(&old), remove_if_there(&foreign));
        assert_eq!(stayed, (true, true));
    }

    #[test]
    fn without_a_killed_rank_only_files_of_the_worlds_own_names_are_removed() {
        let named = left_by_nobody("mpich_shm_0badcafe_0");
        let transient = left_by_nobody("fi_shm");
        let mut footprint = Footprint::new(SystemTime::now());
        footprint.expect(&["mpich_shm_0badcafe_".to_owned()]);
        assert_eq!(footprint.remove(), 1);
        assert_eq!((remove_if_there(&named), remove_if_there(&transient)), (false, true));
    }
}
