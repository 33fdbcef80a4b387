//! The jobs this daemon coordinates: feeds their state machines, carries out what they decide, and keeps what a
//! restart would need.

use crate::job::at_node::{JobAtNode, Step};
use crate::job::coordinator::{Coordinator, Effect, Input};
use crate::job::placement::Share;
use crate::job::worlds::WORLDS_MAX;
use crate::node::agent::samples::is_known_policy;
use crate::node::context::Context;
use crate::node::jobs::checkpoints::Leading;
use crate::node::jobs::machine::Jobs;
use crate::node::jobs::succession::Willed;
use crate::node::methods::Chosen;
use crate::node::outbox::{self, Inward, PeersEffect};
use crate::node::queries::{ANSWER_WITHIN, Asker};
use crate::node::record::Record;
use crate::node::requester::{LinkId, Requester};
use crate::node::streams::job_output::JobOutput;
use crate::node::streams::job_stdin::JobStdin;
use crate::node::timer::Timer;
use pcm_proto::agent::POLICY_NAMES;
use pcm_proto::control::{DaemonToControl, Refusal, Stream};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::{JobEnd, JobSpec, RANKS_MAX, SPARES_MAX, WorldShape};
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon, Question};
use pcm_proto::refusal;
use pcm_proto::tree;
use std::collections::BTreeMap;
use std::time::Duration;

/// An attached `pcmctl` whose link broke while this daemon lived has so long to come back; it tries at once, so one
/// that does not was killed.
const RETURN_WITHIN: Duration = Duration::from_secs(2);

/// The same after this daemon was started again: `pcmctl` gives it ten seconds to be back.
pub(in crate::node) const RETURN_AFTER_RESTART_WITHIN: Duration = Duration::from_secs(8);

/// Most jobs at a time on one coordinator; each costs kilobytes, and the limit only stops a runaway script.
const JOBS_MAX: usize = 1000;

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
    pub(in crate::node) fn new(state: &Coordinator, audience: Audience, output: JobOutput) -> Self {
        let (job, leading) = (state.job(), Leading::new(state.checkpoint()));
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
}

impl Jobs {
    /// A new job is asked for.
    pub(in crate::node) fn on_run(&mut self, from: Requester, spec: JobSpec, cx: &mut Context<'_>) {
        if let Err(refusal) = self.check_run(&spec) {
            return cx.answer(from, DaemonToControl::Refused(refusal));
        }
        let numbering = cx.cluster.nodes().numbering().clone();
        if numbering == cx.settings.own {
            let job = self.next_number(cx);
            self.accept(from, spec, job, cx);
        } else {
            let spec = Box::new(spec);
            cx.ask(
                &numbering,
                Question::JobNumber,
                Asker::Number { from, spec },
                ANSWER_WITHIN,
            );
        }
    }

    fn check_run(&self, spec: &JobSpec) -> Result<(), Refusal> {
        if spec.size == 0 || spec.size > RANKS_MAX || spec.size > spec.max || spec.size < spec.min {
            let message = format!(
                "{} ranks are asked for, the job allows {} to {} and the system 1 to {RANKS_MAX}",
                spec.size, spec.min, spec.max
            );
            return Err(Refusal::new(refusal::BAD_SIZE, message));
        }
        if spec.spares > SPARES_MAX {
            let message = format!(
                "{} spares are asked for, at most {SPARES_MAX} are kept of a program",
                spec.spares
            );
            return Err(Refusal::new(refusal::BAD_SIZE, message));
        }
        if let Some(policy) = spec.policy.as_deref().filter(|policy| !is_known_policy(policy)) {
            let message = format!(
                "there is no policy {policy:?}: choose one of {}",
                POLICY_NAMES.join(", ")
            );
            return Err(Refusal::new(refusal::UNKNOWN_POLICY, message));
        }
        if self.table.coordinators().count() >= JOBS_MAX {
            let message = format!("{JOBS_MAX} jobs run already: wait for some to end, see `pcmctl jobs`");
            return Err(Refusal::new(refusal::LIMIT_REACHED, message));
        }
        Ok(())
    }

