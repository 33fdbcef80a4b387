//! The cluster's directory as `pcmctl` sees it: where it is, its lock, its key, its record of nodes and what is
//! removed at the end. It never touches what daemons own below `nodes/` but for reading addresses and removing all.

use crate::failure::{CLUSTER_LOCKED, Failure};
pub use own_files::Lock;
use own_files::{Foreign, Locking};
pub use pcm_proto::cluster_record::{ClusterRecord, RecordedNode};
use pcm_proto::cluster_record::{LOCK_FILE, RECORD_BYTES_MAX, RECORD_FILE};
use pcm_proto::fabric::TUNING_FILE;
use pcm_proto::ids::NodeName;
use pcm_proto::method::COSTS_FILE;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A lock file can be removed by a finishing `down` while we wait for it; so often we try again.
const LOCK_TRIES_MAX: usize = 16;

const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The directory of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDir {
    path: PathBuf,
}

impl ClusterDir {
    /// The directory named on the command line or in `PCM_CLUSTER`, else a per-user default; always absolute.
    pub fn locate(named: Option<&Path>) -> Result<Self, Failure> {
        let path = match named {
            Some(path) if path.as_os_str().is_empty() => {
                return Err(Failure::usage(
                    "--cluster and PCM_CLUSTER must not be empty: name a directory",
                ));
            }
            Some(path) => path.to_owned(),
            None => default_directory()?,
        };
        let path = std::path::absolute(&path).map_err(|error| Failure::file("find", &path, &error))?;
        if path.to_str().is_none() {
            return Err(Failure::usage(format!(
                "{} is not valid UTF-8: choose a directory whose name is, with --cluster DIR",
                path.display()
            )));
        }
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory, readable by its owner only.
    pub fn create(&self) -> Result<(), Failure> {
        own_files::make_directory(&self.path).map_err(|error| Failure::file("create", &self.path, &error))
    }

    /// Refuses a directory that other users own or may write into; a missing one is accepted.
    fn check_owner(&self) -> Result<(), Failure> {
        own_files::check_directory(&self.path).map_err(|foreign| match foreign {
            Foreign::Hidden { path, error } => Failure::file("read", &path, &error),
            foreign => Failure::foreign_cluster(format!("{foreign} directory with --cluster DIR")),
        })
    }

    /// Takes the lock of `up` and `down`, or refuses at once where another has it.
    pub fn lock(&self) -> Result<Lock, Failure> {
        self.check_owner()?;
        let path = self.path.join(LOCK_FILE);
        for _ in 0..LOCK_TRIES_MAX {
            let file = match own_files::open_lock(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.create()?;
                    continue;
                }
                Err(error) => return Err(Failure::file("open", &path, &error)),
            };
            match own_files::lock(file, &path) {
                Ok(Locking::Held(lock)) => return Ok(lock),
                Ok(Locking::Busy) => break,
                Ok(Locking::Removed) => {}
                Err(error) => return Err(Failure::file("lock", &path, &error)),
            }
        }
        Err(Failure::cluster_locked(&self.path))
    }

    /// Takes the lock, waiting a while for another that has it.
    pub fn lock_within(&self, within: Duration) -> Result<Lock, Failure> {
        let deadline = Instant::now() + within;
        loop {
            match self.lock() {
                Err(failure) if failure.code == CLUSTER_LOCKED && Instant::now() < deadline => {
                    std::thread::sleep(LOCK_PAUSE)
                }
                outcome => return outcome,
            }
        }
    }

    /// What is recorded of the cluster; `None` where there is none.
    pub fn record(&self) -> Result<Option<ClusterRecord>, Failure> {
        self.check_owner()?;
        let path = self.path.join(RECORD_FILE);
        let text = match own_files::read(&path, RECORD_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(Failure::file("read", &path, &error)),
        };
        let damaged = |reason: String| {
            Failure::system(format!(
                "{} is damaged ({reason}): remove the directory and boot again",
                path.display()
            ))
        };
        let record: ClusterRecord = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        record.check().map_err(damaged)?;
        Ok(Some(record))
    }

