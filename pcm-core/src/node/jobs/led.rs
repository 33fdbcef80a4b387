//! What belongs to the leader of a job beside the job's machine: its audience, its output, its checkpoints and its
//! will. Reaches neither other jobs nor the machine: what the machine has to hear is returned.

use super::heirs::Willed;
use super::leading::Leading;
use crate::job::coordinator::{Coordinator, Input};
use crate::moment::Moment;
use crate::node::context::Context;
use crate::node::methods::Chosen;
use crate::node::outbox::{self, PeersEffect};
use crate::node::requester::{LinkId, Requester};
use crate::node::streams::JobView;
use crate::node::streams::job_output::JobOutput;
use crate::node::streams::job_stdin::JobStdin;
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::control::{DaemonToControl, Stream};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon};
use pcm_proto::refusal;
use pcm_proto::tree;
use std::collections::BTreeMap;
use std::time::Duration;

/// An attached `pcmctl` whose link broke while this daemon lived has so long to come back; it tries at once, so one
/// that does not was killed.
const RETURN_WITHIN: Duration = Duration::from_secs(2);

/// The same after this daemon was started again: `pcmctl` gives it ten seconds to be back.
pub(in crate::node) const RETURN_AFTER_RESTART_WITHIN: Duration = Duration::from_secs(8);

/// Lines kept for a reader that is away: a crash and its end, twice.
const UNTOLD_MAX: usize = 4;

/// Who sees the job's output and whose end is its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Audience {
    /// Nobody: it goes on by itself.
    Detached,
    Attached(LinkId),
    /// A `pcmctl` that is expected back.
    Awaited,
    /// A `pcmctl` that stood before the coordinator whose node was lost, and may be cut off with it.
    Sought,
    /// One of these that did not come in time: whether it ended nobody knows, so the job goes on alone until it comes.
    OutOfReach,
    /// A `pcmctl` that did not come back.
    Left,
}

/// What belongs to the leader of a job, beside its machine.
#[derive(Debug)]
pub(in crate::node) struct Led {
    pub(in crate::node) audience: Audience,
    /// The link of its `pcmctl`, also of one that only waits for the start of a detached job.
    pub(in crate::node) link: Option<LinkId>,
    pub(in crate::node) output: JobOutput,
    pub(in crate::node) stdin: JobStdin,
    pub(in crate::node) leading: Leading,
    pub(in crate::node) willed: Willed,
    /// What an awaited reader will want to know.
    pub(in crate::node) untold: Vec<String>,
    /// The start order of which it was last said how it travels.
    pub(in crate::node) order_noted: Option<u32>,
    /// The method of the change that was asked for last.
    pub(in crate::node) chosen: Option<Chosen>,
}

impl Led {
    pub(in crate::node) fn new(state: &Coordinator, audience: Audience, output: JobOutput, now: Moment) -> Self {
        let (job, leading) = (state.job(), Leading::new(state.checkpoint(), now));
        Self {
            audience,
            link: None,
            output,
            stdin: JobStdin::new(job),
            leading,
            willed: Willed::default(),
            untold: Vec::new(),
            order_noted: None,
            chosen: None,
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
        Self::new(state, Audience::Detached, output, cx.now())
    }

    /// What the streams need to know of their job.
    fn view<'a>(&self, coordinator: &'a Coordinator) -> JobView<'a> {
        JobView {
            coordinator,
            reader: match self.audience {
                Audience::Attached(link) => Some(link),
                _ => None,
            },
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
        let (job, from) = (coordinator.job(), Requester::Control(link));
        match self.audience {
            Audience::Awaited | Audience::Sought => {}
            Audience::OutOfReach => self.untold.push(format!(
                "it went on without this terminal; what its ranks wrote meanwhile is in jobs/{job} of the cluster's \
                 directory on node {}",
                cx.settings.own
            )),
            // The old link may not have been noticed dead yet.
            Audience::Attached(_) => {}
            Audience::Detached | Audience::Left => {
                let message =
                    format!("job {job} runs without a `pcmctl`: see `pcmctl jobs`, its output is in jobs/{job}");
                return cx.refuse(from, refusal::NOT_SUPPORTED, message);
            }
        }
        self.audience = Audience::Attached(link);
        self.output.attach(received, cx.out);
        self.link = Some(link);
        cx.answer(from.clone(), DaemonToControl::JobAccepted { job });
        for text in std::mem::take(&mut self.untold) {
            cx.answer(from.clone(), DaemonToControl::Notice { job, text });
        }
        self.ask_and_pump(coordinator, cx);
    }

