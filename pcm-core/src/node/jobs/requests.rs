//! What `pcmctl` wants of jobs that this node leads, and their streams.

use super::led::Led;
use super::table::Table;
use crate::job::coordinator::Input;
use crate::node::context::Context;
use crate::node::requester::{LinkId, Requester};
use crate::node::streams::effect::Filed;
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::control::{DaemonToControl, Stream};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::{CoordinatorToNode, OutputPiece, StreamToNode};
use pcm_proto::refusal;

/// Highest signal number Linux has.
const SIGNAL_MAX: i32 = 64;

impl Table {
    /// An event about a job that hangs, if it does.
    pub(in crate::node) fn note_hang(&mut self, job: JobId, hang: Option<EventKind>, cx: &mut Context<'_>) {
        if let Some(kind) = hang
            && let Some((coordinator, led)) = self.led_with(job)
        {
            led.on_note(kind, coordinator, cx);
        }
    }

    /// A checkpoint is wanted now.
    pub(in crate::node) fn on_checkpoint_request(
        &mut self,
        from: Requester,
        job: JobId,
        into: Option<IntoFiles>,
        cx: &mut Context<'_>,
    ) {
        match self.led_with(job) {
            Some((coordinator, led)) => led.leading.on_request(from, into, coordinator, cx),
            None => self.past.refuse_unknown(from, job, cx),
        }
    }

    /// A `pcmctl` comes back to its job.
    pub(in crate::node) fn on_attach(
        &mut self,
        from: Requester,
        job: JobId,
        received: Vec<(ProcessId, Stream, u64)>,
        cx: &mut Context<'_>,
    ) {
        let Requester::Control(link) = from else { return };
        match self.led_with(job) {
            Some((coordinator, led)) => led.on_attach(link, received, coordinator, cx),
            None => self.past.refuse_unknown(from, job, cx),
        }
    }

    /// A link of `pcmctl` ended.
    pub(in crate::node) fn on_link_lost(&mut self, link: LinkId, in_order: bool, cx: &mut Context<'_>) {
        let Some(job) = self.attached(link) else { return };
        let on_lost =
            |led: &mut Led, coordinator: &_, cx: &mut Context<'_>| led.on_link_lost(link, in_order, coordinator, cx);
        self.with_led(job, on_lost, cx);
    }

    /// A job is to be ended at once.
    pub(in crate::node) fn on_kill(&mut self, from: Requester, job: JobId, cx: &mut Context<'_>) {
        let link = match from {
            Requester::Control(link) => Some(link),
            _ => None,
        };
        let end = |led: &mut Led, coordinator: &_, cx: &mut Context<'_>| {
            let is_own = link.is_some() && led.attachment.link() == link;
            if is_own {
                // A requester that ends its own job does not wait for the output that it has stopped to take.
                led.output(coordinator, |output, view| output.discard(view, cx.out));
            }
            let by = if is_own { "its `pcmctl run`" } else { "`pcmctl kill`" };
            let reason = format!("it was ended by {by}");
            Some(Input::End { code: 137, reason })
        };
        match self.with_led(job, end, cx) {
            true => cx.answer(from, DaemonToControl::Done),
            false => self.past.refuse_unknown(from, job, cx),
        }
    }

    /// All processes of a job are to have a signal.
    pub(in crate::node) fn on_signal(&mut self, from: Requester, job: JobId, signal: i32, cx: &mut Context<'_>) {
        if !(1..=SIGNAL_MAX).contains(&signal) {
            let message = format!("{signal} is no signal: `kill -l` lists them");
            return cx.refuse(from, refusal::BAD_SIGNAL, message);
        }
        let Some(coordinator) = self.coordinator(job) else {
            return self.past.refuse_unknown(from, job, cx);
        };
        for node in coordinator.active_nodes() {
            cx.send_job(node, job, CoordinatorToNode::Signal { signal });
        }
        cx.answer(from, DaemonToControl::Done);
    }

    /// A node sends output; that of a job that is over has no reader.
    pub(super) fn on_output_piece(&mut self, job: JobId, node: &NodeName, piece: OutputPiece, cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.led_with(job) {
            return led.output(coordinator, |output, view| output.on_piece(node, piece, view, cx.out));
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
        let job = self.attached(link);
        if let Some((coordinator, led)) = job.and_then(|job| self.led_with(job)) {
            led.output(coordinator, |output, view| {
                output.on_taken(process, stream, bytes, view, cx.out);
            });
        }
    }

    /// Output was written to files.
    pub(in crate::node) fn on_filed(&mut self, job: JobId, pieces: &[Filed], cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.led_with(job) {
            led.output(coordinator, |output, view| output.on_filed(pieces, view, cx.out));
        }
    }

    /// An attached `pcmctl` sends standard input.
    pub(in crate::node) fn on_stdin(&mut self, link: LinkId, bytes: Vec<u8>, cx: &mut Context<'_>) {
        let job = self.attached(link);
        if let Some((coordinator, led)) = job.and_then(|job| self.led_with(job)) {
            led.stdin(coordinator, |stdin, view| stdin.on_piece(bytes, view, cx.out));
        }
    }
}
