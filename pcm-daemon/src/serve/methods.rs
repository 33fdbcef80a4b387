//! The method of each change, and what changes by each have cost: kept as text in the cluster's directory
//! (docs/methods.md), where every daemon that shares the directory adds lines and reads those of the others. Must never
//! keep a job from being changed: without a readable file the default is taken, and the reason says so.

use super::daemon::Daemon;
use super::layout_requests::LayoutAsked;
use pcm_core::reconfiguration::method_costs::{
    Choice, MethodCost, MethodCosts, REMEMBERED_MAX, Situation, fingerprint, program_name,
};
use pcm_core::reconfiguration::method_costs_text as text;
use pcm_proto::event::Reconfigured;
use pcm_proto::ids::{Bytes, JobId};
use pcm_proto::job::RankStatus;
use pcm_proto::layout::Mode;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file is written anew with what counts when it holds twice that many lines.
const LINES_MAX: usize = 2 * REMEMBERED_MAX;

/// Such a file has at most 200 bytes a line; what is larger is none of ours.
const FILE_BYTES_MAX: u64 = LINES_MAX as u64 * 200;

/// The file as it was last read.
#[derive(Debug)]
pub(super) struct MethodBook {
    path: PathBuf,
    /// Of this daemon alone, for what is set aside or not finished.
    own_dir: PathBuf,
    costs: MethodCosts,
    /// What is wrong with it.
    trouble: Option<String>,
    /// By this a changed file is known: inode, bytes, when.
    stamp: Option<(u64, u64, i64, i64)>,
}

/// What a change was asked for in, so that its cost can be learned.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) situation: Situation,
    pub(super) choice: Choice,
}

impl MethodBook {
    pub(super) fn at(path: PathBuf, own_dir: PathBuf) -> Self {
        Self {
            path,
            own_dir,
            costs: MethodCosts::default(),
            trouble: None,
            stamp: None,
        }
    }

    /// The method for a change nobody named one for.
    fn choose(&mut self, situation: &Situation) -> Choice {
        self.refresh();
        let mut choice = self.costs.choose(situation);
        if let Some(trouble) = &self.trouble {
            choice.reason = format!("{}; {}: {trouble}", choice.reason, self.path.display());
        }
        choice
    }

    /// Adds a change to the file. One that is damaged as a whole is set aside first.
    fn learn(&mut self, cost: &MethodCost) -> io::Result<()> {
        self.refresh();
        let is_whole = self.trouble.is_none() || self.costs.seen().next().is_some();
        if self.stamp.is_some() && !is_whole {
            fs::rename(&self.path, self.own_dir.join("methods.damaged.csv"))?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        let head = match file.metadata()?.len() {
            0 => text::HEAD,
            _ => "",
        };
        // In one write, so that daemons that share the file do not mix their lines.
        file.write_all(format!("{head}{}", text::line(cost)).as_bytes())
    }

    /// Reads the file if it is another one than before.
    fn refresh(&mut self) {
        let stamp = fs::metadata(&self.path)
            .ok()
            .map(|data| (data.ino(), data.size(), data.mtime(), data.mtime_nsec()));
        if stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        let found = match read(&self.path) {
            Ok(found) => found,
            Err(trouble) => return self.forget(Some(trouble)),
        };
        let Some(found) = found else {
            return self.forget(None);
        };
        self.trouble = found.trouble();
        self.costs = found.costs;
        self.complain();
        if found.lines > LINES_MAX
            && let Err(error) = self.rewrite()
        {
            tracing::warn!(path = %self.path.display(), %error, "costs of methods cannot be shortened");
        }
    }

    fn rewrite(&self) -> io::Result<()> {
        let fresh = self.own_dir.join("methods.new.csv");
        fs::write(&fresh, text::write(&self.costs))?;
        fs::rename(&fresh, &self.path)
    }

    fn forget(&mut self, trouble: Option<String>) {
        self.costs = MethodCosts::default();
        self.trouble = trouble;
        self.complain();
    }

    fn complain(&self) {
        if let Some(trouble) = &self.trouble {
            tracing::warn!(path = %self.path.display(), %trouble, "costs of methods are not all used");
        }
    }
}

/// `None` without a file; else what it holds, or why it is ignored.
fn read(path: &Path) -> Result<Option<text::Found>, String> {
    let mut bytes = Vec::new();
    let opened = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("ignored, it cannot be read ({error})")),
        Ok(length) if length as u64 > FILE_BYTES_MAX => {
            return Err(format!("ignored, it is larger than {FILE_BYTES_MAX} bytes"));
        }
        Ok(_) => {}
    }
    // Damaged letters make damaged lines.
    let found = text::read(&String::from_utf8_lossy(&bytes));
    found.map(Some).map_err(|error| format!("ignored, {error}"))
}

