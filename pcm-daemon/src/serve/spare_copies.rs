//! Memory of copies that are no longer needed, for those to come: fresh pages cost more than what is copied into them.
//! Never keeps more of a job than it has copies here, and nothing that anybody else may still read.

use super::beside::drop_beside;
use super::memory::Memory;
use pcm_proto::ids::JobId;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct SpareCopies {
    of_jobs: BTreeMap<JobId, Vec<Memory>>,
}

impl SpareCopies {
    /// Memory for a copy of this length.
    pub(super) fn take(&mut self, job: JobId, bytes: u64) -> io::Result<Memory> {
        let spares = self.of_jobs.entry(job).or_default();
        if let Some(place) = spares.iter().position(|spare| spare.bytes() == bytes) {
            return Ok(spares.remove(place));
        }
        // Its place is taken by the new one.
        let outgrown = spares.drain(..spares.len().min(1));
        drop_beside(outgrown.collect());
        Memory::new(bytes)
    }

    /// A copy is no longer needed.
    pub(super) fn put(&mut self, job: JobId, memory: Arc<Memory>) {
        if let Ok(alone) = Arc::try_unwrap(memory) {
            self.of_jobs.entry(job).or_default().push(alone);
        }
    }

    /// Keeps as many as the job has copies, the last that came.
    pub(super) fn limit(&mut self, job: JobId, copies: usize) {
        let Some(spares) = self.of_jobs.get_mut(&job) else {
            return;
        };
        let over = spares.drain(..spares.len().saturating_sub(copies));
        drop_beside(over.collect());
        if spares.is_empty() {
            self.of_jobs.remove(&job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(1);

    fn spare(spares: &mut SpareCopies, bytes: u64) -> i32 {
        use std::os::fd::AsRawFd;
        let memory = Memory::new(bytes).unwrap();
        let number = memory.file().as_raw_fd();
        spares.put(JOB, Arc::new(memory));
        number
    }

    fn taken(spares: &mut SpareCopies, job: JobId, bytes: u64) -> i32 {
        use std::os::fd::AsRawFd;
        let memory = spares.take(job, bytes).unwrap();
        let number = memory.file().as_raw_fd();
        // Stays open, so that no other gets its number.
        std::mem::forget(memory);
        number
    }

    #[test]
    fn memory_of_the_same_length_and_job_is_used_again() {
        let mut spares = SpareCopies::default();
        let (first, second) = (spare(&mut spares, 100), spare(&mut spares, 200));
        assert_ne!(taken(&mut spares, JobId(2), 200), second);
        assert_eq!(taken(&mut spares, JOB, 200), second);
        assert_eq!(taken(&mut spares, JOB, 100), first);
        assert!(![first, second].contains(&taken(&mut spares, JOB, 100)));
    }

    #[test]
    fn memory_of_another_length_makes_room() {
        let mut spares = SpareCopies::default();
        spare(&mut spares, 100);
        taken(&mut spares, JOB, 200);
        assert!(spares.of_jobs[&JOB].is_empty());
    }

    #[test]
    fn what_is_still_read_is_no_spare() {
        let mut spares = SpareCopies::default();
        let memory = Arc::new(Memory::new(100).unwrap());
        spares.put(JOB, Arc::clone(&memory));
        assert!(spares.of_jobs.is_empty());
    }

    #[test]
    fn a_job_has_no_more_spares_than_copies() {
        let mut spares = SpareCopies::default();
        let (_, last) = (spare(&mut spares, 100), spare(&mut spares, 100));
        spares.limit(JOB, 1);
        assert_eq!(taken(&mut spares, JOB, 100), last);
        spare(&mut spares, 100);
        spares.limit(JOB, 0);
        assert!(spares.of_jobs.is_empty());
    }
}
