//! Sees that a test leaves nothing behind: no process that carries its mark, no shared memory that nobody has mapped,
//! no socket of its cluster, no file in its temporary folder.

use crate::{processes, wait};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The variable that marks everything a test starts.
pub const MARK_VARIABLE: &str = "PCM_TEST_MARK";

/// What is under way when a cluster says it is down may take this long; on an idle machine it takes milliseconds.
const SETTLE: Duration = Duration::from_secs(3);

/// What was there before a test.
#[derive(Debug)]
pub struct Before {
    mark: String,
    /// The test's own `/dev/shm`, or the machine's, which others use at the same time.
    shared_memory: PathBuf,
    is_own: bool,
    segments: BTreeSet<PathBuf>,
}

impl Before {
    /// Takes stock; `mark` is the value of [`MARK_VARIABLE`] in all that the test will start, `own` its own `/dev/shm`.
    pub fn now(mark: &str, own: Option<&Path>) -> Self {
        let shared_memory = own.unwrap_or(Path::new("/dev/shm")).to_path_buf();
        Self {
            mark: mark.to_owned(),
            segments: segments(&shared_memory),
            shared_memory,
            is_own: own.is_some(),
        }
    }

    /// Everything that is left now, one line each; waits a moment for what is just ending.
    pub fn left(&self, cluster_id: Option<&str>, temporary: &Path) -> Vec<String> {
        let look = || {
            let left = self.look(cluster_id, temporary);
            left.is_empty().then_some(())
        };
        match wait::within(SETTLE, look) {
            Some(()) => Vec::new(),
            None => self.look(cluster_id, temporary),
        }
    }

    fn look(&self, cluster_id: Option<&str>, temporary: &Path) -> Vec<String> {
        let mut left = Vec::new();
        for pid in processes::with_variable(MARK_VARIABLE, &self.mark) {
            left.push(format!("process {pid}: {}", processes::command_line(pid)));
        }
        // In the machine's, one that is mapped belongs to somebody who lives: another test, another user.
        let mapped = if self.is_own {
            BTreeSet::new()
        } else {
            mapped_segments()
        };
        let now = segments(&self.shared_memory);
        let new = now
            .difference(&self.segments)
            .filter(|segment| !mapped.contains(*segment));
        left.extend(new.map(|segment| format!("shared memory {}", segment.display())));
        if let Some(id) = cluster_id {
            let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
            left.extend(
                sockets
                    .lines()
                    .filter(|line| line.contains(id))
                    .map(|line| format!("socket {line}")),
            );
        }
        let files = fs::read_dir(temporary).into_iter().flatten().flatten();
        left.extend(files.map(|file| format!("file {}", file.path().display())));
        left
    }
}

fn segments(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    // The folders of other tests.
    paths.filter(|path| !path.is_dir()).collect()
}

fn mapped_segments() -> BTreeSet<PathBuf> {
    let files = proc_files::pids().flat_map(proc_files::mapped_files);
    files
        .map(|file| file.path)
        .filter(|path| path.starts_with("/dev/shm"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_a_segment_and_a_file_that_are_left_are_seen() {
        let temporary = tempfile::tempdir().unwrap();
        let mark = format!("leak-{}", std::process::id());
        let before = Before::now(&mark, None);
        assert_eq!(before.left(None, temporary.path()), Vec::<String>::new());
        let mut child = Command::new("sleep")
            .arg("60")
            .env(MARK_VARIABLE, &mark)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let segment = PathBuf::from(format!("/dev/shm/{mark}"));
        fs::write(&segment, "x").unwrap();
        fs::write(temporary.path().join("f"), "x").unwrap();
        let left = before.left(None, temporary.path());
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(&segment).unwrap();
        assert!(left.iter().any(|line| line.contains("sleep 60")), "{left:?}");
        assert!(left.iter().any(|line| line.contains(&mark)), "{left:?}");
        assert!(left.iter().any(|line| line.ends_with("/f")), "{left:?}");
    }
}