    /// The link of the attached `pcmctl` ended.
    pub(super) fn on_link_lost(
        &mut self,
        link: LinkId,
        in_order: bool,
        coordinator: &Coordinator,
        cx: &mut Context<'_>,
    ) -> Option<Input> {
        self.link = None;
        if self.audience != Audience::Attached(link) {
            return None;
        }
        if in_order && !cx.is_in_doubt() {
            return Some(self.on_left(coordinator, cx));
        }
        self.audience = Audience::Awaited;
        cx.arm(RETURN_WITHIN, Timer::Job(coordinator.job(), JobTimer::Unattended));
        None
    }

    /// Gives the `pcmctl` of a job that is not detached time to come back before the job is ended; where it may be cut
    /// off, the job goes on alone then.
    pub(super) fn await_reader(
        &mut self,
        coordinator: &Coordinator,
        within: Duration,
        is_cut_off: bool,
        cx: &mut Context<'_>,
    ) {
        if !coordinator.spec().detached {
            self.audience = if is_cut_off {
                Audience::Sought
            } else {
                Audience::Awaited
            };
            cx.arm(within, Timer::Job(coordinator.job(), JobTimer::Unattended));
        }
    }

    /// Another node leads the job from now on.
    pub(super) fn abdicate(mut self, job: JobId, to: &NodeName, cx: &mut Context<'_>) {
        self.output.close(cx.out);
        self.leading.on_abdicated(job, to, cx);
        if let Some(link) = self.link {
            let node = to.clone();
            cx.answer(Requester::Control(link), DaemonToControl::LedBy { node });
        }
    }

    pub(super) fn on_unattended(&mut self, coordinator: &Coordinator, cx: &mut Context<'_>) -> Option<Input> {
        let job = coordinator.job();
        match self.audience {
            Audience::Awaited | Audience::Sought if cx.is_in_doubt() => {
                // It may be attached to whoever leads the job by now.
                cx.arm(RETURN_WITHIN, Timer::Job(job, JobTimer::Unattended));
                None
            }
            Audience::Awaited => Some(self.on_left(coordinator, cx)),
            Audience::Sought => {
                tracing::warn!(%job, "the `pcmctl run` it was attached to is out of reach: the job goes on without it");
                self.audience = Audience::OutOfReach;
                // No reader holds the ranks back: their output goes where that of a detached job goes.
                self.output = JobOutput::to_files(job, BTreeMap::new(), cx.out);
                self.ask_and_pump(coordinator, cx);
                None
            }
            _ => None,
        }
    }

    fn on_left(&mut self, coordinator: &Coordinator, cx: &mut Context<'_>) -> Input {
        self.audience = Audience::Left;
        self.output(coordinator, |output, view| output.discard(view, cx.out));
        let reason = "the `pcmctl run` it was attached to is gone; `--detach` lets a job go on alone".to_owned();
        Input::End { code: 129, reason }
    }

    /// An event of the job.
    pub(super) fn on_note(&mut self, kind: EventKind, coordinator: &Coordinator, cx: &mut Context<'_>) {
        let job = coordinator.job();
        if matches!(kind, EventKind::JobStarted { .. }) {
            let link = match self.audience {
                Audience::Attached(link) => Some(link),
                Audience::Detached => self.link,
                _ => None,
            };
            if let Some(link) = link {
                cx.answer(Requester::Control(link), DaemonToControl::JobStarted { job });
            }
            self.stdin(coordinator, |stdin, view| stdin.pass(view, cx.out));
        }
        self.tell_reader(job, &kind, cx);
        cx.note(Some(job), coordinator.epoch(), kind);
    }

    /// An attached reader hears of a crash, that output will be repeated, and of what the program was refused.
    fn tell_reader(&mut self, job: JobId, kind: &EventKind, cx: &mut Context<'_>) {
        let text = match kind {
            EventKind::Crashed { reason, verdict, .. } => format!("{reason}; {verdict}"),
            EventKind::Recovered(recovered) => format!(
                "all {} ranks run again, from iteration {} on, after {:.1} s",
                recovered.ranks,
                recovered.from,
                recovered.total_ms / 1000.0
            ),
            EventKind::SpawnRefused { reason, .. } => format!("MPI_Comm_spawn was refused: {reason}"),
            EventKind::Hangs { silent_s, ranks, lines } => format!(
                "no progress for {silent_s} s: {ranks} cannot continue{}; 'pcmctl ps {job} --stuck' says more",
                lines.first().map(|line| format!(": {line}")).unwrap_or_default()
            ),
            _ => return,
        };
        if let Some(link) = self.link {
            cx.answer(Requester::Control(link), DaemonToControl::Notice { job, text });
        } else if matches!(
            self.audience,
            Audience::Awaited | Audience::Sought | Audience::OutOfReach
        ) && self.untold.len() < UNTOLD_MAX
        {
            self.untold.push(text);
        }
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
