//! Output and standard input of the jobs coordinated here, between their nodes and their readers.

use crate::job::coordinator::Coordinator;
use crate::node::context::Context;
use crate::node::jobs::coordinating::{Audience, Led};
use crate::node::jobs::machine::Jobs;
use crate::node::requester::LinkId;
use crate::node::streams::JobView;
use crate::node::streams::effect::Filed;
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

impl Jobs {
    /// Does something with the streams of a job that is led from here.
    pub(super) fn with_led(&mut self, job: JobId, act: impl FnOnce(&mut Led, JobView<'_>)) {
        if let Some((coordinator, led)) = self.table.led_with(job) {
            let view = view(coordinator, led.audience);
            act(led, view);
        }
    }

    /// A node sends output; that of a job that is over has no reader.
    pub(super) fn on_output_piece(&mut self, job: JobId, node: &NodeName, piece: OutputPiece, cx: &mut Context<'_>) {
        if self.table.leads(job) {
            return self.with_led(job, |led, view| led.output.on_piece(node, piece, view, cx.out));
        }
        let taken = StreamToNode::OutputTaken {
            process: piece.process,
            stream: piece.stream,
            bytes: piece.offset + piece.bytes.len() as u64,
        };
        cx.send_job(node, job, taken);
    }

    /// The reader took output.
    pub(in crate::node) fn on_output_taken(
        &mut self,
        link: LinkId,
        (process, stream, bytes): (ProcessId, Stream, u64),
        cx: &mut Context<'_>,
    ) {
        if let Some(job) = self.attached(link) {
            self.with_led(job, |led, view| {
                led.output.on_taken(process, stream, bytes, view, cx.out);
            });
        }
    }

    /// Output was written to files.
    pub(in crate::node) fn on_filed(&mut self, job: JobId, pieces: &[Filed], cx: &mut Context<'_>) {
        self.with_led(job, |led, view| led.output.on_filed(pieces, view, cx.out));
    }

    /// An attached `pcmctl` sends standard input.
    pub(in crate::node) fn on_stdin(&mut self, link: LinkId, bytes: Vec<u8>, cx: &mut Context<'_>) {
        if let Some(job) = self.attached(link) {
            self.with_led(job, |led, view| led.stdin.on_piece(bytes, view, cx.out));
        }
    }
}