    /// The record, or the failure that no cluster is here.
    pub fn expect_record(&self) -> Result<ClusterRecord, Failure> {
        self.record()?.ok_or_else(|| Failure::no_cluster(&self.path, ""))
    }

    /// Writes the record so that a reader sees the old or the new one, never a part.
    pub fn save(&self, record: &ClusterRecord) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(record)
            .map_err(|error| Failure::system(format!("cannot write cluster.json: {error}")))?;
        self.write_private(RECORD_FILE, &text)
    }

    /// Writes what exchanges cost on this fabric where the daemons read it, if there is a cluster.
    pub fn save_tuning(&self, text: &[u8]) -> Result<(), Failure> {
        if !self.path.is_dir() {
            return Ok(());
        }
        self.write_private(TUNING_FILE, text)
    }

    /// Where the cluster's key is.
    pub fn key_path(&self) -> PathBuf {
        self.path.join("key")
    }

    /// Where the daemon of a node listens now, as it published it here.
    pub fn published_address(&self, node: &NodeName) -> Option<String> {
        let text = fs::read_to_string(self.path.join("nodes").join(node.as_str()).join("address")).ok()?;
        let address = text.trim();
        (!address.is_empty()).then(|| address.to_owned())
    }

    /// Removes everything of the cluster. Output of detached jobs is its owner's data: it is moved to `jobs-ID`, and
    /// that path is returned. Logs stay in place where asked for.
    pub fn remove(&self, cluster_id: &str, keep_logs: bool) -> Result<Option<PathBuf>, Failure> {
        let kept = self.set_job_output_aside(cluster_id)?;
        for entry in [RECORD_FILE, "cluster.json.new", "key", TUNING_FILE, COSTS_FILE] {
            self.remove_entry(entry)?;
        }
        if !keep_logs {
            self.remove_entry("nodes")?;
            self.remove_entry("up.log")?;
        }
        self.remove_entry(LOCK_FILE)?;
        // Still there where logs, job output or files of others are kept in it.
        let _ = fs::remove_dir(&self.path);
        Ok(kept)
    }

    /// Removes what a cluster of which nothing lives left behind, but for the lock, which the caller holds.
    pub fn remove_stale(&self, cluster_id: &str) -> Result<(), Failure> {
        self.set_job_output_aside(cluster_id)?;
        [
            RECORD_FILE,
            "cluster.json.new",
            "key",
            TUNING_FILE,
            COSTS_FILE,
            "nodes",
            "up.log",
        ]
        .iter()
        .try_for_each(|name| self.remove_entry(name))
    }

    fn set_job_output_aside(&self, cluster_id: &str) -> Result<Option<PathBuf>, Failure> {
        let jobs = self.path.join("jobs");
        if !has_content(&jobs) {
            self.remove_entry("jobs")?;
            return Ok(None);
        }
        let aside = self.path.join(format!("jobs-{cluster_id}"));
        fs::rename(&jobs, &aside).map_err(|error| Failure::file("move", &jobs, &error))?;
        Ok(Some(aside))
    }

    fn remove_entry(&self, name: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::file("remove", &path, &error)),
            _ => Ok(()),
        }
    }

    /// What changes have cost by method: daemons add to it, a new cluster gets what was kept.
    pub fn method_costs_path(&self) -> PathBuf {
        self.path.join(COSTS_FILE)
    }

    /// Gives it to a new cluster.
    pub fn save_method_costs(&self, text: &[u8]) -> Result<(), Failure> {
        self.write_private(COSTS_FILE, text)
    }

    fn write_private(&self, name: &str, text: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        own_files::replace(&path, text).map_err(|error| Failure::file("write", &path, &error))
    }
}

fn default_directory() -> Result<PathBuf, Failure> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from("XDG_STATE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| from("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("pcm/default"))
        .ok_or_else(|| Failure::usage("HOME is not set: name a directory for the cluster with --cluster DIR"))
}

