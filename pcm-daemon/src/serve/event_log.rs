//! The node's own events: the newest in memory for whoever asks, all of them in a file that is rotated.

use pcm_proto::event::{Event, EventKind};
use pcm_proto::ids::{Epoch, JobId, NodeName};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Events kept in memory: an hour of a busy node, a few megabytes.
const KEPT_MAX: usize = 10_000;

/// The file is rotated at this size; one older file is kept.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Events of this node, oldest first.
#[derive(Debug)]
pub(super) struct EventLog {
    own: NodeName,
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    kept: VecDeque<Event>,
    last_us: u64,
}

impl EventLog {
    /// Opens the log; with `is_new` nothing of an earlier cluster is kept.
    pub(super) fn open(path: &Path, own: NodeName, is_new: bool) -> Self {
        let mut kept = VecDeque::new();
        if !is_new && let Ok(file) = File::open(path) {
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            for event in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                kept.push_back(event);
                if kept.len() > KEPT_MAX {
                    kept.pop_front();
                }
            }
        }
        let mut options = OpenOptions::new();
        options.create(true).append(!is_new).write(true).truncate(is_new);
        let file = options
            .open(path)
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "events are kept in memory only"))
            .ok();
        let bytes = file
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map_or(0, |metadata| metadata.len());
        let last_us = kept.back().map_or(0, |event: &Event| event.time_us);
        Self {
            own,
            path: path.to_owned(),
            file,
            bytes,
            kept,
            last_us,
        }
    }

    /// Notes that something happened. Times are distinct and grow, so a reader can ask for what came after one.
    pub(super) fn note(&mut self, now_us: u64, job: Option<JobId>, epoch: Epoch, kind: EventKind) {
        let time_us = now_us.max(self.last_us + 1);
        self.last_us = time_us;
        let event = Event {
            time_us,
            job,
            epoch,
            node: self.own.clone(),
            kind,
        };
        self.store(&event);
        self.kept.push_back(event);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    /// Events after `since_us`, of one job or of all.
    pub(super) fn after(&self, since_us: u64, job: Option<JobId>) -> Vec<Event> {
        let start = self.kept.partition_point(|event| event.time_us <= since_us);
        let wanted = |event: &&Event| job.is_none() || event.job == job;
        self.kept.range(start..).filter(wanted).cloned().collect()
    }

    fn store(&mut self, event: &Event) {
        let Some(file) = &mut self.file else { return };
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            tracing::warn!(path = %self.path.display(), %error, "an event was not written");
            return;
        }
        self.bytes += line.len() as u64;
        if self.bytes > FILE_BYTES_MAX {
            self.rotate();
        }
    }

    fn rotate(&mut self) {
        let older = self.path.with_extension("jsonl.1");
        let rotated = std::fs::rename(&self.path, older);
        match rotated.and_then(|()| File::create(&self.path)) {
            Ok(file) => self.file = Some(file),
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "the event log was not rotated"),
        }
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(directory: &Path, is_new: bool) -> EventLog {
        EventLog::open(&directory.join("events.jsonl"), NodeName::new("n0").unwrap(), is_new)
    }

    fn gone() -> EventKind {
        EventKind::DaemonRestarted { processes: 1 }
    }

    #[test]
    fn events_of_the_same_moment_have_distinct_times() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path(), true);
        for _ in 0..3 {
            log.note(5, None, Epoch(0), gone());
        }
        let times: Vec<u64> = log.after(0, None).iter().map(|event| event.time_us).collect();
        assert_eq!(times, [5, 6, 7]);
        assert_eq!(log.after(6, None).len(), 1);
        assert!(log.after(0, Some(JobId(1))).is_empty());
    }

    #[test]
    fn events_survive_a_restart_of_the_daemon() {
        let directory = tempfile::tempdir().unwrap();
        log(directory.path(), true).note(5, Some(JobId(3)), Epoch(0), gone());
        assert_eq!(log(directory.path(), false).after(0, Some(JobId(3))).len(), 1);
        assert!(log(directory.path(), true).after(0, None).is_empty());
    }
}
