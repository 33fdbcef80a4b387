//! Numbers of jobs. The first node by name numbers all jobs of the cluster, one after the other. A node that is cut off
//! from it has a range of its own, so that no two jobs share a number when the cluster is whole again; its numbers are
//! long, and do not count for the others.

use super::record::Record;
use pcm_proto::fnv::fnv1a;
use pcm_proto::ids::{JobId, NodeName};

/// Numbers of each node's own range, and the first number of any.
const RANGE: u64 = 1_000_000;

/// Ranges; two nodes that are cut off at one time hardly ever have the same.
const RANGES: u64 = 10_000;

/// Numbers that a node may give before it notices that it is cut off, in a second or two.
const UNHEARD_MAX: u64 = 100;

/// The highest numbers that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    highest: JobId,
    /// The same in the node's own range.
    apart: JobId,
}

impl Numbers {
    pub fn new(own: &NodeName) -> Self {
        let range = 1 + fnv1a(own.as_str().bytes()) % RANGES;
        Self {
            highest: JobId(0),
            apart: JobId(range * RANGE),
        }
    }

    /// The highest number in the order of the cluster.
    pub fn highest(&self) -> JobId {
        self.highest
    }

    /// Takes note of a number; whether it is news.
    pub fn note(&mut self, job: JobId) -> bool {
        let highest = match job.0 < RANGE {
            true => &mut self.highest,
            false if job.0 / RANGE == self.apart.0 / RANGE => &mut self.apart,
            false => return false,
        };
        let is_higher = job > *highest;
        *highest = job.max(*highest);
        is_higher
    }

    /// The next number in the order of the cluster.
    pub(in crate::node) fn next(&self) -> JobId {
        JobId(self.highest.0 + 1)
    }

    /// The node that gave the numbers before was lost: it may have given some that were not heard of.
    pub(in crate::node) fn skip(&mut self) -> JobId {
        self.highest = JobId(self.highest.0 + UNHEARD_MAX);
        self.highest
    }

    /// The next number for a node that is cut off.
    pub(in crate::node) fn next_apart(&self) -> JobId {
        JobId(self.apart.0 + 1)
    }

    /// What a successor has to know.
    pub(in crate::node) fn records(&self) -> [Record; 2] {
        [self.highest, self.apart].map(Record::HighestJob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_node_that_was_cut_off_do_not_count_for_others() {
        let (mut own, mut other) = (
            Numbers::new(&NodeName::new("n1").unwrap()),
            Numbers::new(&NodeName::new("n2").unwrap()),
        );
        assert_ne!(own.apart, other.apart);
        let job = JobId(own.apart.0 + 1);
        assert!(own.note(job) && !own.note(job) && !other.note(job));
        assert!(own.note(JobId(7)) && other.note(JobId(7)) && !other.note(JobId(6)));
        assert_eq!((own.highest(), other.highest(), own.apart), (JobId(7), JobId(7), job));
    }
}
