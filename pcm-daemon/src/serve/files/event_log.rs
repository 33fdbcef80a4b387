//! The node's own events: the newest in memory for whoever asks, all of them in a file.

use super::writer::{Files, Work};
use pcm_proto::event::{Event, EventKind};
use pcm_proto::ids::{Epoch, JobId, NodeName};
use std::collections::VecDeque;

/// Events kept in memory: an hour of a busy node, a few megabytes.
const KEPT_MAX: usize = 10_000;

/// Events of this node, oldest first.
#[derive(Debug)]
pub(in super::super) struct EventLog {
    own: NodeName,
    files: Files,
    kept: VecDeque<Event>,
    last_us: u64,
}

impl EventLog {
    pub(in super::super) fn new(own: NodeName, files: Files) -> Self {
        Self {
            own,
            files,
            kept: VecDeque::new(),
            last_us: 0,
        }
    }

    /// Takes in the events before this daemon, whenever they are there.
    pub(in super::super) fn take_earlier(&mut self, earlier: Vec<Event>) {
        self.kept.extend(earlier);
        self.kept.make_contiguous().sort_by_key(|event| event.time_us);
        self.kept.drain(..self.kept.len().saturating_sub(KEPT_MAX));
        self.last_us = self.kept.back().map_or(self.last_us, |event| event.time_us);
    }

    /// The way to the thread that writes.
    pub(in super::super) fn files(&self) -> Files {
        self.files.clone()
    }

    /// Notes that something happened. Times are distinct and grow, so a reader can ask for what came after one.
    pub(in super::super) fn note(&mut self, now_us: u64, job: Option<JobId>, epoch: Epoch, kind: EventKind) {
        let time_us = now_us.max(self.last_us + 1);
        self.last_us = time_us;
        let event = Event {
            time_us,
            job,
            epoch,
            node: self.own.clone(),
            kind,
        };
        self.files.order(Work::Event(event.clone()));
        self.kept.push_back(event);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    /// Events after `since_us`, of one job or of all.
    pub(in super::super) fn after(&self, since_us: u64, job: Option<JobId>) -> Vec<Event> {
        let start = self.kept.partition_point(|event| event.time_us <= since_us);
        let wanted = |event: &&Event| job.is_none() || event.job == job;
        self.kept.range(start..).filter(wanted).cloned().collect()
    }
}
