//! Checkpoints in files, on a disk that all nodes share.

use super::image::Data;
use pcm_proto::ids::JobId;
use std::collections::BTreeMap;

/// What one checkpoint in files holds.
#[derive(Clone, Debug, Default)]
struct Draft {
    parts: BTreeMap<u32, Data>,
    ranks: u32,
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Files {
    drafts: BTreeMap<DraftOf, Draft>,
    whole: BTreeMap<Vec<u8>, (u64, Data)>,
}

/// The checkpoint that a life of a job makes of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DraftOf {
    pub(super) job: JobId,
    pub(super) generation: u32,
    pub(super) iteration: u64,
}

/// Where the checkpoint of an iteration goes.
pub(super) fn directory(job: JobId, iteration: u64) -> Vec<u8> {
    format!("/files/{job}/{iteration}").into_bytes()
}

impl Files {
    /// A rank writes its part.
    pub(super) fn write(&mut self, of: DraftOf, (rank, ranks): (u32, u32), data: Data) {
        let draft = self.drafts.entry(of).or_default();
        draft.ranks = ranks;
        draft.parts.insert(rank, data);
    }

    /// All parts are to be there; whether they are.
    pub(super) fn publish(&mut self, of: DraftOf) -> bool {
        let Some(draft) = self.drafts.remove(&of) else {
            return false;
        };
        if draft.parts.len() != draft.ranks as usize {
            return false;
        }
        let data = draft.parts.into_values().flatten().collect();
        self.whole.insert(directory(of.job, of.iteration), (of.iteration, data));
        true
    }

    pub(super) fn read(&self, directory: &[u8]) -> Option<&(u64, Data)> {
        self.whole.get(directory)
    }

    /// The newest checkpoint of a job that is whole.
    pub(super) fn newest(&self, job: JobId) -> Option<u64> {
        let prefix = format!("/files/{job}/").into_bytes();
        let of_job = self.whole.iter().filter(|(path, _)| path.starts_with(&prefix));
        of_job.map(|(_, (iteration, _))| *iteration).max()
    }
}
