//! How far the ranks of a job had come before they are ended here, for the job's coordinator. Only reads their pages.

use super::daemon::Daemon;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::ids::{Iteration, JobId};
use pcm_proto::page::CEILING_NONE;
use std::sync::atomic::Ordering::Relaxed;

impl Daemon {
    /// The ranks of a job are about to be ended: how far they had come.
    pub(super) fn say_reached(&mut self, job: JobId) {
        let Some(part) = self.parts.get(&job) else { return };
        let begun = part.locals.values().map(|local| {
            let progress = &local.handle.page().page().head.progress;
            progress.iteration.load(Relaxed)
        });
        // What a page shows is the iteration begun, plus one; past its last one a rank shows no number.
        let Some(begun) = begun.filter(|begun| *begun != CEILING_NONE && *begun > 0).max() else {
            return;
        };
        let coordinator = part.state.coordinator().clone();
        let iteration = Iteration(begun - 1);
        self.say_checkpoint(&coordinator, job, CheckpointMessage::Reached { iteration });
    }
}
