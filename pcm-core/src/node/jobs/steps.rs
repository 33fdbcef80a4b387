//! One step of a job after the other: a step has one record, which comes before its first effect. What the job wants
//! beyond itself is done here, too.

use super::effects::Follow;
use super::heirs::heirs;
use super::led::Led;
use super::placing::{place_restarted, place_spawn};
use super::standbys;
use super::table::{Job, Table};
use crate::job::at_node::{self, Input, JobAtNode, Step};
use crate::job::coordinator::{self, Coordinator};
use crate::job::participant::{self, Closing, Participant};
use crate::node::context::Context;
use crate::node::outbox::Inward;
use crate::node::pmix::part::Start;
use crate::node::ranks::effect::RankEffect;
use crate::node::record::Record;
use crate::node::store::input::StoreInput;
use crate::reconfiguration::effects as change;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::JobEnd;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::peer::CoordinatorToNode;
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;
use std::time::Duration;

/// What the failure detector rounds, and the way of its news to a coordinator.
const GONE_IS_HEARD_WITHIN: Duration = Duration::from_secs(1);

impl Table {
    /// Gives inputs to a job's coordinator.
    pub(in crate::node) fn coordinate(
        &mut self,
        job: JobId,
        inputs: impl IntoIterator<Item = coordinator::Input>,
        cx: &mut Context<'_>,
    ) {
        for input in inputs {
            self.step(job, Input::Lead(input), cx);
        }
    }

    /// Does something as the leader of a job, and gives the job what follows; whether this node leads it.
    pub(super) fn with_led<I: IntoIterator<Item = coordinator::Input>>(
        &mut self,
        job: JobId,
        act: impl FnOnce(&mut Led, &Coordinator, &mut Context<'_>) -> I,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some((coordinator, led)) = self.led_with(job) else {
            return false;
        };
        let follow = act(led, coordinator, cx);
        self.coordinate(job, follow, cx);
        true
    }

    /// Gives an input to this node's part of a job.
    pub(super) fn participate(&mut self, job: JobId, input: participant::Input, cx: &mut Context<'_>) {
        self.step(job, Input::Run(input), cx);
    }

    /// Gives an input to a job's reconfigurations.
    pub(in crate::node) fn reform(&mut self, job: JobId, input: change::Input, cx: &mut Context<'_>) {
        tracing::debug!(%job, input = %Shortened(&input));
        self.step(job, Input::Change(input), cx);
    }

    /// The same for every job that has ranks here.
    pub(in crate::node) fn reform_all(&mut self, input: &change::Input, cx: &mut Context<'_>) {
        for job in self.local_ids() {
            self.reform(job, input.clone(), cx);
        }
    }

    pub(super) fn step(&mut self, job: JobId, input: Input, cx: &mut Context<'_>) {
        let now = cx.now();
        let Some(known) = self.get_mut(job) else { return };
        if known.led.is_some() && cx.cluster.is_leaving() {
            // An heir leads it: what is decided here would be decided twice.
            return;
        }
        let step = known.machine.handle(now, input, cx.cluster.nodes());
        self.finish(job, step, cx);
    }

