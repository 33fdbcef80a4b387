//! Output and standard input of the jobs coordinated here, between their nodes and their readers.

use crate::job::coordinator::Coordinator;
use crate::node::jobs::coordinating::Audience;
use crate::node::machine::Node;
use crate::node::outbox::Outbox;
use crate::node::streams::JobView;
use crate::node::streams::effect::Filed;
use crate::node::streams::job_output::JobOutput;
use crate::node::streams::job_stdin::JobStdin;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::{OutputPiece, StreamToNode};

/// What the streams need to know of their job.
fn view(coordinator: &Coordinator, audience: Audience) -> JobView<'_> {
    JobView {
        coordinator,
        reader: match audience {
            Audience::Attached(link) => Some(link),
            _ => None,
        },
    }
}

impl Node {
    fn with_output(&mut self, job: JobId, act: impl FnOnce(&mut JobOutput, JobView<'_>, &mut Outbox)) {
        if let Some((coordinator, led)) = self.jobs.led_with(job) {
            act(&mut led.output, view(coordinator, led.audience), &mut self.out);
        }
    }

    fn with_stdin(&mut self, job: JobId, act: impl FnOnce(&mut JobStdin, JobView<'_>, &mut Outbox)) {
        if let Some((coordinator, led)) = self.jobs.led_with(job) {
            act(&mut led.stdin, view(coordinator, led.audience), &mut self.out);
        }
    }

    /// A node sends output; that of a job that is over has no reader.
    pub(in crate::node) fn on_output_piece(&mut self, job: JobId, node: &NodeName, piece: OutputPiece) {
        if self.jobs.leads(job) {
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
    pub(in crate::node) fn pump_output(&mut self, job: JobId) {
        self.with_output(job, JobOutput::pump);
    }

    /// The reader took output.
    pub(in crate::node) fn on_output_taken(&mut self, job: JobId, process: ProcessId, stream: Stream, bytes: u64) {
        self.with_output(job, |output, view, out| {
            output.on_taken(process, stream, bytes, view, out);
        });
    }

    pub(in crate::node) fn on_filed(&mut self, job: JobId, pieces: &[Filed]) {
        self.with_output(job, |output, view, out| output.on_filed(pieces, view, out));
    }

    /// Asks one node, or all, for the output that has not come.
    pub(in crate::node) fn ask_output(&mut self, job: JobId, node: Option<&NodeName>) {
        self.with_output(job, |output, view, out| output.ask(node, view, out));
    }

    /// From now on all output is dropped, so that no rank waits for a reader that is gone.
    pub(in crate::node) fn discard_output(&mut self, job: JobId) {
        self.with_output(job, JobOutput::discard);
    }

    /// The job is over: what is still here goes out.
    pub(in crate::node) fn finish_output(&mut self, job: JobId) {
        self.with_output(job, JobOutput::finish);
    }

    /// An attached `pcmctl` sends standard input.
    pub(in crate::node) fn on_stdin(&mut self, job: JobId, bytes: Vec<u8>) {
        self.with_stdin(job, |stdin, view, out| stdin.on_piece(bytes, view, out));
    }

    /// Passes on the input that waits, once the first process is there.
    pub(in crate::node) fn pass_stdin(&mut self, job: JobId) {
        self.with_stdin(job, JobStdin::pass);
    }

    /// The first rank took standard input.
    pub(in crate::node) fn on_job_stdin_taken(&mut self, job: JobId, bytes: u64) {
        self.with_stdin(job, |stdin, view, out| stdin.on_taken(bytes, view, out));
    }
}
