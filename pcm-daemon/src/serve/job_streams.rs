//! Output and standard input of the jobs coordinated here, between their nodes and their readers.

use super::coordinating::{Audience, Coordinated};
use super::daemon::Daemon;
use pcm_core::node::outbox::Outbox;
use pcm_core::node::streams::JobView;
use pcm_core::node::streams::effect::Filed;
use pcm_core::node::streams::job_output::JobOutput;
use pcm_core::node::streams::job_stdin::JobStdin;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::{OutputPiece, StreamToNode};

impl Coordinated {
    /// The streams, and what they need to know of their job.
    fn streams(&mut self) -> (&mut JobOutput, &mut JobStdin, JobView<'_>) {
        let view = JobView {
            coordinator: &self.state,
            reader: match self.audience {
                Audience::Attached(link) => Some(link),
                _ => None,
            },
        };
        (&mut self.output, &mut self.stdin, view)
    }
}

impl Daemon {
    fn with_output(&mut self, job: JobId, act: impl FnOnce(&mut JobOutput, JobView<'_>, &mut Outbox)) {
        if let Some(coordinated) = self.jobs.get_mut(&job) {
            let (output, _, view) = coordinated.streams();
            act(output, view, &mut self.out);
        }
    }

    fn with_stdin(&mut self, job: JobId, act: impl FnOnce(&mut JobStdin, JobView<'_>, &mut Outbox)) {
        if let Some(coordinated) = self.jobs.get_mut(&job) {
            let (_, stdin, view) = coordinated.streams();
            act(stdin, view, &mut self.out);
        }
    }

    /// A node sends output; that of a job that is over has no reader.
    pub(super) fn on_output_piece(&mut self, job: JobId, node: &NodeName, piece: OutputPiece) {
        if self.jobs.contains_key(&job) {
            return self.with_output(job, |output, view, out| output.on_piece(node, piece, view, out));
        }
        let taken = StreamToNode::OutputTaken {
            process: piece.process,
            stream: piece.stream,
            bytes: piece.offset + piece.bytes.len() as u64,
        };
        self.send_job(node, job, taken);
    }

    /// Passes on what may be passed on.
    pub(super) fn pump_output(&mut self, job: JobId) {
        self.with_output(job, JobOutput::pump);
    }

    /// The reader took output.
    pub(super) fn on_output_taken(&mut self, job: JobId, process: ProcessId, stream: Stream, bytes: u64) {
        self.with_output(job, |output, view, out| {
            output.on_taken(process, stream, bytes, view, out);
        });
    }

    pub(super) fn on_filed(&mut self, job: JobId, pieces: &[Filed]) {
        self.with_output(job, |output, view, out| output.on_filed(pieces, view, out));
    }

    /// Asks one node, or all, for the output that has not come.
    pub(super) fn ask_output(&mut self, job: JobId, node: Option<&NodeName>) {
        self.with_output(job, |output, view, out| output.ask(node, view, out));
    }

    /// From now on all output is dropped, so that no rank waits for a reader that is gone.
    pub(super) fn discard_output(&mut self, job: JobId) {
        self.with_output(job, JobOutput::discard);
    }

    /// The job is over: what is still here goes out.
    pub(super) fn finish_output(&mut self, job: JobId) {
        self.with_output(job, JobOutput::finish);
    }

    /// An attached `pcmctl` sends standard input.
    pub(super) fn on_stdin(&mut self, job: JobId, bytes: Vec<u8>) {
        self.with_stdin(job, |stdin, view, out| stdin.on_piece(bytes, view, out));
    }

    /// Passes on the input that waits, once the first process is there.
    pub(super) fn pass_stdin(&mut self, job: JobId) {
        self.with_stdin(job, JobStdin::pass);
    }

    /// The first rank took standard input.
    pub(super) fn on_job_stdin_taken(&mut self, job: JobId, bytes: u64) {
        self.with_stdin(job, |stdin, view, out| stdin.on_taken(bytes, view, out));
    }
}
