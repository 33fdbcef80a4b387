//! The file in the cluster's directory that holds what changes have cost by each method (docs/methods.md): every daemon
//! that shares the directory adds lines and reads those of the others. Must never keep a job from being changed: a file
//! that cannot be read counts as empty, and the reason of a choice says so.

use pcm_core::node::cost_file::FileCosts;
use pcm_core::reconfiguration::method_costs::{MethodCost, MethodCosts, REMEMBERED_MAX};
use pcm_core::reconfiguration::method_costs_text as text;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file with twice as many lines as count is written again without the others.
const LINES_MAX: usize = 2 * REMEMBERED_MAX;

/// Such a file has at most 200 bytes a line; a larger one is none of ours.
const FILE_BYTES_MAX: u64 = LINES_MAX as u64 * 200;

/// The file as it was last read.
#[derive(Debug)]
pub(super) struct MethodFile {
    path: PathBuf,
    /// Of this daemon alone, for what is set aside or not finished.
    own_dir: PathBuf,
    /// By this a changed file is known: inode, bytes, when.
    stamp: Option<(u64, u64, i64, i64)>,
    /// Whether nothing in it could be read.
    is_damaged: bool,
}

impl MethodFile {
    pub(super) fn at(path: PathBuf, own_dir: PathBuf) -> Self {
        Self {
            path,
            own_dir,
            stamp: None,
            is_damaged: false,
        }
    }

    /// Reads the file if it is another one than before.
    pub(super) fn read_changed(&mut self) -> Option<FileCosts> {
        let stamp = fs::metadata(&self.path)
            .ok()
            .map(|data| (data.ino(), data.size(), data.mtime(), data.mtime_nsec()));
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        let (costs, trouble) = match read(&self.path) {
            Ok(None) => (MethodCosts::default(), None),
            Ok(Some(found)) => {
                let trouble = found.trouble();
                if found.lines > LINES_MAX
                    && let Err(error) = self.rewrite(&found.costs)
                {
                    tracing::warn!(path = %self.path.display(), %error, "costs of methods cannot be shortened");
                }
                (found.costs, trouble)
            }
            Err(trouble) => (MethodCosts::default(), Some(trouble)),
        };
        if let Some(trouble) = &trouble {
            tracing::warn!(path = %self.path.display(), %trouble, "costs of methods are not all used");
        }
        self.is_damaged = trouble.is_some() && costs.seen().next().is_none();
        let trouble = trouble.map(|trouble| format!("{}: {trouble}", self.path.display()));
        Some(FileCosts { costs, trouble })
    }

    /// Adds the cost of a change to the file. One that is damaged as a whole is set aside first.
    pub(super) fn learn(&mut self, cost: &MethodCost) {
        if let Err(error) = self.add(cost) {
            tracing::warn!(path = %self.path.display(), %error, "the cost of a change cannot be kept");
        }
    }

    fn add(&mut self, cost: &MethodCost) -> io::Result<()> {
        if self.stamp.is_some() && self.is_damaged {
            fs::rename(&self.path, self.own_dir.join("methods.damaged.csv"))?;
            self.is_damaged = false;
        }
        let mut file = own_files::append(&self.path)?;
        let head = match file.metadata()?.len() {
            0 => text::HEAD,
            _ => "",
        };
        // In one write, so that daemons that share the file do not mix their lines.
        file.write_all(format!("{head}{}", text::line(cost)).as_bytes())
    }

    fn rewrite(&self, costs: &MethodCosts) -> io::Result<()> {
        let fresh = self.own_dir.join("methods.new.csv");
        own_files::replace(&fresh, text::write(costs).as_bytes())?;
        fs::rename(&fresh, &self.path)
    }
}

/// `None` without a file; else what it holds, or why it is ignored.
fn read(path: &Path) -> Result<Option<text::Found>, String> {
    let bytes = match own_files::read(path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("ignored, it cannot be read ({error})")),
    };
    // Damaged letters make damaged lines.
    let found = text::read(&String::from_utf8_lossy(&bytes));
    found.map(Some).map_err(|error| format!("ignored, {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::reconfiguration::method_costs::{Choice, Situation};
    use pcm_proto::ids::Bytes;
    use pcm_proto::method::Method;
    use std::os::unix::fs::symlink;

    fn situation() -> Situation {
        Situation {
            from: 2,
            to: 4,
            registered: Bytes(1 << 26),
            constant: Bytes(0),
            program: "heat2d".to_owned(),
            arguments: 1,
        }
    }

    fn file(path: &Path) -> MethodFile {
        MethodFile::at(path.to_owned(), path.with_file_name(""))
    }

    fn choose(file: &mut MethodFile) -> Choice {
        let found = file.read_changed().unwrap_or_default();
        found.costs.choose(&situation())
    }

    fn learn(file: &mut MethodFile, method: &str, pause_ms: f64) {
        for _ in 0..5 {
            let cost = MethodCost {
                situation: situation(),
                method: method.parse().unwrap(),
                pause_ms,
            };
            file.read_changed();
            file.add(&cost).unwrap();
        }
    }

    #[test]
    fn what_one_daemon_learned_another_one_chooses_by() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("methods.csv");
        let (mut one, mut other) = (file(&path), file(&path));
        assert_eq!(choose(&mut other).method, Method::default());
        learn(&mut one, "merge-p2p-async", 9.0);
        learn(&mut other, "merge-p2p-sync", 4.0);
        for file in [&mut one, &mut other] {
            assert_eq!(choose(file).method.as_str(), "merge-p2p-sync");
            assert_eq!(file.read_changed(), None, "it is read once");
        }
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_none_is_ignored_with_a_reason_and_set_aside_when_there_is_something_to_keep() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("methods.csv");
        own_files::replace(&path, &[0xff, 0, 1, b'\n']).unwrap();
        let mut file = file(&path);
        let found = file.read_changed().unwrap();
        assert_eq!(found.costs, MethodCosts::default());
        assert!(found.trouble.unwrap().contains("methods.csv: ignored"));
        learn(&mut file, "merge-p2p-async", 9.0);
        assert!(folder.path().join("methods.damaged.csv").exists());
        assert_eq!(file.read_changed().unwrap().trouble, None);
    }

    #[test]
    fn a_file_that_has_grown_is_shortened_to_what_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("methods.csv");
        let line = text::line(&MethodCost {
            situation: situation(),
            method: Method::default(),
            pause_ms: 1.0,
        });
        own_files::replace(&path, (text::HEAD.to_owned() + &line.repeat(LINES_MAX + 1)).as_bytes()).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, folder.path().join("methods.new.csv")).unwrap();
        file(&path).read_changed();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines, text::HEAD.lines().count() + REMEMBERED_MAX);
    }

    #[test]
    fn costs_are_not_written_where_a_planted_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("methods.csv"), folder.path().join("victim"));
        own_files::replace(&victim, b"").unwrap();
        symlink(&victim, &path).unwrap();
        let cost = MethodCost {
            situation: situation(),
            method: Method::default(),
            pause_ms: 1.0,
        };
        assert!(file(&path).add(&cost).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    }
}