    /// Accepts a job under a number that nobody else has.
    pub(in crate::node) fn accept(&mut self, from: Requester, spec: JobSpec, job: JobId, cx: &mut Context<'_>) {
        let shares = match self.place(&spec.nodes, spec.size, cx) {
            Ok(shares) => shares,
            Err(refusal) => return cx.answer(from, DaemonToControl::Refused(refusal)),
        };
        let worlds = match spec.world {
            WorldShape::Job => 1,
            WorldShape::Node => shares.len(),
            WorldShape::Rank => spec.size as usize,
        };
        if worlds > WORLDS_MAX {
            let message = format!(
                "{worlds} worlds are asked for, a job begins with at most {WORLDS_MAX}: run with fewer ranks or nodes, \
                 or with '--world job'"
            );
            return cx.answer(from, DaemonToControl::Refused(Refusal::new(refusal::BAD_SIZE, message)));
        }
        let is_crowded = is_crowded(&spec, &shares, cx);
        let audience = match from {
            Requester::Control(link) if !spec.detached => Audience::Attached(link),
            _ => Audience::Detached,
        };
        let output = match audience {
            Audience::Detached => JobOutput::to_files(job, BTreeMap::new(), cx.out),
            _ => JobOutput::to_control(job),
        };
        let now_us = cx.now().0;
        let (state, effects) = Coordinator::accept(job, cx.own(), spec, &shares, is_crowded, now_us);
        let mut led = Led::new(&state, audience, output);
        if let Requester::Control(link) = from {
            led.link = Some(link);
        }
        let step = self.lead_from_now_on(job, state, led, effects, cx);
        cx.answer(from, DaemonToControl::JobAccepted { job });
        self.finish(job, step, cx);
        self.leave_will(job, cx);
    }

    /// This node leads a job from now on.
    pub(in crate::node) fn lead_from_now_on(
        &mut self,
        job: JobId,
        state: Coordinator,
        led: Led,
        effects: Vec<Effect>,
        cx: &mut Context<'_>,
    ) -> Step {
        let machine = JobAtNode::new(job, cx.own(), cx.settings.limits.clone());
        let known = self.table.insert(job, machine);
        known.led = Some(led);
        let mut step = known.machine.lead(state, effects);
        if let Some(entry) = step.entry.take() {
            let entry = Box::new(entry);
            cx.record(Record::Job { job, entry });
        }
        step
    }

    /// Carries out what a job's coordinator wants.
    pub(in crate::node) fn carry_out_lead(&mut self, job: JobId, effect: Effect, cx: &mut Context<'_>) {
        match effect {
            Effect::Send { node, message } => {
                self.note_group(job, &node, &message, cx);
                cx.send_job(&node, job, message);
            }
            Effect::Note(kind) => self.on_job_note(job, kind, cx),
            Effect::Place {
                process,
                number,
                count,
                hosts,
            } => {
                let shares = self.place_spawn(job, count, &hosts, cx);
                self.coordinate(
                    job,
                    Input::SpawnPlaced {
                        process,
                        number,
                        shares,
                    },
                    cx,
                );
            }
            Effect::Restart { count } => self.restart_from_checkpoint(job, count, cx),
            Effect::Ended { end, nodes } => self.on_job_ended(job, &end, &nodes, cx),
        }
    }

