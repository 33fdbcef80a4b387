//! What a node knows of its own end.

use crate::moment::Moment;
use crate::node::requester::Requester;
use pcm_proto::ids::{JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct Ending {
    pub(super) stage: Stage,
    pub(super) drain: Option<Draining>,
    pub(super) preemption: Option<Preemption>,
    /// Nodes that have not said yet that they heard this one's last words.
    pub(super) farewells: Option<usize>,
}

/// How long the node goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Serving,
    /// It takes no new jobs, ends those it has, and then answers these questions.
    EndingJobs { asked_by: Vec<(NodeName, u64)> },
    /// The loop ends now.
    Over,
}

/// A requester waits for the node to be empty.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) from: Requester,
    /// What the jobs are told.
    pub(super) cause: String,
    pub(super) until: Moment,
    /// Whether the node is going to be taken away then.
    pub(super) has_deadline: bool,
    /// Whether there may be another node for its ranks.
    pub(super) has_refuge: bool,
    /// When the question that is open has had its time.
    pub(super) answer_by: Moment,
    /// Jobs that were asked for a checkpoint, and those that made one.
    pub(super) asked: BTreeSet<JobId>,
    pub(super) safe: BTreeSet<JobId>,
    /// Jobs that cannot leave and were asked for files, and why they cannot.
    pub(super) stuck: BTreeMap<JobId, (String, &'static str)>,
    /// Whether the deadline came, and the jobs that were left were told so.
    pub(super) is_forced: bool,
}

impl Draining {
    /// There is no answer to a question about a job; whether it is asked again. One that had its time is not. One that
    /// was lost with a link says nothing of the job: its coordinator's daemon may be back in a moment, or an heir.
    pub(super) fn asks_again(&mut self, job: JobId, now: Moment) -> bool {
        let was_lost = now < self.answer_by;
        if was_lost {
            self.asked.remove(&job);
            self.stuck.remove(&job);
        }
        was_lost
    }
}

/// The node is to be given up.
#[derive(Debug)]
pub(super) struct Preemption {
    pub(super) until: Moment,
    /// Whether the last checkpoints were asked for.
    pub(super) is_handing_over: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::refusal;

    const JOB: JobId = JobId(1);

    fn asking(answer_by: Moment) -> Draining {
        let why = (String::new(), refusal::NODE_BUSY);
        Draining {
            from: Requester::Nobody,
            cause: String::new(),
            until: Moment(1000),
            has_deadline: true,
            has_refuge: true,
            answer_by,
            asked: BTreeSet::from([JOB, JobId(2)]),
            safe: BTreeSet::new(),
            stuck: BTreeMap::from([(JOB, why)]),
            is_forced: false,
        }
    }

    /// The daemon of a job's coordinator was killed while the job was asked for a checkpoint: the node left with it.
    #[test]
    fn a_question_that_was_lost_with_a_link_is_asked_again_and_one_that_had_its_time_is_not() {
        let mut draining = asking(Moment(500));
        assert!(draining.asks_again(JOB, Moment(499)));
        assert!(draining.stuck.is_empty() && draining.asked == BTreeSet::from([JobId(2)]));
        let mut draining = asking(Moment(500));
        assert!(!draining.asks_again(JOB, Moment(500)));
        assert!(draining.stuck.contains_key(&JOB) && draining.asked.contains(&JOB));
    }
}