    /// Does something with a job, and gives the job what follows.
    pub(super) fn with_job<I: Into<at_node::Input>>(
        &mut self,
        job: JobId,
        act: impl FnOnce(&mut Job, &mut Context<'_>) -> Option<I>,
        cx: &mut Context<'_>,
    ) {
        let follows = self.get_mut(job).and_then(|known| act(known, cx));
        if let Some(input) = follows {
            self.step(job, input.into(), cx);
        }
    }

    pub(super) fn on_deadline(&mut self, job: JobId, cx: &mut Context<'_>) {
        let now = cx.now();
        let Some(known) = self.get_mut(job) else { return };
        known.armed = None;
        if known.led.is_some() && cx.cluster.is_leaving() {
            return;
        }
        let step = known.machine.tick(now);
        self.finish(job, step, cx);
    }

    /// Writes the entry of a step down, carries out its effects, arms the job's timer, and tells the heirs.
    pub(super) fn finish(&mut self, job: JobId, step: Step, cx: &mut Context<'_>) {
        let Step {
            entry,
            effects,
            renews_will,
        } = step;
        if let Some(entry) = entry {
            let entry = Box::new(entry);
            cx.record(Record::Job { job, entry });
        }
        for effect in effects {
            let Some(known) = self.get_mut(job) else {
                tracing::error!(%job, effect = %Shortened(&effect), "a job wants something after its end");
                continue;
            };
            if let Some(follow) = known.carry_out(effect, cx) {
                self.follow(job, follow, cx);
            }
        }
        if let Some(known) = self.get_mut(job) {
            known.arm(cx);
        }
        if renews_will {
            self.leave_will(job, cx);
        }
    }

    fn follow(&mut self, job: JobId, follow: Follow, cx: &mut Context<'_>) {
        use coordinator::Input::{Restarted, SpawnPlaced};
        match follow {
            Follow::Input(input) => self.step(job, input, cx),
            Follow::Place { process, number, wants } => {
                let shares = place_spawn(self, job, &wants, cx);
                let placed = SpawnPlaced {
                    process,
                    number,
                    shares,
                };
                self.coordinate(job, [placed], cx);
            }
            Follow::Restart { count } => {
                cx.note_rejoined();
                let restarted = place_restarted(self, job, count, cx);
                if let (Ok(restarted), Some((coordinator, led))) = (&restarted, self.led_with(job)) {
                    led.leading.on_restart(restarted, coordinator, cx);
                }
                self.coordinate(job, [Restarted(restarted)], cx);
            }
            Follow::Ended { end, nodes } => self.on_job_ended(job, &end, &nodes, cx),
            Follow::Launch { process } => self.launch(job, process, cx),
            Follow::Over(closing) => self.on_part_over(job, closing, cx),
        }
    }

    // A job begins or ends here.

    /// This node leads a job from now on.
    pub(super) fn lead_from_now_on(
        &mut self,
        job: JobId,
        state: Coordinator,
        led: Led,
        effects: Vec<coordinator::Effect>,
        cx: &mut Context<'_>,
    ) -> Step {
        standbys::begin(job, state.spec(), cx);
        let machine = JobAtNode::new(job, cx.own(), cx.settings.limits.clone());
        let known = self.insert(job, machine);
        known.led = Some(led);
        let mut step = known.machine.lead(state, effects);
        if let Some(entry) = step.entry.take() {
            let entry = Box::new(entry);
            cx.record(Record::Job { job, entry });
        }
        step
    }

    pub(super) fn on_job_ended(&mut self, job: JobId, end: &JobEnd, nodes: &[NodeName], cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.led_with(job) {
            led.output(coordinator, |output, view| output.finish(view, cx.out));
            led.leading.on_ended(coordinator, cx);
            led.willed.void(job, cx);
        }
        let Some((coordinator, led)) = self.stop_leading(job) else {
            return;
        };
        self.past.end(coordinator.status(), cx);
        standbys::end(job, &led.standbys, cx);
        led.attachment.say(DaemonToControl::JobEnded(end.clone()), cx);
        for node in nodes {
            cx.send_job(node, job, CoordinatorToNode::Close);
        }
        cx.out.inward(Inward::JobEnded);
    }

    pub(super) fn launch(&mut self, job: JobId, process: ProcessId, cx: &mut Context<'_>) {
        let key = ProcessKey { job, process };
        let host = cx.cluster.nodes().own().host;
        let start = self.get_mut(job).and_then(|known| known.start_with_pmix(process, cx));
        let variables = match start {
            Some(Start::Later) => return,
            Some(Start::Never(reason)) => return self.refuse_start(job, process, reason, cx),
            Some(Start::Now(variables)) => variables,
            None => Vec::new(),
        };
        let part = self.part(job);
        if let Some(mut launch) = part.and_then(|part| self.launcher.launch(key, part, host)) {
            launch.add(variables);
            return cx.out.rank(RankEffect::Launch(Box::new(launch)));
        }
        let reason = format!("process {process} of job {job} was not ordered");
        self.refuse_start(job, process, reason, cx);
    }

    /// A process that was ordered does not start.
    pub(super) fn refuse_start(&mut self, job: JobId, process: ProcessId, reason: String, cx: &mut Context<'_>) {
        let code = refusal::START_FAILED.to_owned();
        self.participate(job, participant::Input::Refused { process, code, reason }, cx);
    }

    pub(in crate::node) fn on_part_over(&mut self, job: JobId, closing: Closing, cx: &mut Context<'_>) {
        self.give_up_changes(job, cx);
        if closing == Closing::JobGoesOn {
            self.keep_words_for_next_part(job);
        }
        let Some(local) = self.stop_running(job) else {
            return;
        };
        local.end(cx.out);
        cx.store(match closing {
            Closing::JobOver => StoreInput::JobOver { job },
            Closing::JobGoesOn => StoreInput::JobEmptied { job },
        });
        cx.record(Record::PartOver { job });
        self.past.close(job);
        cx.out.inward(Inward::JobEnded);
    }

    /// A part that did not know that the job was started again took words about its next worlds for its own.
    pub(super) fn keep_words_for_next_part(&mut self, job: JobId) {
        let part = self.jobs.get(&job).and_then(|known| known.machine.part());
        let words = part.map(Participant::early).unwrap_or_default();
        for (node, message) in words {
            self.early.hold(job, node.clone(), message.clone().into());
        }
    }

    pub(super) fn give_up_changes(&mut self, job: JobId, cx: &mut Context<'_>) {
        if let Some(known) = self.get_mut(job) {
            known.give_up_changes(cx);
        }
    }

    // Of all jobs that this node leads.

    /// Tells a job's heirs what they need to know.
    pub(super) fn leave_will(&mut self, job: JobId, cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.led_with(job) {
            led.willed.leave(coordinator, led.leading.filed(), cx);
        }
    }

    /// The cluster has changed, and who inherits with it.
    pub(in crate::node) fn leave_wills(&mut self, cx: &mut Context<'_>) {
        let heirs = heirs(cx);
        for job in self.led_ids() {
            if self.led(job).is_some_and(|led| led.willed.heirs != heirs) {
                self.leave_will(job, cx);
            }
        }
    }

    /// Whether a job runs here and there, so that a broken link must be mended before there is something to say.
    pub(in crate::node) fn is_any_shared_with(&self, node: &NodeName) -> bool {
        let mut led = self.coordinators();
        let mut parts = self.parts();
        led.any(|(_, coordinator)| coordinator.has_node(node)) || parts.any(|(_, part)| part.has_part_with(node))
    }

    /// A node does not answer, so that it is taken for dead before long, or it answers again.
    pub(in crate::node) fn tell_silence(&mut self, node: &NodeName, is_silent: bool, cx: &mut Context<'_>) {
        let gone_by = cx.now().plus(cx.settings.spec.patience() + GONE_IS_HEARD_WITHIN);
        let gone_by_us = is_silent.then_some(gone_by.0);
        let led = self.coordinators();
        let with_ranks = led.filter(|(_, job)| job.is_enlisted(node) && (is_silent || job.is_silent(node)));
        for job in with_ranks.map(|(job, _)| job).collect::<Vec<_>>() {
            let node = node.clone();
            self.coordinate(job, [coordinator::Input::Silent { node, gone_by_us }], cx);
        }
    }

    /// Doubt begins or ends.
    pub(in crate::node) fn tell_doubt(&mut self, is_in_doubt: bool, cx: &mut Context<'_>) {
        for job in self.led_ids() {
            self.coordinate(job, [coordinator::Input::Doubt { is_in_doubt }], cx);
        }
    }
}
