//! The jobs this daemon coordinates: feeds their state machines, carries out what they decide, and keeps what a
//! restart would need.

use crate::job::at_node::{self, JobAtNode, Step};
use crate::job::coordinator::{Coordinator, Effect, Input};
use crate::job::placement::Share;
use crate::job::worlds::WORLDS_MAX;
use crate::node::agent::samples::is_known_policy;
use crate::node::jobs::checkpoints::Leading;
use crate::node::jobs::succession::Willed;
use crate::node::machine::Node;
use crate::node::methods::Chosen;
use crate::node::record::Record;
use crate::node::requester::{LinkId, Requester};
use crate::node::store::image_key::ImageKey;
use crate::node::store::input::StoreInput;
use crate::node::streams::job_output::JobOutput;
use crate::node::streams::job_stdin::JobStdin;
use crate::node::timer::Timer;
use pcm_proto::agent::POLICY_NAMES;
use pcm_proto::control::{DaemonToControl, Refusal, Stream};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::{JobEnd, JobSpec, RANKS_MAX, SPARES_MAX, WorldShape};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StreamToCoordinator};
use pcm_proto::refusal;
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

impl Node {
    /// A new job is asked for.
    pub(in crate::node) fn on_run(&mut self, from: Requester, spec: JobSpec) {
        if let Err(refusal) = self.check_run(&spec) {
            return self.answer(from, DaemonToControl::Refused(refusal));
        }
        let numbering = self.nodes.numbering().clone();
        if numbering == self.own {
            let job = JobId(self.highest_job.0 + 1);
            self.heard_of(job);
            self.accept(from, spec, job);
        } else {
            self.ask_for_run(&numbering, from, spec);
        }
    }

    fn check_run(&self, spec: &JobSpec) -> Result<(), Refusal> {
        if self.is_going_down() || self.is_leaving() {
            return Err(Refusal::new(
                refusal::GOING_DOWN,
                "the cluster is going down: start it again with `pcmctl up`",
            ));
        }
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
        if self.jobs.coordinators().count() >= JOBS_MAX {
            let message = format!("{JOBS_MAX} jobs run already: wait for some to end, see `pcmctl jobs`");
            return Err(Refusal::new(refusal::LIMIT_REACHED, message));
        }
        Ok(())
    }

    /// Accepts a job under a number that nobody else has.
    pub(in crate::node) fn accept(&mut self, from: Requester, spec: JobSpec, job: JobId) {
        let shares = match self.place(&spec.nodes, spec.size) {
            Ok(shares) => shares,
            Err(refusal) => return self.answer(from, DaemonToControl::Refused(refusal)),
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
            return self.answer(from, DaemonToControl::Refused(Refusal::new(refusal::BAD_SIZE, message)));
        }
        let is_crowded = self.is_crowded(&spec, &shares);
        let audience = match from {
            Requester::Control(link) if !spec.detached => Audience::Attached(link),
            _ => Audience::Detached,
        };
        let output = match audience {
            Audience::Detached => JobOutput::to_files(job, BTreeMap::new(), &mut self.out),
            _ => JobOutput::to_control(job),
        };
        let now_us = self.out.now().0;
        let (state, effects) = Coordinator::accept(job, self.own.clone(), spec, &shares, is_crowded, now_us);
        if let Requester::Control(link) = from {
            self.controls.attach(link, job);
        }
        let led = Led::new(&state, audience, output);
        let step = self.lead_from_now_on(job, state, led, effects);
        self.answer(from, DaemonToControl::JobAccepted { job });
        self.finish(job, step);
        self.leave_will(job);
    }

    /// This node leads a job from now on.
    pub(in crate::node) fn lead_from_now_on(
        &mut self,
        job: JobId,
        state: Coordinator,
        led: Led,
        effects: Vec<Effect>,
    ) -> Step {
        let machine = JobAtNode::new(job, self.own.clone(), self.limits.clone());
        let known = self.jobs.insert(job, machine);
        known.led = Some(led);
        let mut step = known.machine.lead(state, effects);
        self.record_entry(job, &mut step);
        step
    }

    pub(in crate::node) fn is_crowded(&self, spec: &JobSpec, shares: &[Share]) -> bool {
        let mut ranks: BTreeMap<u64, usize> = BTreeMap::new();
        for share in shares {
            *ranks.entry(share.host).or_default() += share.count as usize;
        }
        // Nobody who leaves the maximum as it is says that the job will grow that far.
        let is_going_to_grow = spec.max > spec.size && spec.max < RANKS_MAX;
        ranks.iter().any(|(host, ranks)| {
            let cpus = self.nodes.cpus_of_host(*host);
            *ranks > cpus || (is_going_to_grow && spec.max as usize > cpus)
        })
    }

    /// Gives an input to a job's coordinator and carries out what the job decides.
    pub(in crate::node) fn coordinate(&mut self, job: JobId, input: Input) {
        self.step(job, at_node::Input::Lead(input));
    }

