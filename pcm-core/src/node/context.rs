//! What the jobs of a node see of the rest of it: settings, the cluster, and the outbox of the present step.

use super::cluster::machine::Cluster;
use super::outbox::{Inward, Outbox};
use super::queries::{Asker, Wanted};
use super::ranks::pages::{PageQuestion, Reader};
use super::record::Record;
use super::requester::Requester;
use super::settings::Settings;
use super::store::input::StoreInput;
use super::timer::Timer;
use crate::moment::Moment;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, Question};
use std::time::Duration;

/// See the file head.
pub(in crate::node) struct Context<'a> {
    pub(in crate::node) settings: &'a Settings,
    pub(in crate::node) cluster: &'a mut Cluster,
    pub(in crate::node) out: &'a mut Outbox,
    /// Whether the cluster is going down.
    pub(in crate::node) is_going_down: bool,
}

impl Context<'_> {
    pub(in crate::node) fn own(&self) -> NodeName {
        self.settings.own.clone()
    }

    pub(in crate::node) fn now(&self) -> Moment {
        self.out.now()
    }

    pub(in crate::node) fn record(&mut self, record: Record) {
        self.out.record(record);
    }

    pub(in crate::node) fn arm(&mut self, after: Duration, timer: Timer) {
        self.out.arm(after, timer);
    }

    pub(in crate::node) fn send_job(&mut self, node: &NodeName, job: JobId, message: impl Into<JobMessage>) {
        let mut message = message.into();
        if let JobMessage::ToNode(CoordinatorToNode::Start(order)) = &mut message {
            let known = self.cluster.nodes().last_report(node);
            order.keeper_since_us = known.map_or(0, |report| report.keeper_since_us);
        }
        self.out.send_job(node, job, message);
    }

    pub(in crate::node) fn answer(&mut self, to: Requester, answer: DaemonToControl) {
        self.out.answer(to, answer);
    }

    pub(in crate::node) fn refuse(&mut self, to: Requester, code: &str, message: impl Into<String>) {
        self.answer(to, DaemonToControl::Refused(Refusal::new(code, message)));
    }

    /// Adds an event to the node's log.
    pub(in crate::node) fn note(&mut self, job: Option<JobId>, epoch: Epoch, kind: EventKind) {
        tracing::info!(job = job.map(|job| job.0), ?kind, "event");
        self.out.note(job, epoch, kind);
    }

    /// Hands an input to the store.
    pub(in crate::node) fn store(&mut self, input: StoreInput) {
        self.out.inward(Inward::Store(Box::new(input)));
    }

    /// Asks a node.
    pub(in crate::node) fn ask(&mut self, node: &NodeName, question: Question, asker: Asker, within: Duration) {
        self.out.inward(Inward::Ask {
            node: node.clone(),
            question: Box::new(question),
            asker: Box::new(asker),
            within,
        });
    }

    /// Asks nodes and gathers their answers.
    pub(in crate::node) fn gather(
        &mut self,
        from: Requester,
        wanted: Wanted,
        question: Question,
        nodes: Vec<NodeName>,
        within: Duration,
    ) {
        self.out.inward(Inward::Gather {
            from,
            wanted: Box::new(wanted),
            question: Box::new(question),
            nodes,
            within,
        });
    }

    /// Has the pages of ranks read.
    pub(in crate::node) fn read_pages(&mut self, reader: Reader, question: PageQuestion) {
        self.out.inward(Inward::ReadPages { reader, question });
    }

    /// A process came, went, or has initialised MPI.
    pub(in crate::node) fn ranks_changed(&mut self) {
        self.out.inward(Inward::RanksChanged);
    }

    /// Whether the node takes new ranks from now on.
    pub(in crate::node) fn set_draining(&mut self, is_draining: bool) {
        self.cluster.set_draining(is_draining, self.out);
    }

    pub(in crate::node) fn is_cut_off(&self) -> bool {
        self.cluster.is_cut_off(self.now())
    }

    pub(in crate::node) fn is_in_doubt(&self) -> bool {
        self.cluster.is_in_doubt(self.now())
    }

    pub(in crate::node) fn note_rejoined(&mut self) {
        let now = self.now();
        self.cluster.note_rejoined(now);
    }
}
