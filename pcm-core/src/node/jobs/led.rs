//! What belongs to the leader of a job beside the job's machine: its attachment, its output, its checkpoints and its
//! will. Reaches neither other jobs nor the machine: what the machine has to hear is returned.

use super::attachment::{Absence, Attachment};
use super::heirs::Willed;
use super::leading::Leading;
use crate::job::coordinator::{Coordinator, Input};
use crate::job::process::ProcessState;
use crate::moment::Moment;
use crate::node::context::Context;
use crate::node::methods::Chosen;
use crate::node::outbox::{self, PeersEffect};
use crate::node::requester::LinkId;
use crate::node::streams::JobView;
use crate::node::streams::job_output::JobOutput;
use crate::node::streams::job_stdin::JobStdin;
use pcm_proto::control::{DaemonToControl, Stream};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::SpareStatus;
use pcm_proto::keeper::Standby;
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon};
use pcm_proto::tree;
use std::collections::BTreeMap;
use std::time::Duration;

/// An attached `pcmctl` has so long to come back after this daemon was started again: it gives the daemon ten seconds.
pub(in crate::node) const RETURN_AFTER_RESTART_WITHIN: Duration = Duration::from_secs(8);

/// What belongs to the leader of a job, beside its machine.
#[derive(Debug)]
pub(in crate::node) struct Led {
    pub(super) attachment: Attachment,
    pub(in crate::node) output: JobOutput,
    pub(in crate::node) stdin: JobStdin,
    pub(in crate::node) leading: Leading,
    pub(in crate::node) willed: Willed,
    /// The start order of which it was last said how it travels.
    pub(in crate::node) order_noted: Option<u32>,
    /// The method of the change that was asked for last.
    pub(in crate::node) chosen: Option<Chosen>,
    /// Standbys on the nodes where some were asked for, as these said last.
    pub(super) standbys: BTreeMap<NodeName, Vec<Standby>>,
}

impl Led {
    pub(in crate::node) fn new(state: &Coordinator, attachment: Attachment, output: JobOutput, now: Moment) -> Self {
        let (job, leading) = (state.job(), Leading::new(state.known_checkpoints(), now));
        Self {
            attachment,
            output,
            stdin: JobStdin::new(job),
            leading,
            willed: Willed::default(),
            order_noted: None,
            chosen: None,
            standbys: BTreeMap::new(),
        }
    }

    /// For a job that this node takes over from another one, or from an earlier daemon; so much of its output is in
    /// files.
    pub(super) fn taken_over(
        state: &Coordinator,
        written: BTreeMap<(ProcessId, Stream), u64>,
        cx: &mut Context<'_>,
    ) -> Self {
        let output = match state.spec().detached {
            true => JobOutput::to_files(state.job(), written, cx.out),
            false => JobOutput::to_absent_control(state.job()),
        };
        Self::new(state, Attachment::new(None, true), output, cx.now())
    }

    /// Some were taken; the nodes say again what they hold.
    pub(super) fn forget_standbys(&mut self) {
        self.standbys.values_mut().for_each(Vec::clear);
    }

    /// What `ps` shows of the standbys. Those that were taken since their node said what it holds are ranks.
    pub(super) fn standby_rows(&self, coordinator: &Coordinator) -> Vec<SpareStatus> {
        let program = String::from_utf8_lossy(&coordinator.spec().program);
        let is_taken = |node: &NodeName, pid: u32| {
            let mut processes = coordinator.processes().values();
            processes.any(|process| process.node == *node && process.state == ProcessState::Running { pid })
        };
        let row = |(node, standby): (&NodeName, &Standby)| SpareStatus {
            process: None,
            node: node.clone(),
            pid: standby.pid,
            program: program.clone().into_owned(),
            ready: standby.is_ready,
        };
        let of_node = |(node, standbys)| std::iter::zip(std::iter::repeat(node), standbys);
        let all = self.standbys.iter().flat_map(of_node);
        all.filter(|(node, standby)| !is_taken(node, standby.pid))
            .map(row)
            .collect()
    }