/// Whether a tree of job output holds a byte; looks at one level of jobs with their files.
fn has_content(jobs: &Path) -> bool {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    entries(jobs).any(|job| entries(&job.path()).any(|file| file.metadata().is_ok_and(|data| data.len() > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn directory() -> (tempfile::TempDir, ClusterDir) {
        let temporary = tempfile::tempdir().unwrap();
        let cluster = ClusterDir::locate(Some(&temporary.path().join("with space/c"))).unwrap();
        (temporary, cluster)
    }

    #[test]
    fn a_directory_that_others_may_write_into_is_refused_with_what_to_do() {
        let (_temporary, cluster) = directory();
        assert_eq!(cluster.record().unwrap(), None);
        cluster.create().unwrap();
        for (mode, is_refused) in [(0o700, false), (0o755, false), (0o775, true), (0o757, true)] {
            fs::set_permissions(cluster.path(), fs::Permissions::from_mode(mode)).unwrap();
            let refused = [cluster.record().map(|_| ()), cluster.lock().map(|_| ())];
            for outcome in refused {
                assert_eq!(outcome.is_err(), is_refused, "{mode:o}");
                let failure = outcome.err();
                let says = failure.is_none_or(|failure| failure.message.contains("chmod go-w"));
                assert!(says, "{mode:o}");
            }
        }
    }

    #[test]
    fn a_record_that_would_run_what_it_names_is_damaged() {
        let (_temporary, cluster) = directory();
        cluster.create().unwrap();
        let record = |id: &str, destination: &str| {
            format!(
                "{{\"id\": \"{id}\", \"created_us\": 1, \"nodes\": [{{\"name\": \"a\", \"address\": \"127.0.0.1\", \
                 \"site\": \"s\", \"cpus\": [], \"reach\": {{\"Ssh\": {{\"destination\": \"{destination}\"}}}}, \
                 \"listens\": null}}]}}"
            )
        };
        for (text, is_sound) in [
            (record("a4089c38abf37fb5", "me@gate"), true),
            (record("a4; touch x", "me@gate"), false),
            (record("a4089c38abf37fb5", "-oProxyCommand=touch x"), false),
        ] {
            fs::write(cluster.path().join("cluster.json"), &text).unwrap();
            assert_eq!(cluster.record().is_ok(), is_sound, "{text}");
        }
    }

    #[test]
    fn the_second_lock_is_refused_and_a_third_after_the_first_was_dropped_is_not() {
        let (_temporary, cluster) = directory();
        let first = cluster.lock().unwrap();
        assert_eq!(cluster.lock().unwrap_err().code, "cluster_locked");
        drop(first);
        cluster.lock().unwrap();
    }

    #[test]
    fn the_directory_and_the_record_are_readable_by_their_owner_only() {
        let (_temporary, cluster) = directory();
        cluster.create().unwrap();
        cluster
            .save(&ClusterRecord {
                id: "c".into(),
                created_us: 0,
                nodes: Vec::new(),
                manner: None,
                core: None,
            })
            .unwrap();
        assert_eq!(cluster.record().unwrap().unwrap().id, "c");
        let mode = fs::metadata(cluster.path().join("cluster.json")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::metadata(cluster.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn removing_leaves_nothing_but_output_of_detached_jobs() {
        let (_temporary, cluster) = directory();
        let _lock = cluster.lock().unwrap();
        fs::create_dir_all(cluster.path().join("jobs/1")).unwrap();
        fs::create_dir_all(cluster.path().join("nodes/n0")).unwrap();
        fs::write(cluster.path().join("jobs/1/stdout"), "result").unwrap();
        let kept = cluster.remove("id", false).unwrap().unwrap();
        assert_eq!(fs::read_to_string(kept.join("1/stdout")).unwrap(), "result");
        fs::remove_dir_all(kept).unwrap();
        assert_eq!(cluster.remove("id", false).unwrap(), None);
        assert!(!cluster.path().exists());
    }

    #[test]
    fn a_missing_record_is_none_and_a_damaged_one_is_an_error() {
        let (_temporary, cluster) = directory();
        assert_eq!(cluster.record().unwrap(), None);
        assert_eq!(cluster.expect_record().unwrap_err().code, "no_cluster");
        cluster.create().unwrap();
        fs::write(cluster.path().join("cluster.json"), "{").unwrap();
        assert!(cluster.record().unwrap_err().message.contains("damaged"));
    }
}
