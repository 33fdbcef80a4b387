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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::node::outbox::Effect;
    use crate::node::requester::LinkId;
    use crate::node::streams::job_output::tests::coordinator;
    use pcm_proto::ids::NodeName;

    fn outbox() -> Outbox {
        Outbox::new(NodeName::new("n0").unwrap(), Moment(0))
    }

    #[test]
    fn input_waits_until_the_job_has_started() {
        let (job, mut out) = (coordinator(), outbox());
        let view = JobView {
            coordinator: &job,
            reader: Some(LinkId(5)),
        };
        let mut stdin = JobStdin::new(JobId(1));
        stdin.on_piece(b"ab".to_vec(), view, &mut out);
        assert!(out.take().is_empty());
        assert_eq!(stdin.waiting, [(0, b"ab".to_vec())]);
    }

    #[test]
    fn input_beyond_its_window_is_dropped_until_the_first_rank_has_taken_some() {
        let (job, mut out) = (coordinator(), outbox());
        let view = JobView {
            coordinator: &job,
            reader: Some(LinkId(5)),
        };
        let mut stdin = JobStdin::new(JobId(1));
        stdin.on_piece(vec![0; STDIN_WINDOW_BYTES as usize], view, &mut out);
        stdin.on_piece(b"a".to_vec(), view, &mut out);
        assert_eq!(stdin.came, STDIN_WINDOW_BYTES);
        stdin.on_taken(1, view, &mut out);
        assert!(matches!(out.take()[..], [Effect::Control { .. }]));
        stdin.on_piece(b"a".to_vec(), view, &mut out);
        assert_eq!(stdin.came, STDIN_WINDOW_BYTES + 1);
    }
}