    /// Carries out what a job's coordinator wants; whether the job is over.
    pub(in crate::node) fn carry_out_lead(&mut self, job: JobId, effect: Effect) {
        match effect {
            Effect::Send { node, message } => {
                self.note_group(job, &node, &message);
                self.send_job(&node, job, message);
            }
            Effect::Note(kind) => self.on_job_note(job, kind),
            Effect::Place {
                process,
                number,
                count,
                hosts,
            } => {
                let shares = self.place_spawn(job, count, &hosts);
                self.coordinate(
                    job,
                    Input::SpawnPlaced {
                        process,
                        number,
                        shares,
                    },
                );
            }
            Effect::Restart { count } => self.restart(job, count),
            Effect::Ended { end, nodes } => self.on_job_ended(job, &end, &nodes),
        }
    }

    fn place_spawn(&self, job: JobId, count: u32, hosts: &[String]) -> Result<Vec<Share>, String> {
        // A host the application names may be none of our nodes; then the choice is ours.
        let named = hosts.iter().filter_map(|host| NodeName::new(host.as_str()).ok());
        let mut allowed: Vec<NodeName> = named.filter(|node| self.nodes.state(node).is_some()).collect();
        if allowed.is_empty() {
            allowed = self
                .jobs
                .coordinator(job)
                .map(|coordinator| coordinator.spec().nodes.clone())
                .unwrap_or_default();
        }
        self.place(&allowed, count).map_err(|refusal| refusal.message)
    }

    fn on_job_note(&mut self, job: JobId, kind: EventKind) {
        let Some(led) = self.jobs.led(job) else { return };
        let epoch = self.jobs.epoch(job);
        if matches!(kind, EventKind::JobStarted { .. }) {
            let link = match led.audience {
                Audience::Attached(link) => Some(link),
                Audience::Detached => self.controls.attached_to(job),
                _ => None,
            };
            if let Some(link) = link {
                self.answer(Requester::Control(link), DaemonToControl::JobStarted { job });
            }
            self.pass_stdin(job);
        }
        self.tell_of_crash(job, &kind);
        self.note(Some(job), epoch, kind);
    }

    fn on_job_ended(&mut self, job: JobId, end: &JobEnd, nodes: &[NodeName]) {
        self.finish_output(job);
        self.drop_checkpoints_of_ended(job);
        self.void_will(job);
        let Some((coordinator, led)) = self.jobs.stop_leading(job) else {
            return;
        };
        let status = coordinator.status();
        let now_us = self.out.now().0;
        self.record(Record::Ended {
            now_us,
            status: Box::new(status.clone()),
        });
        self.ended.remember(now_us, status);
        for from in led.leading.into_requesters() {
            let message = format!("job {job} ended before its checkpoint was made: see `pcmctl events {job}`");
            self.answer(from, DaemonToControl::Refused(Refusal::new(refusal::JOB_ENDED, message)));
        }
        if let Some(link) = self.controls.attached_to(job) {
            self.answer(Requester::Control(link), DaemonToControl::JobEnded(end.clone()));
            self.controls.detach(link);
        }
        for node in nodes {
            self.send_job(node, job, CoordinatorToNode::Close);
        }
        self.on_something_ended();
    }

    pub(in crate::node) fn send_job(&mut self, node: &NodeName, job: JobId, message: impl Into<JobMessage>) {
        self.out.send_job(node, job, message);
    }

    /// A message about a job, for its coordinator or for this node's part of it.
    pub(in crate::node) fn on_job_message(&mut self, job: JobId, node: &NodeName, message: JobMessage) {
        match message {
            JobMessage::ToNode(order) => self.on_order(job, node, order),
            JobMessage::ToCoordinator(message) => self.on_report_of_job(job, node, message),
            JobMessage::World(message) => self.on_world_message(job, node, message),
            JobMessage::StreamToNode(message) => self.on_reader_said(job, node, message),
            JobMessage::StreamToCoordinator(StreamToCoordinator::Output(piece)) => {
                self.on_output_piece(job, node, piece);
            }
            JobMessage::StreamToCoordinator(StreamToCoordinator::StdinTaken { bytes }) => {
                self.on_job_stdin_taken(job, bytes);
            }
            JobMessage::Succession(message) => self.on_succession(job, node, message),
            JobMessage::Reconfiguration(message) => self.on_reconfiguration_message(job, node, *message),
            JobMessage::Image { name, message } => self.on_image_message(ImageKey { job, name }, node, message),
            JobMessage::Checkpoint(message) => self.on_checkpoint_message(job, node, *message),
        }
    }

    fn on_report_of_job(&mut self, job: JobId, node: &NodeName, message: NodeToCoordinator) {
        if self.jobs.leads(job) {
            let node = node.clone();
            self.coordinate(job, Input::Said { node, message });
        } else {
            // The job is over, or this is not its coordinator; either way the node need not keep it.
            self.send_job(node, job, CoordinatorToNode::Close);
        }
    }

