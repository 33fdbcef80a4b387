//! The journal of a node. A record that is there survives the daemon; one that was cut by the daemon's death does not.

use pcm_core::node::record::{Past, Record};
use pcm_core::reconfiguration::limits::Limits;
use pcm_proto::ids::{JobId, NodeName};

/// Records after which a journal is written again from the present state; small, so that histories see it.
const RECORDS_MAX: usize = 400;

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Disk {
    journal: Vec<Record>,
    grown_at: usize,
    is_full: bool,
}

impl Disk {
    /// The keeper is new: nothing of an earlier one counts.
    pub(super) fn clear(&mut self) {
        self.journal.clear();
        self.grown_at = RECORDS_MAX;
    }

    pub(super) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether the record is there.
    pub(super) fn write(&mut self, record: Record) -> bool {
        if !self.is_full {
            self.journal.push(record);
        }
        !self.is_full
    }

    pub(super) fn is_grown(&self) -> bool {
        self.journal.len() >= self.grown_at
    }

    /// Replaces the journal by these records.
    pub(super) fn rewrite(&mut self, records: Vec<Record>) {
        if !self.is_full {
            self.grown_at = records.len() * 2 + RECORDS_MAX;
            self.journal = records;
        }
    }

    /// What a successor reads.
    pub(super) fn past(&self, own: &NodeName, limits: Limits) -> Past {
        let mut past = Past::new(own.clone(), limits);
        self.journal.iter().for_each(|record| past.take(record.clone()));
        past
    }

    /// Drops records that the test picks out, or changes them, for planted faults.
    pub(super) fn lose(&mut self, mut is_kept: impl FnMut(&mut Record) -> bool) {
        self.journal.retain_mut(|record| is_kept(record));
    }

    /// Whether it says that its node leads a job.
    pub(super) fn leads(&self, job: JobId, own: &NodeName, limits: Limits) -> bool {
        let past = self.past(own, limits);
        past.jobs.get(&job).is_some_and(|known| known.coordinator().is_some())
    }
}
