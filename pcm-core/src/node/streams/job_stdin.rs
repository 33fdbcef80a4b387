//! Standard input of a job at its coordinator: from the attached `pcmctl` to the node of the first process.

use super::JobView;
use crate::node::outbox::Outbox;
use pcm_proto::control::{DaemonToControl, STDIN_WINDOW_BYTES};
use pcm_proto::ids::JobId;
use pcm_proto::job::JobState;
use pcm_proto::peer::StreamToNode;
use std::collections::VecDeque;

/// Standard input on its way.
#[derive(Debug)]
pub struct JobStdin {
    job: JobId,
    /// Bytes that came from `pcmctl`.
    came: u64,
    /// Bytes the first rank took.
    taken: u64,
    /// Pieces that came before the job was started.
    waiting: VecDeque<(u64, Vec<u8>)>,
}

impl JobStdin {
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            came: 0,
            taken: 0,
            waiting: VecDeque::new(),
        }
    }

    /// An attached `pcmctl` sends standard input; an empty piece is its end.
    pub fn on_piece(&mut self, bytes: Vec<u8>, view: JobView<'_>, out: &mut Outbox) {
        let length = bytes.len() as u64;
        if self.came + length > self.taken + STDIN_WINDOW_BYTES {
            tracing::warn!(job = %self.job, "standard input beyond its window is dropped");
            return;
        }
        self.waiting.push_back((self.came, bytes));
        self.came += length;
        self.pass(view, out);
    }

    /// Passes on what waits, once the first process is there.
    pub fn pass(&mut self, view: JobView<'_>, out: &mut Outbox) {
        if view.coordinator.status().state == JobState::Starting {
            return;
        }
        let Some((_, node)) = view.coordinator.stdin_process() else {
            return;
        };
        for (offset, bytes) in std::mem::take(&mut self.waiting) {
            out.send_job(node, self.job, StreamToNode::Stdin { offset, bytes });
        }
    }

    /// The first rank took standard input.
    pub fn on_taken(&mut self, bytes: u64, view: JobView<'_>, out: &mut Outbox) {
        self.taken = self.taken.max(bytes);
        if let Some(link) = view.reader {
            out.control(link, DaemonToControl::StdinTaken { bytes });
        }
    }
}
