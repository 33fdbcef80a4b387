//! Messages about jobs that arrive before the order to start the job. Holds a limited number of them; never reads one.

use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::JobMessage;
use std::collections::BTreeMap;

/// Most messages of one job, and most jobs: an order to start is a fraction of a second behind its first messages.
const MESSAGES_MAX: usize = 4096;
const JOBS_MAX: usize = 64;

/// Early messages, by job.
#[derive(Debug, Default)]
pub struct EarlyMessages(BTreeMap<JobId, Vec<(NodeName, JobMessage)>>);

impl EarlyMessages {
    /// Holds a message until the order to start its job arrives; beyond the limits messages are dropped.
    pub fn hold(&mut self, job: JobId, node: NodeName, message: JobMessage) {
        if self.0.len() >= JOBS_MAX && !self.0.contains_key(&job) {
            self.0.pop_first();
        }
        let held = self.0.entry(job).or_default();
        if held.len() < MESSAGES_MAX {
            held.push((node, message));
        }
    }

    /// The messages of a job whose order to start has arrived, in their order.
    pub fn take(&mut self, job: JobId) -> Vec<(NodeName, JobMessage)> {
        self.0.remove(&job).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::peer::StreamToCoordinator;

    fn stdin_taken(bytes: u64) -> JobMessage {
        JobMessage::StreamToCoordinator(StreamToCoordinator::StdinTaken { bytes })
    }

    #[test]
    fn early_messages_come_back_once_in_order_and_are_limited() {
        let node = NodeName::new("n1").unwrap();
        let mut early = EarlyMessages::default();
        for bytes in 0..MESSAGES_MAX as u64 + 5 {
            early.hold(JobId(1), node.clone(), stdin_taken(bytes));
        }
        let held = early.take(JobId(1));
        assert_eq!(held.len(), MESSAGES_MAX);
        assert_eq!(held[1].1, stdin_taken(1));
        assert_eq!(early.take(JobId(1)), []);
        for job in 0..JOBS_MAX as u64 + 1 {
            early.hold(JobId(job), node.clone(), stdin_taken(0));
        }
        assert_eq!(early.take(JobId(0)), [], "the oldest job makes room");
        assert_eq!(early.take(JobId(JOBS_MAX as u64)).len(), 1);
    }
}
