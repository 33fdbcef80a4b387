//! Ends that follow from others: MPI in a rank ends its process when it loses contact with another rank, and a node
//! ends ranks of a job that cannot go on there. Such an end is often heard before that of the rank that caused it, so
//! that is awaited for a moment; and as long as a node with ranks does not answer, its return or its loss. The first
//! cause is named, and counts. Never decides that a node is lost.

use super::coordinator::{Coordinator, Effect};
use super::phase::Phase;
use super::process::Process;
use super::recovery::Hearsay;
use crate::checkpoint::Fault;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::job::JobEnd;
use std::collections::BTreeSet;

/// An end of a process is told within 200 ms, as what it said last is read before; its abort at once.
const HEARSAY_US: u64 = 300_000;

impl Coordinator {
    /// MPI in a process met an error it cannot return, or its node ended it as lost.
    pub(super) fn on_hearsay(&mut self, now_us: u64, process: ProcessId, (end, fault): (JobEnd, Fault)) {
        if !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        let hearsay = self.recovery.hearsay.get_or_insert_with(|| Hearsay {
            end,
            fault,
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

    /// A node does not answer, or does again: then what happened there is heard in a moment.
    pub(super) fn on_silent(&mut self, now_us: u64, node: NodeName, gone_by_us: Option<u64>) {
        if let Some(gone_by_us) = gone_by_us {
            self.recovery.silent.insert(node, gone_by_us);
        } else if self.recovery.silent.remove(&node).is_some()
            && let Some(hearsay) = &mut self.recovery.hearsay
        {
            hearsay.since_us = now_us;
        }
    }

    /// Whether a node does not answer, as far as was said.
    pub fn is_silent(&self, node: &NodeName) -> bool {
        self.recovery.silent.contains_key(node)
    }

    /// Until when the cause of an abort may be heard of.
    pub(super) fn hearsay_deadline(&self) -> Option<u64> {
        let hearsay = self.recovery.hearsay.as_ref()?;
        let has_ranks = |node: &NodeName| self.processes.values().any(|one| one.node == *node && one.counts());
        let silent = self.recovery.silent.iter().filter(|(node, _)| has_ranks(node));
        let gone_by_us = silent.map(|(_, gone_by_us)| *gone_by_us);
        gone_by_us.chain([hearsay.since_us + HEARSAY_US]).max()
    }

    /// No cause was heard of, or can be any more: the abort is all there is to tell.
    pub(super) fn hearsay_on_time(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let all_over = !self.processes.values().any(Process::counts);
        let is_due = self
            .hearsay_deadline()
            .is_some_and(|until_us| all_over || now_us >= until_us);
        if let Some(Hearsay { end, fault, .. }) = self.recovery.hearsay.take_if(|_| is_due) {
            self.crash(now_us, end.reason.clone(), (end, fault), effects);
        }
    }
}
