//! Jobs outlive the node of their coordinator: each coordinator leaves a will with its heirs, and the first heir that
//! lives opens it when that node is taken for dead. An heir says so to every node; who hears it ends what runs of the
//! job and reports what it holds. Where two lead one job, the later one is right and the other lets go. Decides nothing
//! about the job itself: `pcm-core/src/job/inheriting.rs` does.

use super::heirs::{HEIRS, Will, content};
use super::led::{Audience, Led};
use crate::checkpoint::Filed;
use crate::job::coordinator::{self, Coordinator};
use crate::job::participant::{self, Closing};
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::outbox::Inward;
use crate::node::record::Record;
use crate::node::requester::Requester;
use crate::node::store::checkpoint_store::ABANDONED_AFTER;
use crate::node::store::input::StoreInput;
use crate::node::streams::job_output::JobOutput;
use crate::node::timer::Timer;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::{CoordinatorToNode, SuccessionMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A `pcmctl` finds its job's new coordinator within this time: it asks the cluster all the while.
const RETURN_AFTER_LOSS_WITHIN: Duration = Duration::from_secs(30);

/// An heir that may not open its will now looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A new will is checked after this time: a job that ends within it needs no check, and one that is renewed often
/// costs a few bytes a second.
const CHECK_AFTER: Duration = Duration::from_secs(2);

impl Jobs {
    /// Tells a job's heirs what they need to know.
    pub(super) fn leave_will(&mut self, job: JobId, cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.table.led_with(job) {
            led.willed.leave(coordinator, led.leading.filed(), cx);
        }
    }

    /// The cluster has changed, and who inherits with it.
    pub(in crate::node) fn leave_wills(&mut self, cx: &mut Context<'_>) {
        let heirs = cx.cluster.heirs(HEIRS);
        for job in self.table.led_ids() {
            if self.table.led(job).is_some_and(|led| led.willed.heirs != heirs) {
                self.leave_will(job, cx);
            }
        }
    }

    /// A coordinator or an heir says something.
    pub(in crate::node) fn on_succession(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: SuccessionMessage,
        cx: &mut Context<'_>,
    ) {
        match message {
            SuccessionMessage::Will { heirs, bytes } => self.on_will(job, node, heirs, bytes, cx),
            SuccessionMessage::WillVoid if !self.testators.counts(job, node) => {}
            SuccessionMessage::WillVoid => self.wills.void(job, node),
            SuccessionMessage::WillHeld => self.on_will_held(job, node, cx),
            SuccessionMessage::Led { reign } => self.on_led(job, node, reign, cx),
        }
    }

    fn on_will(&mut self, job: JobId, from: &NodeName, heirs: Vec<NodeName>, bytes: Vec<u8>, cx: &mut Context<'_>) {
        self.heard_of(job, cx);
        if let Some(coordinator) = self.table.coordinator(job) {
            let claim = coordinator.claim();
            return match cx.cluster.is_leaving() {
                true => {}
                false => cx.send_job(from, job, claim),
            };
        }
        let state = match content(job, &bytes) {
            Ok((state, _)) => state,
            Err(fault) => return tracing::warn!(%job, %from, fault, "a will that makes no sense is not held"),
        };
        let progress = state.progress();
        if let Some(status) = self.ended.find(job).filter(|status| status.reign > progress.reign) {
            // It was taken for lost, and the job has ended meanwhile.
            let reign = status.reign;
            return cx.send_job(from, job, SuccessionMessage::Led { reign });
        }
        if self.wills.is_outdated(job, from, progress) {
            return;
        }
        let from = from.clone();
        let will = Will {
            from,
            heirs,
            bytes,
            progress,
            is_checked: false,
            forgetful: BTreeSet::new(),
        };
        self.wills.held.insert(job, will);
        if !std::mem::replace(&mut self.wills.is_check_due, true) {
            cx.arm(CHECK_AFTER, Timer::WillsHeld);
        }
    }

    /// Asks for each will that is new whether it is still good: the word that it is void may have been lost with a
    /// link, or overtaken by the will.
    pub(in crate::node) fn check_wills(&mut self, cx: &mut Context<'_>) {
        self.wills.is_check_due = false;
        for (job, will) in &mut self.wills.held {
            if !std::mem::replace(&mut will.is_checked, true) {
                cx.send_job(&will.from, *job, SuccessionMessage::WillHeld);
            }
        }
    }

    /// Whether a node left wills here.
    pub(in crate::node) fn holds_will_of(&self, node: &NodeName) -> bool {
        self.wills.held.values().any(|will| will.from == *node)
    }

    /// Whether this node leads, or led to their end, jobs of others that nodes may know nothing of: those behind a cut.
    pub(in crate::node) fn has_claims(&self) -> bool {
        let leads = self
            .table
            .coordinators()
            .any(|(_, coordinator)| coordinator.reign() > 0);
        leads || !self.ended.inherited().is_empty()
    }

    fn on_will_held(&mut self, job: JobId, heir: &NodeName, cx: &mut Context<'_>) {
        let led = self.table.led(job);
        let is_heir = led.is_some_and(|led| led.willed.heirs.contains(heir));
        if !is_heir {
            cx.send_job(heir, job, SuccessionMessage::WillVoid);
        }
    }

    /// A node is linked (again): wills between it and this node are renewed, and it hears who leads what.
    pub(in crate::node) fn on_wills_linked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        cx.note_rejoined();
        if cx.cluster.is_leaving() {
            // Its heirs lead its jobs.
            return;
        }
        let held = self.wills.held.iter().filter(|(_, will)| will.from == *node);
        for job in held.map(|(job, _)| *job).collect::<Vec<_>>() {
            cx.send_job(node, job, SuccessionMessage::WillHeld);
        }
        for job in self.table.led_ids() {
            let Some((coordinator, led)) = self.table.led_with(job) else {
                continue;
            };
            let is_heir = led.willed.heirs.contains(node);
            if coordinator.reign() > 0 {
                let claim = coordinator.claim();
                cx.send_job(node, job, claim);
            }
            if is_heir {
                led.willed.send(node, coordinator, led.leading.filed(), cx);
            }
        }
        for (job, reign) in self.ended.inherited() {
            cx.send_job(node, job, SuccessionMessage::Led { reign });
        }
    }

    /// Whether a node may give orders about a job: one that led it may not have heard yet which node leads it now.
    /// Whether it may say that the job is over, [`super::testators`] knows besides.
    pub(super) fn may_order(&self, job: JobId, node: &NodeName, cx: &Context<'_>) -> bool {
        match self.table.leads(job) {
            true => *node == cx.settings.own,
            false => self.testators.may_lead(job, node),
        }
    }

    /// The jobs of other nodes that this one led, as far as is known here; `held` are those of which this node holds
    /// parts of checkpoints.
    fn led_by(&self, node: &NodeName, held: BTreeSet<JobId>) -> BTreeSet<JobId> {
        let willed = self.wills.held.iter().filter(|(_, will)| will.from == *node);
        let parts = self.table.parts().filter(|(_, part)| part.coordinator() == node);
        let known = willed.map(|(job, _)| *job).chain(parts.map(|(job, _)| job));
        let known = known.chain(held).filter(|job| !self.table.leads(*job));
        known.collect()
    }

    /// A node is linked (again): it may be a new one, until it says which keeper it has.
    pub(in crate::node) fn doubt_testator(&mut self, node: &NodeName, held: BTreeSet<JobId>) {
        let led = self.led_by(node, held);
        self.testators.doubt(node, led);
    }

    /// A node has the keeper that was known; whether it has to hear everything again, because what it said before that
    /// did not count.
    pub(in crate::node) fn trust_testator(&mut self, node: &NodeName) -> bool {
        self.testators.trust(node)
    }

    /// A node is a new one: for the jobs of the one before it that is dead.
    pub(in crate::node) fn bury_testator(&mut self, node: &NodeName, held: BTreeSet<JobId>, cx: &mut Context<'_>) {
        self.wills
            .on_reborn(node, |testator| cx.cluster.nodes().is_live(testator));
        let led = self.led_by(node, held);
        for job in self.testators.bury(node, led) {
            tracing::warn!(%job, %node, "the job's coordinator is back as a new node, which knows nothing of it");
            if self.table.part(job).is_some_and(|part| !part.is_emptied()) {
                self.participate(job, participant::Input::CoordinatorLost, cx);
            }
            cx.arm(ABANDONED_AFTER, Timer::Orphan(job));
        }
        self.open_wills(cx);
    }

    /// No node took over a job whose coordinator is back as a new node: what is held of it here is of no use.
    pub(in crate::node) fn on_orphan_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        if !self.testators.is_orphan(job) {
            return;
        }
        if self.waits_for(job, cx) {
            return cx.arm(ABANDONED_AFTER, Timer::Orphan(job));
        }
        tracing::warn!(%job, "no node leads this job any more: what is held of it here is dropped");
        self.testators.forget(job);
        self.wills.held.remove(&job);
        match self.table.runs(job) {
            true => self.on_part_over(job, Closing::JobOver, cx),
            false => cx.store(StoreInput::JobOver { job }),
        }
    }

    /// Whether this node may take over a job as soon as it sees enough of the cluster.
    pub(super) fn waits_for(&self, job: JobId, cx: &Context<'_>) -> bool {
        self.wills.held.contains_key(&job) && cx.is_cut_off()
    }

    /// Looks again whether this node may take jobs over.
    pub(in crate::node) fn look_at_wills(&mut self, cx: &mut Context<'_>) {
        self.wills.is_look_due = false;
        self.open_wills(cx);
    }

    fn look_again(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.wills.is_look_due, true) {
            cx.arm(LOOK_AGAIN, Timer::Wills);
        }
    }

    /// Takes over the jobs whose coordinator's node is gone, and every heir before this one with it.
    pub(in crate::node) fn open_wills(&mut self, cx: &mut Context<'_>) {
        cx.note_rejoined();
        let mine = self.wills.held.iter().filter(|(job, will)| {
            let is_live = |node: &NodeName| cx.cluster.nodes().is_live(node);
            let may_answer = is_live(&will.from) && !self.testators.is_dead(**job, &will.from);
            !may_answer && !will.heirs_before(&cx.settings.own).any(is_live)
        });
        let mine: Vec<JobId> = mine.map(|(job, _)| *job).collect();
        if mine.is_empty() || cx.cluster.is_leaving() {
            return;
        }
        let of = |job: &JobId| self.wills.held.get(job).map(|will| &will.from);
        if mine
            .iter()
            .filter_map(of)
            .any(|node| cx.cluster.is_just_lost(cx.now(), node))
        {
            return self.look_again(cx);
        }
        if cx.cluster.is_just_awake(cx.now()) {
            // Those that it took for dead may be the ones who went on.
            return self.look_again(cx);
        }
        if cx.is_cut_off() || cx.is_going_down {
            tracing::warn!("this node sees too little of the cluster to take over its jobs");
            return self.look_again(cx);
        }
        for job in mine {
            if let Some(will) = self.wills.held.remove(&job) {
                self.inherit(job, &will, cx);
            }
        }
    }

    fn inherit(&mut self, job: JobId, will: &Will, cx: &mut Context<'_>) {
        let (state, filed) = match content(job, &will.bytes) {
            Ok(content) => content,
            Err(fault) => return tracing::error!(%job, from = %will.from, fault, "the job is lost with its will"),
        };
        let now_us = cx.now().0;
        let (state, effects) = state.inherit(cx.own(), &will.from, now_us);
        let filed = filed
            .into_iter()
            .map(|(iteration, directory)| Filed { iteration, directory });
        let filed = filed.collect();
        let (is_detached, claim) = (state.spec().detached, state.claim());
        let output = if is_detached {
            JobOutput::to_files(job, BTreeMap::new(), cx.out)
        } else {
            JobOutput::to_absent_control(job)
        };
        let mut led = Led::new(&state, Audience::Detached, output, cx.now());
        led.leading.take_over(job, filed, cx);
        match cx.cluster.nodes().host(&will.from) == cx.cluster.nodes().own().host {
            _ if is_detached => {}
            // Of a host that is this one nobody is cut off: a `pcmctl` that does not come has ended.
            true => led.await_return(job, RETURN_AFTER_LOSS_WITHIN, cx),
            false => led.seek(job, RETURN_AFTER_LOSS_WITHIN, cx),
        }
        let step = self.lead_from_now_on(job, state, led, effects, cx);
        let nodes: Vec<NodeName> = cx.cluster.nodes().others().map(|report| report.node).collect();
        for node in nodes.into_iter().chain([cx.own()]) {
            cx.send_job(&node, job, claim.clone());
        }
        if is_detached && let Some((coordinator, led)) = self.table.led_with(job) {
            // What the lost coordinator had not taken is still with the ranks' nodes.
            led.output(coordinator, |output, view| output.ask(None, view, cx.out));
        }
        self.finish(job, step, cx);
        // What was said of these before this node led the job is not said again.
        let nodes = self
            .table
            .coordinator(job)
            .into_iter()
            .flat_map(Coordinator::nodes_with_output);
        let gone: Vec<NodeName> = nodes.filter(|node| !cx.cluster.may_live(node)).cloned().collect();
        for node in gone {
            self.coordinate(job, coordinator::Input::NodeGone { node }, cx);
        }
    }

    /// Another daemon leads this job in place of one that it takes for lost.
    fn on_led(&mut self, job: JobId, node: &NodeName, reign: u32, cx: &mut Context<'_>) {
        if let Some(coordinator) = self.table.coordinator(job) {
            let own = (coordinator.reign(), std::cmp::Reverse(&cx.settings.own));
            if own > (reign, std::cmp::Reverse(node)) {
                let claim = coordinator.claim();
                return cx.send_job(node, job, claim);
            }
            if *node != cx.settings.own {
                self.abdicate(job, node, cx);
            }
        }
        if self.ended.find(job).is_some_and(|status| status.reign < reign) {
            self.ended.forget(job);
        }
        if reign < self.wills.reign(job) {
            // It has not heard that yet another leads the job.
            return;
        }
        self.wills.on_led(job, node, reign);
        self.wills.note_reign(job, reign);
        self.testators.on_led(job, node);
        let by = node.clone();
        cx.store(StoreInput::Led { job, by });
        let by = node.clone();
        cx.out.inward(Inward::Led { job, by, reign });
    }

    /// Another daemon leads a job, and knows which checkpoints of it are here: it hears of the processes here.
    pub(in crate::node) fn say_part(&mut self, job: JobId, node: NodeName, reign: u32, cx: &mut Context<'_>) {
        if self.table.runs(job) {
            self.participate(job, participant::Input::Led { node, reign }, cx);
        }
    }

    /// This node was taken for lost, and another leads its job.
    fn abdicate(&mut self, job: JobId, to: &NodeName, cx: &mut Context<'_>) {
        tracing::warn!(%job, node = %to, "another node leads the job: this one was taken for lost");
        let stopped = self.table.stop_leading(job);
        cx.record(Record::Abdicated { job });
        let Some((coordinator, mut led)) = stopped else { return };
        let own = cx.own();
        for node in coordinator.active_nodes().filter(|node| ![to, &own].contains(node)) {
            // The other may not know that the job is there.
            cx.send_job(node, job, CoordinatorToNode::End { grace_ms: 0 });
        }
        led.output.close(cx.out);
        led.leading.on_abdicated(job, to, cx);
        if let Some(link) = led.link {
            let node = to.clone();
            cx.answer(Requester::Control(link), DaemonToControl::LedBy { node });
        }
    }
}
