//! Which image of which job.

use crate::node::record::PartKey;
use pcm_proto::ids::{CheckpointId, JobId};
use pcm_proto::image::ImageName;
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::Attempt;

/// An image of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageKey {
    pub job: JobId,
    pub name: ImageName,
}

impl ImageKey {
    /// For which attempt it was parked; none of a checkpoint.
    pub fn attempt(self) -> Option<Attempt> {
        match self.name {
            ImageName::Parked { attempt, .. } => Some(attempt),
            ImageName::Part { .. } => None,
        }
    }

    /// Whether it is of a checkpoint of the job from before this one.
    pub(super) fn is_older(self, job: JobId, settled: CheckpointId) -> bool {
        self.job == job && matches!(self.name, ImageName::Part { id, .. } if id < settled)
    }
}

impl From<PartKey> for ImageKey {
    fn from((job, id, rank): PartKey) -> Self {
        let name = ImageName::Part { id, rank };
        Self { job, name }
    }
}

impl From<ParkKey> for ImageKey {
    fn from(ParkKey { job, attempt, process }: ParkKey) -> Self {
        let name = ImageName::Parked { attempt, process };
        Self { job, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, ProcessId, Rank, Term};

    #[test]
    fn only_parts_of_earlier_checkpoints_of_the_same_job_are_older() {
        let part = |id| ImageName::Part {
            id: CheckpointId(id),
            rank: Rank(0),
        };
        let attempt = Attempt {
            epoch: Epoch(1),
            term: Term(1),
            number: 1,
        };
        let process = ProcessId(0);
        let parked = ImageName::Parked { attempt, process };
        let (job, settled) = (JobId(1), CheckpointId(5));
        let older = [part(4), part(5), part(6), parked].map(|name| ImageKey { job, name }.is_older(job, settled));
        assert_eq!(older, [true, false, false, false]);
        let of_other = ImageKey {
            job: JobId(2),
            name: part(4),
        };
        assert!(!of_other.is_older(job, settled));
    }
}