    /// Notes how a start order reaches the nodes it goes to from here; once, with the first of them.
    fn note_group(&mut self, job: JobId, node: &NodeName, message: &CoordinatorToNode, cx: &mut Context<'_>) {
        let CoordinatorToNode::Start(order) = message else {
            return;
        };
        let children = &order.tree[tree::children(0, order.tree.len())];
        if order.worlds.is_empty() || children.first() != Some(node) {
            return;
        }
        // It is sent again to single nodes, on new links and when it is not confirmed.
        match self.table.led_mut(job).map(|led| &mut led.order_noted) {
            Some(noted) if noted.is_none_or(|before| before < order.number) => *noted = Some(order.number),
            _ => return,
        }
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

    fn place_spawn(
        &self,
        job: JobId,
        count: u32,
        hosts: &[String],
        cx: &mut Context<'_>,
    ) -> Result<Vec<Share>, String> {
        // A host the application names may be none of our nodes; then the choice is ours.
        let named = hosts.iter().filter_map(|host| NodeName::new(host.as_str()).ok());
        let mut allowed: Vec<NodeName> = named.filter(|node| cx.cluster.nodes().state(node).is_some()).collect();
        if allowed.is_empty() {
            allowed = self
                .table
                .coordinator(job)
                .map(|coordinator| coordinator.spec().nodes.clone())
                .unwrap_or_default();
        }
        self.place(&allowed, count, cx).map_err(|refusal| refusal.message)
    }

    fn on_job_note(&mut self, job: JobId, kind: EventKind, cx: &mut Context<'_>) {
        let Some(led) = self.table.led(job) else { return };
        let epoch = self.table.epoch(job);
        if matches!(kind, EventKind::JobStarted { .. }) {
            let link = match led.audience {
                Audience::Attached(link) => Some(link),
                Audience::Detached => led.link,
                _ => None,
            };
            if let Some(link) = link {
                cx.answer(Requester::Control(link), DaemonToControl::JobStarted { job });
            }
            self.with_led(job, |led, view| led.stdin.pass(view, cx.out));
        }
        self.tell_of_crash(job, &kind, cx);
        cx.note(Some(job), epoch, kind);
    }

    fn on_job_ended(&mut self, job: JobId, end: &JobEnd, nodes: &[NodeName], cx: &mut Context<'_>) {
        self.with_led(job, |led, view| led.output.finish(view, cx.out));
        self.drop_checkpoints_of_ended(job, cx);
        self.void_will(job, cx);
        let Some((coordinator, led)) = self.table.stop_leading(job) else {
            return;
        };
        let status = coordinator.status();
        let now_us = cx.now().0;
        cx.record(Record::Ended {
            now_us,
            status: Box::new(status.clone()),
        });
        self.ended.remember(now_us, status);
        if let Some(link) = led.link {
            cx.answer(Requester::Control(link), DaemonToControl::JobEnded(end.clone()));
        }
        for node in nodes {
            cx.send_job(node, job, CoordinatorToNode::Close);
        }
        cx.out.inward(Inward::JobEnded);
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
        let Some(led) = self.table.led_mut(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        match led.audience {
            Audience::Awaited | Audience::Sought => {}
            Audience::OutOfReach => led.untold.push(format!(
                "it went on without this terminal; what its ranks wrote meanwhile is in jobs/{job} of the cluster's directory on node {}",
                cx.settings.own
            )),
            // The old link may not have been noticed dead yet.
            Audience::Attached(_) => {}
            Audience::Detached | Audience::Left => {
                let message =
                    format!("job {job} runs without a `pcmctl`: see `pcmctl jobs`, its output is in jobs/{job}");
                return cx.answer(
                    from,
                    DaemonToControl::Refused(Refusal::new(refusal::NOT_SUPPORTED, message)),
                );
            }
        }
        led.audience = Audience::Attached(link);
        led.output.attach(received, cx.out);
        led.link = Some(link);
        let untold = std::mem::take(&mut led.untold);
        cx.answer(from.clone(), DaemonToControl::JobAccepted { job });
        for text in untold {
            cx.answer(from.clone(), DaemonToControl::Notice { job, text });
        }
        self.with_led(job, |led, view| led.output.ask(None, view, cx.out));
        self.with_led(job, |led, view| led.output.pump(view, cx.out));
    }

    /// A link of `pcmctl` ended.
    pub(in crate::node) fn on_link_lost(&mut self, link: LinkId, in_order: bool, cx: &mut Context<'_>) {
        if let Some(job) = self.attached(link) {
            if let Some(led) = self.table.led_mut(job) {
                led.link = None;
            }
            self.on_audience_lost(job, link, in_order, cx);
        }
    }

    /// A job is to be ended at once.
    pub(in crate::node) fn on_kill(&mut self, from: Requester, job: JobId, cx: &mut Context<'_>) {
        let Some(led) = self.table.led(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        if matches!(from, Requester::Control(link) if led.link == Some(link)) {
            // A requester that ends its own job does not wait for the output that it has stopped to take.
            self.with_led(job, |led, view| led.output.discard(view, cx.out));
        }
        let reason = "it was ended by `pcmctl kill`".to_owned();
        self.coordinate(job, Input::End { code: 137, reason }, cx);
        cx.answer(from, DaemonToControl::Done);
    }

    /// All processes of a job are to have a signal.
    pub(in crate::node) fn on_signal(&mut self, from: Requester, job: JobId, signal: i32, cx: &mut Context<'_>) {
        let Some(coordinator) = self.table.coordinator(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        for node in coordinator.active_nodes() {
            cx.send_job(node, job, CoordinatorToNode::Signal { signal });
        }
        cx.answer(from, DaemonToControl::Done);
    }

    fn on_audience_lost(&mut self, job: JobId, link: LinkId, in_order: bool, cx: &mut Context<'_>) {
        let Some(led) = self.table.led_mut(job) else {
            return;
        };
        if led.audience != Audience::Attached(link) {
            return;
        }
        if in_order && !cx.is_in_doubt() {
            self.on_audience_left(job, cx);
        } else {
            self.await_audience(job, RETURN_WITHIN, cx);
        }
    }

    /// Gives a `pcmctl` time to come back before its job is ended.
    pub(in crate::node) fn await_audience(&mut self, job: JobId, within: Duration, cx: &mut Context<'_>) {
        let Some(led) = self.table.led_mut(job) else {
            return;
        };
        led.audience = Audience::Awaited;
        cx.out.arm(within, Timer::Unattended(job));
    }

    /// The same for one that may be cut off: then its job goes on alone.
    pub(in crate::node) fn seek_audience(&mut self, job: JobId, within: Duration, cx: &mut Context<'_>) {
        self.await_audience(job, within, cx);
        if let Some(led) = self.table.led_mut(job) {
            led.audience = Audience::Sought;
        }
    }

    pub(in crate::node) fn on_unattended_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let audience = self.table.led(job).map(|led| led.audience);
        if !matches!(audience, Some(Audience::Awaited | Audience::Sought)) {
            return;
        }
        if cx.is_in_doubt() {
            // It may be attached to whoever leads the job by now.
            return cx.out.arm(RETURN_WITHIN, Timer::Unattended(job));
        }
        if audience == Some(Audience::Sought) {
            self.go_on_alone(job, cx);
        } else {
            self.on_audience_left(job, cx);
        }
    }

    /// Nobody holds the ranks back by not reading: their output goes where that of a detached job goes.
    fn go_on_alone(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(led) = self.table.led_mut(job) else {
            return;
        };
        tracing::warn!(%job, "the `pcmctl run` it was attached to is out of reach: the job goes on without it");
        led.audience = Audience::OutOfReach;
        led.output = JobOutput::to_files(job, BTreeMap::new(), cx.out);
        self.with_led(job, |led, view| led.output.ask(None, view, cx.out));
        self.with_led(job, |led, view| led.output.pump(view, cx.out));
    }

    fn on_audience_left(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(led) = self.table.led_mut(job) else {
            return;
        };
        led.audience = Audience::Left;
        self.with_led(job, |led, view| led.output.discard(view, cx.out));
        let reason = "the `pcmctl run` it was attached to is gone; `--detach` lets a job go on alone".to_owned();
        self.coordinate(job, Input::End { code: 129, reason }, cx);
    }
}

/// Whether ranks of a job outnumber the CPUs of a host, or are going to.
pub(super) fn is_crowded(spec: &JobSpec, shares: &[Share], cx: &Context<'_>) -> bool {
    let mut ranks: BTreeMap<u64, usize> = BTreeMap::new();
    for share in shares {
        *ranks.entry(share.host).or_default() += share.count as usize;
    }
    // Nobody who leaves the maximum as it is says that the job will grow that far.
    let is_going_to_grow = spec.max > spec.size && spec.max < RANKS_MAX;
    ranks.iter().any(|(host, ranks)| {
        let cpus = cx.cluster.nodes().cpus_of_host(*host);
        *ranks > cpus || (is_going_to_grow && spec.max as usize > cpus)
    })
}