impl Daemon {
    /// The method of a change: what was asked for, or what the job was started with, or what was cheapest for the like.
    pub(super) fn method_for(&mut self, asked: &LayoutAsked, to: u32, seen: &[RankStatus]) -> Option<Chosen> {
        let coordinated = self.jobs.get_mut(&asked.job)?;
        let spec = coordinated.state.spec();
        let sum = |of: fn(&RankStatus) -> Bytes| Bytes(seen.iter().map(|row| of(row).0).sum());
        let situation = Situation {
            from: coordinated.state.rank_nodes().len() as u32,
            to,
            registered: sum(|row| row.registered),
            constant: sum(|row| row.constant),
            program: program_name(&spec.program),
            arguments: fingerprint(spec.args.iter().map(Vec::as_slice)),
        };
        let named = match (asked.method, spec.method) {
            (Some(method), _) => Some((method, "the request names it")),
            (None, Some(method)) => Some((method, "the job was started with it")),
            (None, None) => None,
        };
        let choice = match named {
            Some((method, reason)) => Choice {
                method,
                reason: reason.to_owned(),
            },
            None => self.methods.choose(&situation),
        };
        let chosen = Chosen { situation, choice };
        coordinated.chosen = Some(chosen.clone());
        Some(chosen)
    }

    /// A change was made here: the event says why by that method, and the next one like it is chosen with its cost in
    /// mind.
    pub(super) fn on_changed_by_method(&mut self, job: JobId, done: &mut Reconfigured) {
        let chosen = self
            .jobs
            .get_mut(&job)
            .and_then(|coordinated| coordinated.chosen.take());
        let (Some(method), Mode::Live, Some(chosen)) = (done.method, done.mode, chosen) else {
            return;
        };
        let Chosen { situation, choice } = chosen;
        if choice.method != method || (situation.from, situation.to) != (done.ranks_before, done.ranks_after) {
            return;
        }
        done.method_reason = Some(choice.reason);
        let cost = MethodCost {
            situation,
            method,
            pause_ms: done.pause_ms,
        };
        if cost.is_sensible()
            && let Err(error) = self.methods.learn(&cost)
        {
            tracing::warn!(%job, %error, "what a change cost cannot be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::method::Method;

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

    fn book(path: &Path) -> MethodBook {
        MethodBook::at(path.to_owned(), path.with_file_name(""))
    }

    fn learn(book: &mut MethodBook, method: &str, pause_ms: f64) {
        for _ in 0..5 {
            let cost = MethodCost {
                situation: situation(),
                method: method.parse().unwrap(),
                pause_ms,
            };
            book.learn(&cost).unwrap();
        }
    }

    #[test]
    fn what_one_daemon_learned_another_one_chooses_by() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("methods.csv");
        let (mut one, mut other) = (book(&path), book(&path));
        assert_eq!(other.choose(&situation()).method, Method::default());
        learn(&mut one, "merge-p2p-async", 9.0);
        learn(&mut other, "merge-p2p-sync", 4.0);
        for book in [&mut one, &mut other] {
            assert_eq!(book.choose(&situation()).method.as_str(), "merge-p2p-sync");
        }
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_none_is_ignored_with_a_reason_and_set_aside_when_there_is_something_to_keep() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("methods.csv");
        fs::write(&path, [0xff, 0, 1, b'\n']).unwrap();
        let mut book = book(&path);
        let choice = book.choose(&situation());
        assert_eq!(choice.method, Method::default());
        assert!(choice.reason.contains("methods.csv: ignored"), "{choice:?}");
        learn(&mut book, "merge-p2p-async", 9.0);
        assert!(folder.path().join("methods.damaged.csv").exists());
        assert!(!book.choose(&situation()).reason.contains("ignored"));
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
        fs::write(&path, text::HEAD.to_owned() + &line.repeat(LINES_MAX + 1)).unwrap();
        let mut book = book(&path);
        book.refresh();
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines, text::HEAD.lines().count() + REMEMBERED_MAX);
    }
}
