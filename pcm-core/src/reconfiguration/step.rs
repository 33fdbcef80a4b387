//! What every handler of one step works with: the record, the time, the limits, and the effects so far.

use super::effects::{Dropped, Effect, EndCause, Report, Timer};
use super::limits::Limits;
use super::record::{Durable, JobRecord};
use crate::moment::Moment;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::reconfiguration::{Answer, Attempt, Decision, ReconfigurationMessage, ReconfigurationOrder};
use std::collections::BTreeMap;
use std::time::Duration;

/// Whether and how a node is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It does not answer; it may come back with everything it had.
    Gone,
    /// It came back with nothing of this job.
    Forgot,
}

/// The surroundings of one step.
pub(super) struct Step<'a> {
    pub(super) me: &'a NodeName,
    pub(super) now: Moment,
    pub(super) limits: &'a Limits,
    pub(super) record: &'a mut Durable<JobRecord>,
    pub(super) absent: &'a mut BTreeMap<NodeName, Absence>,
    pub(super) dropped: &'a mut Dropped,
    pub(super) out: &'a mut Vec<Effect>,
}

impl Step<'_> {
    pub(super) fn send(&mut self, to: &NodeName, message: ReconfigurationMessage) {
        self.out.push(Effect::Send {
            to: to.clone(),
            message,
        });
    }

    /// To the holder of the lease.
    pub(super) fn answer(&mut self, attempt: Attempt, answer: Answer) {
        let holder = self.record.holder.clone();
        self.send(&holder, ReconfigurationMessage::Answer { attempt, answer });
    }

    pub(super) fn send_decided(&mut self, to: &NodeName, attempt: Attempt, decision: Decision, stand: bool) {
        self.send(
            to,
            ReconfigurationMessage::Decided {
                attempt,
                decision,
                stand,
            },
        );
    }

    pub(super) fn tell(&mut self, process: ProcessId, order: ReconfigurationOrder) {
        self.out.push(Effect::TellApp { process, order });
    }

    pub(super) fn end_process(&mut self, process: ProcessId, cause: EndCause) {
        self.out.push(Effect::EndProcess { process, cause });
    }

    pub(super) fn arm(&mut self, timer: Timer, after: Duration) {
        self.out.push(Effect::ArmTimer { timer, after });
    }

    pub(super) fn report(&mut self, report: Report) {
        self.out.push(Effect::Report(report));
    }

    pub(super) fn is_gone(&self, node: &NodeName) -> bool {
        self.absent.get(node) == Some(&Absence::Gone)
    }
}