    /// A node is linked (again): says what it may have missed of the jobs led here and of those it coordinates.
    pub(in crate::node) fn on_jobs_linked(&mut self, node: &NodeName) {
        self.on_wills_linked(node);
        let known: Vec<JobId> = self.jobs.all().map(|(job, _)| job).collect();
        for job in known {
            let effects = self.jobs.get(job).map(|known| known.machine.on_linked(node));
            self.carry_out(job, effects.unwrap_or_default());
            if self.jobs.coordinator(job).is_some_and(|job| job.has_node(node)) {
                self.ask_output(job, Some(node));
            }
        }
        self.store_input(StoreInput::CoordinatorLinked { node: node.clone() });
    }

    /// No link to a node is left.
    pub(in crate::node) fn on_jobs_unlinked(&mut self, node: &NodeName) {
        self.on_parts_unlinked(node);
    }

    /// A `pcmctl` comes back to its job.
    pub(in crate::node) fn on_attach(&mut self, from: Requester, job: JobId, received: Vec<(ProcessId, Stream, u64)>) {
        let Requester::Control(link) = from else { return };
        let Some(led) = self.jobs.led_mut(job) else {
            return self.refuse_unknown_job(from, job);
        };
        match led.audience {
            Audience::Awaited | Audience::Sought => {}
            Audience::OutOfReach => led.untold.push(format!(
                "it went on without this terminal; what its ranks wrote meanwhile is in jobs/{job} of the cluster's directory on node {}",
                self.own
            )),
            // The old link may not have been noticed dead yet.
            Audience::Attached(old) => self.controls.detach(old),
            Audience::Detached | Audience::Left => {
                let message =
                    format!("job {job} runs without a `pcmctl`: see `pcmctl jobs`, its output is in jobs/{job}");
                return self.answer(
                    from,
                    DaemonToControl::Refused(Refusal::new(refusal::NOT_SUPPORTED, message)),
                );
            }
        }
        led.audience = Audience::Attached(link);
        led.output.attach(received, &mut self.out);
        self.controls.attach(link, job);
        let untold = std::mem::take(&mut led.untold);
        self.answer(from.clone(), DaemonToControl::JobAccepted { job });
        for text in untold {
            self.answer(from.clone(), DaemonToControl::Notice { job, text });
        }
        self.ask_output(job, None);
        self.pump_output(job);
    }

    pub(in crate::node) fn refuse_unknown_job(&mut self, from: Requester, job: JobId) {
        let refusal = match self.ended.find(job) {
            Some(_) => Refusal::new(
                refusal::JOB_ENDED,
                format!("job {job} has ended: `pcmctl jobs` tells how"),
            ),
            None => Refusal::new(
                refusal::UNKNOWN_JOB,
                format!("there is no job {job}: `pcmctl jobs` lists all"),
            ),
        };
        self.answer(from, DaemonToControl::Refused(refusal));
    }

    /// The link of the `pcmctl` attached to a job ended.
    pub(in crate::node) fn on_audience_lost(&mut self, job: JobId, link: LinkId, in_order: bool) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        if led.audience != Audience::Attached(link) {
            return;
        }
        if in_order && !self.is_in_doubt() {
            self.on_audience_left(job);
        } else {
            self.await_audience(job, RETURN_WITHIN);
        }
    }

    /// Gives a `pcmctl` time to come back before its job is ended.
    pub(in crate::node) fn await_audience(&mut self, job: JobId, within: Duration) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        led.audience = Audience::Awaited;
        self.out.arm(within, Timer::Unattended(job));
    }

    /// The same for one that may be cut off: then its job goes on alone.
    pub(in crate::node) fn seek_audience(&mut self, job: JobId, within: Duration) {
        self.await_audience(job, within);
        if let Some(led) = self.jobs.led_mut(job) {
            led.audience = Audience::Sought;
        }
    }

    pub(in crate::node) fn on_unattended_timer(&mut self, job: JobId) {
        let audience = self.jobs.led(job).map(|led| led.audience);
        if !matches!(audience, Some(Audience::Awaited | Audience::Sought)) {
            return;
        }
        if self.is_in_doubt() {
            // It may be attached to whoever leads the job by now.
            return self.out.arm(RETURN_WITHIN, Timer::Unattended(job));
        }
        if audience == Some(Audience::Sought) {
            self.go_on_alone(job);
        } else {
            self.on_audience_left(job);
        }
    }

    /// Nobody holds the ranks back by not reading: their output goes where that of a detached job goes.
    fn go_on_alone(&mut self, job: JobId) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        tracing::warn!(%job, "the `pcmctl run` it was attached to is out of reach: the job goes on without it");
        led.audience = Audience::OutOfReach;
        led.output = JobOutput::to_files(job, BTreeMap::new(), &mut self.out);
        self.ask_output(job, None);
        self.pump_output(job);
    }

    fn on_audience_left(&mut self, job: JobId) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        led.audience = Audience::Left;
        self.discard_output(job);
        let reason = "the `pcmctl run` it was attached to is gone; `--detach` lets a job go on alone".to_owned();
        self.coordinate(job, Input::End { code: 129, reason });
    }
}
