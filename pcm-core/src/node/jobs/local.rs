//! What belongs to the processes of a job here, beside the job's machine: the processes, and their streams.

use super::table::Job;
use crate::job::participant::Input;
use crate::node::context::Context;
use crate::node::event::Held;
use crate::node::outbox::Outbox;
use crate::node::pmix::part::PmixPart;
use crate::node::ranks::local::LocalRanks;
use crate::node::requester::Requester;
use crate::node::streams::part_output::PartOutput;
use crate::node::streams::part_stdin::PartStdin;
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::{StreamToCoordinator, StreamToNode};
use pcm_proto::reconfiguration::Attempt;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pipes of a job whose processes are gone are read to their end at once; one that is still open is held by something
/// that is not of the job any more.
const PIPES_CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What belongs to the processes of a job here, beside its machine.
#[derive(Debug)]
pub(in crate::node) struct Local {
    pub(in crate::node) ranks: LocalRanks,
    pub(in crate::node) output: PartOutput,
    pub(in crate::node) stdin: PartStdin,
    /// Where its ranks call Open MPI.
    pub(in crate::node) pmix: Option<PmixPart>,
    /// Requesters of reconfigurations that are under way.
    pub(in crate::node) requesters: BTreeMap<Attempt, Requester>,
}

impl Local {
    pub(in crate::node) fn new(job: JobId) -> Self {
        Self {
            ranks: LocalRanks::new(job),
            output: PartOutput::new(job),
            stdin: PartStdin::new(job),
            pmix: None,
            requesters: BTreeMap::new(),
        }
    }

    /// Lets go of all that belongs to the processes: the job is over here.
    pub(in crate::node) fn end(mut self, out: &mut Outbox) {
        self.stop_pmix(out);
        self.ranks.forget_all(out);
    }

    fn stop_pmix(&mut self, out: &mut Outbox) {
        if let Some(pmix) = &mut self.pmix {
            pmix.stop(out);
        }
    }
}

/// The inputs that these methods return are for the job's part here.
impl Job {
    /// Serves a process that the keeper holds.
    pub(super) fn attach(&mut self, held: Held, cx: &mut Context<'_>) -> Option<Input> {
        let (process, local) = (held.key.process, self.local.as_mut()?);
        if local.ranks.contains(process) {
            return None;
        }
        match held.attached {
            Ok(attached) => {
                local.ranks.on_attached(attached, cx.now());
                if attached.has_stdin {
                    local.stdin.on_attached(process, cx.out);
                }
                self.read_output(process, cx);
                None
            }
            Err(error) => {
                tracing::error!(job = %self.id, %process, error, "a process cannot be served");
                Some(Input::Aborting { process, code: 1 })
            }
        }
    }

    /// What a process prints is output of the job, unless it is a spare: that is never taken.
    pub(super) fn read_output(&mut self, process: ProcessId, cx: &mut Context<'_>) {
        if let (Some(part), Some(local)) = (self.machine.part(), &mut self.local)
            && !part.is_spare(process)
            && local.ranks.contains(process)
        {
            local.output.read(process, cx.out);
        }
    }

    /// A rank printed something.
    pub(super) fn on_printed(&mut self, of: (ProcessId, Stream), bytes: Vec<u8>, cx: &mut Context<'_>) {
        if let (Some(part), Some(local)) = (self.machine.part(), &mut self.local) {
            local.output.on_lines(of, bytes, part.coordinator(), cx.out);
        }
    }

    /// One of the streams of a rank ended.
    pub(super) fn on_stream_ended(
        &mut self,
        process: ProcessId,
        stream: Stream,
        cx: &mut Context<'_>,
    ) -> Option<Input> {
        self.local.as_mut()?.output.on_end(process, stream);
        self.forget_if_done(process, cx);
        self.output_taken()
    }

    /// The reader of the job's output says something.
    pub(super) fn on_reader_said(&mut self, message: StreamToNode, cx: &mut Context<'_>) -> Option<Input> {
        let (part, local) = (self.machine.part()?, self.local.as_mut()?);
        match message {
            StreamToNode::OutputTaken { process, stream, bytes } => {
                local.output.on_taken(process, stream, bytes, cx.out);
            }
            StreamToNode::OutputFrom(from) => local.output.on_asked_from(&from, part.coordinator(), cx.out),
            StreamToNode::Stdin { offset, bytes } => {
                local.stdin.on_piece(offset, bytes, cx.out);
                return None;
            }
        }
        self.output_taken()
    }

    /// A node is linked (again). What was sent to the coordinator over a link that this node took for good until now
    /// may be lost: the coordinator may have noticed the link's end earlier, and asked for all output before that.
    pub(super) fn on_linked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        if let (Some(part), Some(local)) = (self.machine.part(), &mut self.local)
            && part.coordinator() == node
            && *node != cx.own()
        {
            local.output.on_asked_from(&[], node, cx.out);
        }
        self.say_pmix_again(node, cx);
        if let (Some(coordinator), Some(led)) = (self.machine.coordinator(), &mut self.led)
            && coordinator.has_node(node)
        {
            led.output(coordinator, |output, view| output.ask(Some(node), view, cx.out));
            led.leading.on_linked(self.id, cx);
        }
    }

    pub(super) fn on_stdin_taken(&self, bytes: u64, cx: &mut Context<'_>) {
        if let Some(part) = self.machine.part() {
            cx.send_job(part.coordinator(), self.id, StreamToCoordinator::StdinTaken { bytes });
        }
    }

    /// No process is left; output may be.
    pub(super) fn on_emptied(&mut self, cx: &mut Context<'_>) -> Option<Input> {
        if let Some(local) = &mut self.local {
            local.stop_pmix(cx.out);
        }
        cx.arm(PIPES_CLOSE_WITHIN, Timer::Job(self.id, JobTimer::OutputEnd));
        self.output_taken()
    }

    pub(super) fn on_output_end_timer(&mut self, cx: &mut Context<'_>) -> Option<Input> {
        let local = self.local.as_mut()?;
        local.output.end_all();
        for process in local.ranks.processes().collect::<Vec<_>>() {
            self.forget_if_done(process, cx);
        }
        self.output_taken()
    }

    fn output_taken(&self) -> Option<Input> {
        let is_done = self.machine.part()?.is_emptied() && self.local.as_ref()?.output.is_done();
        is_done.then_some(Input::OutputTaken)
    }

    /// Whether all that a process printed was read.
    pub(super) fn is_read_out(&self, process: ProcessId) -> bool {
        self.local.as_ref().is_none_or(|local| local.output.has_ended(process))
    }

    /// The keeper may let go of a process that ended once its output was read to the end.
    pub(super) fn forget_if_done(&mut self, process: ProcessId, cx: &mut Context<'_>) {
        let (Some(part), Some(local)) = (self.machine.part(), &mut self.local) else {
            return;
        };
        let known = part.processes().get(&process);
        if known.is_some_and(|process| !process.is_alive()) && local.output.has_ended(process) {
            local.ranks.forget(process, cx.out);
        }
    }
}
