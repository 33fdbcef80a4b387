//! Output and standard input of the ranks here, between the coordinator of their job and their pipes.

use crate::job::participant::Input;
use crate::node::machine::Node;
use crate::node::timer::Timer;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::peer::StreamToCoordinator;
use std::time::Duration;

/// Pipes of a job whose processes are gone are read to their end at once; one that is still open is held by something
/// that is not of the job any more.
const PIPES_CLOSE_WITHIN: Duration = Duration::from_secs(2);

impl Node {
    /// A rank printed something.
    pub(in crate::node) fn on_printed(&mut self, key: ProcessKey, stream: Stream, bytes: Vec<u8>) {
        if let Some((part, local)) = self.jobs.local_with(key.job) {
            let (of, coordinator) = ((key.process, stream), part.coordinator());
            local.output.on_lines(of, bytes, coordinator, &mut self.out);
        }
    }

    /// One of the streams of a rank ended.
    pub(in crate::node) fn on_printed_all(&mut self, key: ProcessKey, stream: Stream) {
        if let Some(part) = self.jobs.local_mut(key.job) {
            part.output.on_end(key.process, stream);
            self.forget_if_done(key.job, key.process);
            self.clear_if_done(key.job);
        }
    }

    pub(in crate::node) fn on_part_output_taken(&mut self, job: JobId, process: ProcessId, stream: Stream, bytes: u64) {
        if let Some(part) = self.jobs.local_mut(job) {
            part.output.on_taken(process, stream, bytes, &mut self.out);
            self.clear_if_done(job);
        }
    }

    /// The coordinator wants what was not taken once more.
    pub(in crate::node) fn on_output_from(&mut self, job: JobId, from: &[(ProcessId, Stream, u64)]) {
        let Some((part, local)) = self.jobs.local_with(job) else {
            return;
        };
        let coordinator = part.coordinator();
        local.output.on_asked_from(from, coordinator, &mut self.out);
        self.clear_if_done(job);
    }

    /// No process is left; output may be.
    pub(in crate::node) fn on_part_emptied(&mut self, job: JobId) {
        self.out.arm(PIPES_CLOSE_WITHIN, Timer::OutputEnd(job));
        self.clear_if_done(job);
    }

    pub(in crate::node) fn on_output_end_timer(&mut self, job: JobId) {
        let Some(part) = self.jobs.local_mut(job) else { return };
        part.output.end_all();
        for process in part.ranks.processes().collect::<Vec<_>>() {
            self.forget_if_done(job, process);
        }
        self.clear_if_done(job);
    }

    fn clear_if_done(&mut self, job: JobId) {
        let Some((part, local)) = self.jobs.local_with(job) else {
            return;
        };
        if part.is_emptied() && local.output.is_done() {
            self.participate(job, Input::OutputTaken);
        }
    }

    /// The coordinator sends standard input.
    pub(in crate::node) fn on_part_stdin(&mut self, job: JobId, offset: u64, bytes: Vec<u8>) {
        if let Some(part) = self.jobs.local_mut(job) {
            part.stdin.on_piece(offset, bytes, &mut self.out);
        }
    }

    pub(in crate::node) fn on_stdin_taken(&mut self, job: JobId, bytes: u64) {
        let Some(part) = self.jobs.part(job) else { return };
        let coordinator = part.coordinator().clone();
        self.send_job(&coordinator, job, StreamToCoordinator::StdinTaken { bytes });
    }
}