    /// What the streams need to know of their job.
    fn view<'a>(&self, coordinator: &'a Coordinator) -> JobView<'a> {
        JobView {
            coordinator,
            reader: self.attachment.reader(),
        }
    }

    /// Does something with the output.
    pub(super) fn output(&mut self, coordinator: &Coordinator, act: impl FnOnce(&mut JobOutput, JobView<'_>)) {
        let view = self.view(coordinator);
        act(&mut self.output, view);
    }

    /// Does something with the standard input.
    pub(super) fn stdin(&mut self, coordinator: &Coordinator, act: impl FnOnce(&mut JobStdin, JobView<'_>)) {
        let view = self.view(coordinator);
        act(&mut self.stdin, view);
    }

    /// Asks all nodes for the output that has not come, and passes on what may be passed on.
    fn ask_and_pump(&mut self, coordinator: &Coordinator, cx: &mut Context<'_>) {
        self.output(coordinator, |output, view| output.ask(None, view, cx.out));
        self.output(coordinator, |output, view| output.pump(view, cx.out));
    }

    /// A `pcmctl` comes back to its job.
    pub(super) fn on_attach(
        &mut self,
        link: LinkId,
        received: Vec<(ProcessId, Stream, u64)>,
        coordinator: &Coordinator,
        cx: &mut Context<'_>,
    ) {
        let job = coordinator.job();
        if self.attachment.on_attach(link, job, cx) {
            self.output.attach(received, cx.out);
            self.attachment.tell_missed(job, cx);
            self.ask_and_pump(coordinator, cx);
        }
    }

    /// The link of the attached `pcmctl` ended.
    pub(super) fn on_link_lost(
        &mut self,
        link: LinkId,
        in_order: bool,
        coordinator: &Coordinator,
        cx: &mut Context<'_>,
    ) -> Option<Input> {
        let absence = self.attachment.on_link_lost(link, in_order, coordinator.job(), cx);
        self.on_absence(absence, coordinator, cx)
    }

    /// Gives the `pcmctl` of a job that is not detached time to come back.
    pub(super) fn await_reader(
        &mut self,
        coordinator: &Coordinator,
        within: Duration,
        is_cut_off: bool,
        cx: &mut Context<'_>,
    ) {
        if !coordinator.spec().detached {
            self.attachment.await_return(coordinator.job(), within, is_cut_off, cx);
        }
    }

    pub(super) fn on_unattended(&mut self, coordinator: &Coordinator, cx: &mut Context<'_>) -> Option<Input> {
        let absence = self.attachment.on_unattended(coordinator.job(), cx);
        self.on_absence(absence, coordinator, cx)
    }

    fn on_absence(&mut self, absence: Absence, coordinator: &Coordinator, cx: &mut Context<'_>) -> Option<Input> {
        match absence {
            Absence::Waits => None,
            Absence::Ends => {
                self.output(coordinator, |output, view| output.discard(view, cx.out));
                let reason = "the `pcmctl run` it was attached to is gone; `--detach` lets a job go on alone";
                let (code, reason) = (129, reason.to_owned());
                Some(Input::End { code, reason })
            }
            Absence::GoesOn => {
                // No reader holds the ranks back: their output goes where that of a detached job goes.
                self.output = JobOutput::to_files(coordinator.job(), BTreeMap::new(), cx.out);
                self.ask_and_pump(coordinator, cx);
                None
            }
        }
    }

    /// Another node leads the job from now on.
    pub(super) fn abdicate(mut self, job: JobId, to: &NodeName, cx: &mut Context<'_>) {
        self.output.close(cx.out);
        self.leading.on_abdicated(job, to, cx);
        self.attachment.say(DaemonToControl::LedBy { node: to.clone() }, cx);
    }

    /// An event of the job.
    pub(super) fn on_note(&mut self, kind: EventKind, coordinator: &Coordinator, cx: &mut Context<'_>) {
        let job = coordinator.job();
        self.attachment.on_note(job, &kind, cx);
        if matches!(kind, EventKind::JobStarted { .. }) {
            self.stdin(coordinator, |stdin, view| stdin.pass(view, cx.out));
        }
        cx.note(Some(job), coordinator.epoch(), kind);
    }

    /// Notes how a start order reaches the nodes it goes to from here; once, with the first of them.
    pub(super) fn note_group(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: &CoordinatorToNode,
        cx: &mut Context<'_>,
    ) {
        let CoordinatorToNode::Start(order) = message else {
            return;
        };
        let children = &order.tree[tree::children(0, order.tree.len())];
        if order.worlds.is_empty() || children.first() != Some(node) {
            return;
        }
        // It is sent again to single nodes, on new links and when it is not confirmed.
        if self.order_noted.is_some_and(|before| before >= order.number) {
            return;
        }
        self.order_noted = Some(order.number);
        let message = DaemonToDaemon::Job {
            job,
            message: Box::new(message.clone().into()),
        };
        cx.out.push(outbox::Effect::Peers(PeersEffect::NoteRoute {
            job,
            epoch: order.epoch,
            nodes: children.to_vec(),
            message,
        }));
    }
}
