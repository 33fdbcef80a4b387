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
//! That is done when a job ends here. A keeper that ends removes, too, what other nodes of this host left
//! ([`cluster_sweep::left`]).
//!
//! [`ProcessSpec::segments`]: pcm_proto::keeper::ProcessSpec::segments

use cluster_sweep::left::{LeftFile, SHARED_MEMORY, held_files, is_first_pid_namespace, left_files};
use pcm_core::pmi::segment;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
        let mut doomed: Vec<&LeftFile> = named.collect();
        if self.has_killed {
            let suspects: Vec<&LeftFile> = files.iter().filter(|left| self.is_suspect(left)).collect();
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

    fn is_named(&self, left: &LeftFile) -> bool {
        let name = left.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    fn is_suspect(&self, left: &LeftFile) -> bool {
        let is_mapped = self.mapped.contains(&(left.path.clone(), left.identity.1));
        is_mapped || (is_transient(&left.path) && left.is_younger_than(self.began) && is_first_pid_namespace())
    }
}

fn is_transient(path: &Path) -> bool {
    let name = path.strip_prefix(SHARED_MEMORY).ok().and_then(Path::to_str);
    name.is_some_and(segment::is_transient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
