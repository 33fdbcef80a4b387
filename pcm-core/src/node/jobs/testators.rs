//! Whether a node may say that a job is over which it led: one that is back may be a new node, which knows nothing of
//! that job. Until a node that is linked has said which keeper it has, such words do not count. Of a new node they
//! never do: for the jobs of the one before it that is dead, whatever it answers. Where another node leads a job now,
//! only its orders count.

use pcm_proto::ids::{JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs of dead nodes, and jobs that were inherited, that are remembered at one time.
const JOBS_MAX: usize = 4096;

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Testators {
    doubted: BTreeMap<NodeName, Doubted>,
    /// Jobs whose coordinator's node is back as a new one, and its name.
    dead: BTreeMap<JobId, NodeName>,
    /// Which node said last that it leads a job.
    successors: BTreeMap<JobId, NodeName>,
}

/// A node that has not said yet which keeper it has.
#[derive(Debug)]
struct Doubted {
    /// The jobs that it led, as far as this node knows.
    jobs: BTreeSet<JobId>,
    /// Whether it said something that did not count.
    was_ignored: bool,
}

impl Testators {
    /// A node is linked (again) that led these jobs.
    pub(super) fn doubt(&mut self, node: &NodeName, led: BTreeSet<JobId>) {
        let jobs: BTreeSet<JobId> = led.into_iter().filter(|job| !self.is_dead(*job, node)).collect();
        if !jobs.is_empty() {
            let was_ignored = false;
            let doubted = Doubted { jobs, was_ignored };
            self.doubted.entry(node.clone()).or_insert(doubted);
        }
    }

    /// Whether it counts when a node says that a job is over.
    pub(super) fn counts(&mut self, job: JobId, node: &NodeName) -> bool {
        let doubted = self.doubted.get_mut(node).filter(|doubted| doubted.jobs.contains(&job));
        let is_doubted = doubted.map(|doubted| doubted.was_ignored = true).is_some();
        !is_doubted && !self.is_dead(job, node)
    }

    /// Whether no other node is known to lead a job.
    pub(super) fn may_lead(&self, job: JobId, node: &NodeName) -> bool {
        self.successors.get(&job).is_none_or(|successor| successor == node)
    }

    /// A node has the keeper that was known; whether it has to say again what did not count.
    pub(super) fn trust(&mut self, node: &NodeName) -> bool {
        self.doubted.remove(node).is_some_and(|doubted| doubted.was_ignored)
    }

    /// A node is a new one; the jobs that the one before it led. Without a link before, those are all that are known.
    pub(super) fn bury(&mut self, node: &NodeName, led: BTreeSet<JobId>) -> BTreeSet<JobId> {
        let jobs = self.doubted.remove(node).map_or(led, |doubted| doubted.jobs);
        for job in &jobs {
            self.dead.insert(*job, node.clone());
            if self.dead.len() > JOBS_MAX {
                self.dead.pop_first();
            }
        }
        jobs
    }

    /// Whether the node that led a job was another one of this name.
    pub(super) fn is_dead(&self, job: JobId, node: &NodeName) -> bool {
        self.dead.get(&job) == Some(node)
    }

    /// Whether a job's coordinator is dead, and nobody has taken the job over.
    pub(super) fn is_orphan(&self, job: JobId) -> bool {
        self.dead.contains_key(&job)
    }

    /// A node says that it leads a job.
    pub(super) fn on_led(&mut self, job: JobId, by: &NodeName) {
        self.forget(job);
        self.successors.insert(job, by.clone());
        if self.successors.len() > JOBS_MAX {
            self.successors.pop_first();
        }
    }

    /// A job is not needed here any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.successors.remove(&job);
        self.dead.remove(&job);
        for doubted in self.doubted.values_mut() {
            doubted.jobs.remove(&job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(1);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn doubting() -> Testators {
        let mut testators = Testators::default();
        testators.doubt(&node("n1"), BTreeSet::from([JOB]));
        testators
    }

    #[test]
    fn a_node_that_is_linked_is_believed_when_it_has_the_keeper_that_was_known() {
        let mut testators = doubting();
        assert!(!testators.counts(JOB, &node("n1")));
        assert!(
            testators.counts(JobId(2), &node("n1")),
            "it did not lead this one before"
        );
        assert!(testators.counts(JOB, &node("n2")));
        assert!(testators.trust(&node("n1")), "it is asked again");
        assert!(testators.counts(JOB, &node("n1")) && !testators.is_orphan(JOB));
        assert!(!doubting().trust(&node("n1")), "it said nothing");
    }

    #[test]
    fn a_new_node_is_never_believed_about_jobs_of_the_one_before_it() {
        let mut testators = doubting();
        let led_by_now = BTreeSet::from([JOB, JobId(2)]);
        let buried = testators.bury(&node("n1"), led_by_now);
        assert_eq!(buried, BTreeSet::from([JOB]), "the new one leads the other");
        assert!(!testators.counts(JOB, &node("n1")) && testators.counts(JobId(2), &node("n1")));
        testators.doubt(&node("n1"), BTreeSet::from([JOB]));
        assert!(!testators.trust(&node("n1")), "there is nothing to doubt");
        assert!(testators.is_dead(JOB, &node("n1")) && !testators.is_dead(JOB, &node("n2")));
    }

    #[test]
    fn a_job_that_is_led_again_is_no_orphan() {
        let mut testators = doubting();
        testators.bury(&node("n1"), BTreeSet::new());
        assert!(testators.is_orphan(JOB));
        testators.on_led(JOB, &node("n2"));
        assert!(!testators.is_orphan(JOB) && testators.may_lead(JOB, &node("n2")));
        assert!(!testators.may_lead(JOB, &node("n1")));
        testators.on_led(JOB, &node("n1"));
        assert!(testators.may_lead(JOB, &node("n1")), "it inherits the job");
        testators.forget(JOB);
        assert!(testators.may_lead(JOB, &node("n2")));
    }
}
