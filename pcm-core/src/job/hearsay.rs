//! Aborts that nobody asked for: MPI in a rank ends its process when it loses contact with another rank. Such an abort
//! is often heard before the end of the rank that caused it, so that end is awaited for a moment: what happened first
//! is what is told, and what counts against the program.

use super::coordinator::{Coordinator, Effect};
use super::phase::Phase;
use super::process::Process;
use super::recovery::Hearsay;
use crate::checkpoint::Fault;
use pcm_proto::ids::ProcessId;
use pcm_proto::job::JobEnd;
use std::collections::BTreeSet;

/// An end of a process is told within 200 ms, as what it said last is read before; its abort at once.
const HEARSAY_US: u64 = 300_000;

impl Coordinator {
    /// MPI in a process met an error it cannot return.
    pub(super) fn on_abort_by_mpi(&mut self, now_us: u64, process: ProcessId, end: JobEnd) {
        if !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        let hearsay = self.recovery.hearsay.get_or_insert_with(|| Hearsay {
            end,
            since_us: now_us,
            aborted: BTreeSet::new(),
        });
        hearsay.aborted.insert(process);
    }

    /// Whether the end of a process is the consequence of such an abort.
    pub(super) fn is_hearsay(&self, process: ProcessId) -> bool {
        let hearsay = self.recovery.hearsay.as_ref();
        hearsay.is_some_and(|hearsay| hearsay.aborted.contains(&process))
    }

    pub(super) fn hearsay_deadline(&self) -> Option<u64> {
        let hearsay = self.recovery.hearsay.as_ref()?;
        Some(hearsay.since_us + HEARSAY_US)
    }

    /// No cause was heard of, or can be any more: the abort is all there is to tell.
    pub(super) fn hearsay_on_time(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let all_over = !self.processes.values().any(Process::counts);
        let is_due = |hearsay: &mut Hearsay| all_over || now_us >= hearsay.since_us + HEARSAY_US;
        if let Some(Hearsay { end, .. }) = self.recovery.hearsay.take_if(is_due) {
            self.crash(now_us, end.reason.clone(), (end, Fault::Rank), effects);
        }
    }
}
