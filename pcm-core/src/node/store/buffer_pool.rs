//! Memory of copies that are no longer needed, for those to come: fresh pages cost more than what is copied into them.
//! Never keeps more of a job than it has copies here, and nothing that another process may still read.

use crate::node::memory::MemoryFile;
use pcm_proto::ids::JobId;
use std::collections::BTreeMap;

/// Spare memory by job, the last that came at the end.
#[derive(Debug, Default)]
pub(super) struct BufferPool {
    of_jobs: BTreeMap<JobId, Vec<MemoryFile>>,
}

impl BufferPool {
    /// Memory for a copy of this length; otherwise memory to let go of, whose place the new one takes.
    pub(super) fn take(&mut self, job: JobId, bytes: u64) -> Result<MemoryFile, Option<MemoryFile>> {
        let spares = self.of_jobs.entry(job).or_default();
        match spares.iter().position(|spare| spare.bytes == bytes) {
            Some(place) => Ok(spares.remove(place)),
            None if spares.is_empty() => Err(None),
            None => Err(Some(spares.remove(0))),
        }
    }

    /// A copy is no longer needed.
    pub(super) fn put(&mut self, job: JobId, memory: MemoryFile) {
        self.of_jobs.entry(job).or_default().push(memory);
    }

    /// Keeps as many as the job has copies, the last that came; gives those to let go of.
    pub(super) fn limit(&mut self, job: JobId, copies: usize) -> Vec<MemoryFile> {
        let Some(spares) = self.of_jobs.get_mut(&job) else {
            return Vec::new();
        };
        let over = spares.drain(..spares.len().saturating_sub(copies)).collect();
        if spares.is_empty() {
            self.of_jobs.remove(&job);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::memory::MemoryId;

    const JOB: JobId = JobId(1);

    fn spare(id: u64, bytes: u64) -> MemoryFile {
        let id = MemoryId(id);
        MemoryFile { id, bytes }
    }

    #[test]
    fn memory_of_the_same_length_and_job_is_used_again() {
        let mut pool = BufferPool::default();
        let (first, second) = (spare(1, 100), spare(2, 200));
        pool.put(JOB, first);
        pool.put(JOB, second);
        assert_eq!(pool.take(JobId(2), 200), Err(None));
        assert_eq!(pool.take(JOB, 200), Ok(second));
        assert_eq!(pool.take(JOB, 100), Ok(first));
        assert_eq!(pool.take(JOB, 100), Err(None));
    }

    #[test]
    fn memory_of_another_length_makes_room() {
        let mut pool = BufferPool::default();
        pool.put(JOB, spare(1, 100));
        assert_eq!(pool.take(JOB, 200), Err(Some(spare(1, 100))));
        assert!(pool.of_jobs[&JOB].is_empty());
    }

    #[test]
    fn a_job_has_no_more_spares_than_copies() {
        let mut pool = BufferPool::default();
        pool.put(JOB, spare(1, 100));
        pool.put(JOB, spare(2, 100));
        assert_eq!(pool.limit(JOB, 1), [spare(1, 100)]);
        assert_eq!(pool.limit(JOB, 0), [spare(2, 100)]);
        assert!(pool.of_jobs.is_empty());
    }
}
