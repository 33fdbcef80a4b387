//! Standard input of a job at its coordinator: from the attached `pcmctl` to the node of the first process.

use super::coordinating::Audience;
use super::daemon::Daemon;
use pcm_core::node::requester::Requester;
use pcm_proto::control::{DaemonToControl, STDIN_WINDOW_BYTES};
use pcm_proto::ids::JobId;
use pcm_proto::job::JobState;
use pcm_proto::peer::StreamToNode;
use std::collections::VecDeque;

/// Standard input on its way.
#[derive(Debug, Default)]
pub(super) struct JobStdin {
    /// Bytes that came from `pcmctl`.
    came: u64,
    /// Bytes the first rank took.
    taken: u64,
    /// Pieces that came before the job was started.
    waiting: VecDeque<(u64, Vec<u8>)>,
}

impl Daemon {
    /// An attached `pcmctl` sends standard input.
    pub(super) fn on_stdin(&mut self, job: JobId, bytes: Vec<u8>) {
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return;
        };
        let stdin = &mut coordinated.stdin;
        if stdin.came + bytes.len() as u64 > stdin.taken + STDIN_WINDOW_BYTES {
            tracing::warn!(%job, "standard input beyond its window is dropped");
            return;
        }
        stdin.waiting.push_back((stdin.came, bytes));
        stdin.came += stdin.waiting.back().map_or(0, |(_, bytes)| bytes.len() as u64);
        self.pass_stdin(job);
    }

    /// Passes on what waits, once the first process is there.
    pub(super) fn pass_stdin(&mut self, job: JobId) {
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return;
        };
        if coordinated.state.status().state == JobState::Starting {
            return;
        }
        let Some((_, node)) = coordinated.state.stdin_process() else {
            return;
        };
        let node = node.clone();
        for (offset, bytes) in std::mem::take(&mut coordinated.stdin.waiting) {
            self.send_job(&node, job, StreamToNode::Stdin { offset, bytes });
        }
    }

    /// The first rank took standard input.
    pub(super) fn on_job_stdin_taken(&mut self, job: JobId, bytes: u64) {
        let Some(coordinated) = self.jobs.get_mut(&job) else {
            return;
        };
        coordinated.stdin.taken = coordinated.stdin.taken.max(bytes);
        if let Audience::Attached(link) = coordinated.audience {
            self.answer(Requester::Control(link), DaemonToControl::StdinTaken { bytes });
        }
    }
}
