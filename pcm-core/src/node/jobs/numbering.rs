//! How a new job gets its number: from this node, or from the one that numbers the jobs of the cluster. While it is not
//! certain which node that is, the request waits.

use crate::moment::Moment;
use crate::node::context::Context;
use crate::node::numbers::Numbers;
use crate::node::queries::Asker;
use crate::node::queries::questions::ANSWER_WITHIN;
use crate::node::record::Record;
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobSpec;
use pcm_proto::peer::Question;
use pcm_proto::refusal;
use std::time::Duration;

/// A request waits so long for a node that can number its job: longer than a cluster needs to know who is lost.
const NUMBERED_WITHIN: Duration = Duration::from_secs(12);

/// How often a request that waits is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// See the file head.
#[derive(Debug)]
pub(in crate::node) struct Numbering {
    numbers: Numbers,
    waiting: Vec<Waiting>,
}

/// A request for a job without a number.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) from: Requester,
    pub(super) spec: JobSpec,
    until: Option<Moment>,
}

impl Waiting {
    pub(super) fn new(from: Requester, spec: JobSpec) -> Self {
        let until = None;
        Self { from, spec, until }
    }
}

impl Numbering {
    pub(super) fn new(numbers: Numbers) -> Self {
        let waiting = Vec::new();
        Self { numbers, waiting }
    }

    pub(in crate::node) fn highest(&self) -> JobId {
        self.numbers.highest()
    }

    /// What a successor has to know.
    pub(super) fn records(&self) -> [Record; 2] {
        self.numbers.records()
    }

    /// The number of a new job, and its request; none while another node has to give it.
    pub(super) fn number(&mut self, new: Waiting, cx: &mut Context<'_>) -> Option<(JobId, Waiting)> {
        let until = new.until.unwrap_or(cx.now().plus(NUMBERED_WITHIN));
        if cx.is_cut_off() {
            let job = self.numbers.next_apart();
            self.heard_of(job, cx);
            return Some((job, new));
        }
        let Waiting { from, spec, .. } = new;
        if !cx.cluster.is_settled() || cx.is_in_doubt() {
            self.wait(from, spec, until, cx);
            return None;
        }
        let numbering = cx.cluster.nodes().numbering().clone();
        if numbering == cx.settings.own {
            let job = self.numbers.next();
            self.heard_of(job, cx);
            return Some((job, Waiting::new(from, spec)));
        }
        let spec = Box::new(spec);
        let asker = Asker::Number { from, spec, until };
        cx.ask(&numbering, Question::JobNumber, asker, ANSWER_WITHIN);
        None
    }

    /// A number for a job of another node; none while this one does not know that it numbers the jobs.
    pub(in crate::node) fn for_other(&mut self, cx: &mut Context<'_>) -> Option<JobId> {
        let is_sure = cx.cluster.is_settled() && !cx.is_in_doubt();
        if !is_sure || *cx.cluster.nodes().numbering() != cx.settings.own {
            return None;
        }
        let job = self.numbers.next();
        self.heard_of(job, cx);
        Some(job)
    }

    /// There is no number yet: the node that gives them is lost, or another one is about to give them.
    pub(in crate::node) fn wait(&mut self, from: Requester, spec: JobSpec, until: Moment, cx: &mut Context<'_>) {
        if cx.now() >= until {
            let message = format!(
                "node {}, which numbers the jobs, does not answer: try again in a few seconds",
                cx.cluster.nodes().numbering()
            );
            return cx.refuse(from, refusal::NODE_UNREACHABLE, message);
        }
        // One timer for all that wait: it comes once they have been tried again, not once for each of them.
        if self.waiting.is_empty() {
            cx.arm(TRY_AGAIN, Timer::Number);
        }
        let until = Some(until);
        self.waiting.push(Waiting { from, spec, until });
    }

    /// The requests that wait are tried again.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// A node is lost that numbered the jobs until now.
    pub(in crate::node) fn succeed(&mut self, lost: &NodeName, cx: &mut Context<'_>) {
        let own = &cx.settings.own;
        if lost < own && cx.cluster.nodes().numbering() == own {
            let job = self.numbers.skip();
            cx.record(Record::HighestJob(job));
        }
    }

    /// Takes note of a job number, so that none is given twice.
    pub(in crate::node) fn heard_of(&mut self, job: JobId, cx: &mut Context<'_>) {
        if self.numbers.note(job) {
            cx.record(Record::HighestJob(job));
        }
    }
}
