//! How a new job gets its number: from this node, or from the one that numbers the jobs of the cluster. While it is not
//! certain which node that is, the request waits.

use super::machine::Jobs;
use crate::moment::Moment;
use crate::node::context::Context;
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

/// A request for a job without a number.
#[derive(Debug)]
pub(super) struct Waiting {
    from: Requester,
    spec: JobSpec,
    until: Moment,
}

impl Jobs {
    /// A new job is asked for: it gets a number, and is accepted.
    pub(super) fn number(&mut self, from: Requester, spec: JobSpec, until: Option<Moment>, cx: &mut Context<'_>) {
        let until = until.unwrap_or(cx.now().plus(NUMBERED_WITHIN));
        if cx.is_cut_off() {
            let job = self.numbers.next_apart();
            self.heard_of(job, cx);
            return self.accept(from, spec, job, cx);
        }
        if !cx.cluster.is_settled() || cx.is_in_doubt() {
            return self.wait_for_number(from, spec, until, cx);
        }
        let numbering = cx.cluster.nodes().numbering().clone();
        if numbering == cx.settings.own {
            let job = self.numbers.next();
            self.heard_of(job, cx);
            return self.accept(from, spec, job, cx);
        }
        let spec = Box::new(spec);
        let asker = Asker::Number { from, spec, until };
        cx.ask(&numbering, Question::JobNumber, asker, ANSWER_WITHIN);
    }

    /// A number for a job of another node; none while this one does not know that it numbers the jobs.
    pub(in crate::node) fn number_for_other(&mut self, cx: &mut Context<'_>) -> Option<JobId> {
        let is_sure = cx.cluster.is_settled() && !cx.is_in_doubt();
        if !is_sure || *cx.cluster.nodes().numbering() != cx.settings.own {
            return None;
        }
        let job = self.numbers.next();
        self.heard_of(job, cx);
        Some(job)
    }

    /// There is no number yet: the node that gives them is lost, or another one is about to give them.
    pub(in crate::node) fn wait_for_number(
        &mut self,
        from: Requester,
        spec: JobSpec,
        until: Moment,
        cx: &mut Context<'_>,
    ) {
        if cx.now() >= until {
            let message = format!(
                "node {}, which numbers the jobs, does not answer: try again in a few seconds",
                cx.cluster.nodes().numbering()
            );
            return cx.refuse(from, refusal::NODE_UNREACHABLE, message);
        }
        // One timer for all that wait: it comes once they have been tried again, not once for each of them.
        if self.unnumbered.is_empty() {
            cx.arm(TRY_AGAIN, Timer::Number);
        }
        self.unnumbered.push(Waiting { from, spec, until });
    }

    pub(in crate::node) fn on_number_timer(&mut self, cx: &mut Context<'_>) {
        for Waiting { from, spec, until } in std::mem::take(&mut self.unnumbered) {
            self.number(from, spec, Some(until), cx);
        }
    }

    /// A node is lost that numbered the jobs until now.
    pub(in crate::node) fn succeed_in_numbering(&mut self, lost: &NodeName, cx: &mut Context<'_>) {
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
