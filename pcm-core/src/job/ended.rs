//! Jobs that ended, remembered for an hour and up to a count, so that `jobs` can tell how they ended.

use pcm_proto::ids::JobId;
use pcm_proto::job::JobStatus;
use std::collections::VecDeque;

/// How long an ended job is remembered, as `pcmctl jobs` promises.
pub const REMEMBER_US: u64 = 3600 * 1_000_000;

/// Most ended jobs remembered; one status is below a kilobyte for a job on ten nodes.
pub const REMEMBER_MAX: usize = 1000;

/// Ended jobs, oldest first.
#[derive(Debug, Default)]
pub struct Ended {
    jobs: VecDeque<(u64, JobStatus)>,
}

impl Ended {
    /// Remembers a job that ended at `now_us`.
    pub fn remember(&mut self, now_us: u64, status: JobStatus) {
        self.jobs.push_back((now_us, status));
        self.forget_old(now_us);
    }

    /// The job with this number.
    pub fn find(&self, job: JobId) -> Option<&JobStatus> {
        self.jobs
            .iter()
            .map(|(_, status)| status)
            .find(|status| status.job == job)
    }

    /// Those that were not led by their first coordinator, with the reign of their last.
    pub fn inherited(&self) -> Vec<(JobId, u32)> {
        let inherited = self.jobs.iter().filter(|(_, status)| status.reign > 0);
        inherited.map(|(_, status)| (status.job, status.reign)).collect()
    }

    /// Another coordinator led the job, and knows how it ended, or leads it still.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.retain(|(_, status)| status.job != job);
    }

    /// All that are still remembered.
    pub fn list(&mut self, now_us: u64) -> impl Iterator<Item = &JobStatus> {
        self.forget_old(now_us);
        self.jobs.iter().map(|(_, status)| status)
    }

    fn forget_old(&mut self, now_us: u64) {
        while let Some((ended_us, _)) = self.jobs.front() {
            if self.jobs.len() <= REMEMBER_MAX && now_us.saturating_sub(*ended_us) <= REMEMBER_US {
                break;
            }
            self.jobs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, NodeName};
    use pcm_proto::job::JobState;

    fn status(job: u64) -> JobStatus {
        JobStatus {
            job: JobId(job),
            name: "a".into(),
            state: JobState::Ended,
            epoch: Epoch(0),
            size: 1,
            nodes: Vec::new(),
            started_us: 0,
            end: None,
            coordinator: NodeName::new("n0").unwrap(),
            reign: 0,
            spares: Vec::new(),
        }
    }

    #[test]
    fn an_ended_job_is_forgotten_after_an_hour() {
        let mut ended = Ended::default();
        ended.remember(0, status(1));
        ended.remember(10, status(2));
        assert!(ended.find(JobId(1)).is_some());
        assert_eq!(ended.list(REMEMBER_US + 1).map(|s| s.job.0).collect::<Vec<_>>(), [2]);
        assert!(ended.find(JobId(1)).is_none());
    }

    #[test]
    fn an_end_that_another_knows_better_is_forgotten() {
        let mut ended = Ended::default();
        ended.remember(0, status(1));
        ended.remember(0, status(2));
        ended.forget(JobId(1));
        assert!(ended.find(JobId(1)).is_none() && ended.find(JobId(2)).is_some());
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let mut ended = Ended::default();
        for job in 0..REMEMBER_MAX as u64 + 5 {
            ended.remember(job, status(job));
        }
        assert_eq!(ended.list(0).count(), REMEMBER_MAX);
        assert!(ended.find(JobId(4)).is_none() && ended.find(JobId(5)).is_some());
    }
}
