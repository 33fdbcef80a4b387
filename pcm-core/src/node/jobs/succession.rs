//! Jobs outlive the node of their coordinator: each coordinator leaves a will with its heirs, and the first heir that
//! lives opens it when that node is taken for dead. An heir says so to every node; who hears it ends what runs of the
//! job and reports what it holds. Where two lead one job, the later one is right and the other lets go. Decides nothing
//! about the job itself: `pcm-core/src/job/inheriting.rs` does.

use crate::checkpoint::Filed;
use crate::job::coordinator::Coordinator;
use crate::job::participant;
use crate::moment::Moment;
use crate::node::jobs::checkpoints::Leading;
use crate::node::jobs::coordinating::{Audience, Led};
use crate::node::machine::Node;
use crate::node::record::Record;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::streams::job_output::JobOutput;
use crate::node::timer::Timer;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::frame::{self, FrameKind, HEADER_LENGTH, PAYLOAD_LENGTH_MAX};
use pcm_proto::ids::{Iteration, JobId, NodeName};
use pcm_proto::peer::SuccessionMessage;
use pcm_proto::refusal;
use std::collections::BTreeMap;
use std::time::Duration;

/// Heirs of a job: it goes on when its coordinator's node and one of these are lost at once.
const HEIRS: usize = 2;

/// A `pcmctl` finds its job's new coordinator within this time: it asks the cluster all the while.
const RETURN_AFTER_LOSS_WITHIN: Duration = Duration::from_secs(30);

/// An heir that may not open its will now looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What the coordinator told its heirs last.
#[derive(Debug, Default)]
pub(in crate::node) struct Willed {
    heirs: Vec<NodeName>,
}

#[derive(Debug)]
struct Will {
    from: NodeName,
    heirs: Vec<NodeName>,
    bytes: Vec<u8>,
}

/// Wills that other nodes left here.
#[derive(Debug, Default)]
pub(in crate::node) struct Wills {
    held: BTreeMap<JobId, Will>,
}

type Content = (Coordinator, Vec<(Iteration, Vec<u8>)>);

fn content(bytes: &[u8]) -> Option<Content> {
    frame::decode(bytes.get(HEADER_LENGTH..)?).ok()
}

impl Node {
    /// Tells a job's heirs what they need to know.
    pub(in crate::node) fn leave_will(&mut self, job: JobId) {
        let heirs = self.heirs(HEIRS);
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        let before = std::mem::replace(&mut led.willed.heirs, heirs.clone());
        for node in before.iter().filter(|node| !heirs.contains(node)) {
            self.send_job(node, job, SuccessionMessage::WillVoid);
        }
        for node in heirs {
            self.send_will(job, &node);
        }
    }

    /// The cluster has changed, and who inherits with it.
    pub(in crate::node) fn leave_wills(&mut self) {
        let heirs = self.heirs(HEIRS);
        let is_other = |job: &JobId| self.jobs.led(*job).is_some_and(|led| led.willed.heirs != heirs);
        let others = self.jobs.led_ids().into_iter().filter(is_other);
        for job in others.collect::<Vec<_>>() {
            self.leave_will(job);
        }
    }

    fn send_will(&mut self, job: JobId, node: &NodeName) {
        let Some((coordinator, led)) = self.jobs.led_with(job) else {
            return;
        };
        let filed = led.leading.filed().into_iter();
        let filed: Vec<(Iteration, Vec<u8>)> = filed.map(|one| (one.iteration, one.directory)).collect();
        let heirs = led.willed.heirs.clone();
        let mut bytes = Vec::new();
        let content = (coordinator, filed);
        if let Err(error) = frame::encode(FrameKind::Message, &content, PAYLOAD_LENGTH_MAX / 2, &mut bytes) {
            tracing::warn!(%job, %error, "the job would not outlive this node");
            return;
        }
        self.send_job(node, job, SuccessionMessage::Will { heirs, bytes });
    }

    /// The job is over: nobody inherits it.
    pub(in crate::node) fn void_will(&mut self, job: JobId) {
        let heirs = self.jobs.led_mut(job).map(|led| std::mem::take(&mut led.willed.heirs));
        for node in heirs.into_iter().flatten() {
            self.send_job(&node, job, SuccessionMessage::WillVoid);
        }
    }

    /// A coordinator or an heir says something.
    pub(in crate::node) fn on_succession(&mut self, job: JobId, node: &NodeName, message: SuccessionMessage) {
        match message {
            SuccessionMessage::Will { heirs, bytes } => self.on_will(job, node, heirs, bytes),
            SuccessionMessage::WillVoid => self.on_will_void(job, node),
            SuccessionMessage::WillHeld => self.on_will_held(job, node),
            SuccessionMessage::Led { reign } => self.on_led(job, node, reign),
        }
    }

    fn on_will(&mut self, job: JobId, from: &NodeName, heirs: Vec<NodeName>, bytes: Vec<u8>) {
        self.heard_of(job);
        if let Some(coordinator) = self.jobs.coordinator(job) {
            let claim = coordinator.claim();
            return self.send_job(from, job, claim);
        }
        let from = from.clone();
        self.wills.held.insert(job, Will { from, heirs, bytes });
    }

    fn on_will_void(&mut self, job: JobId, from: &NodeName) {
        if self.wills.held.get(&job).is_some_and(|will| will.from == *from) {
            self.wills.held.remove(&job);
        }
    }

    fn on_will_held(&mut self, job: JobId, heir: &NodeName) {
        let led = self.jobs.led(job);
        let is_heir = led.is_some_and(|led| led.willed.heirs.contains(heir));
        if !is_heir {
            self.send_job(heir, job, SuccessionMessage::WillVoid);
        }
    }

    /// A node is linked (again): wills between it and this node are renewed, and it hears who leads what.
    pub(in crate::node) fn on_wills_linked(&mut self, node: &NodeName) {
        self.note_rejoined();
        let held = self.wills.held.iter().filter(|(_, will)| will.from == *node);
        for job in held.map(|(job, _)| *job).collect::<Vec<_>>() {
            self.send_job(node, job, SuccessionMessage::WillHeld);
        }
        for job in self.jobs.led_ids() {
            let Some((coordinator, led)) = self.jobs.led_with(job) else {
                continue;
            };
            let is_heir = led.willed.heirs.contains(node);
            if coordinator.reign() > 0 {
                let claim = coordinator.claim();
                self.send_job(node, job, claim);
            }
            if is_heir {
                self.send_will(job, node);
            }
        }
        for (job, reign) in self.ended.inherited() {
            self.send_job(node, job, SuccessionMessage::Led { reign });
        }
    }

    /// A node is gone: its jobs may be ours now, and jobs here may need other heirs.
    pub(in crate::node) fn on_wills_node_gone(&mut self) {
        self.leave_wills();
        self.open_wills();
    }

    /// Takes over the jobs whose coordinator's node is gone, and every heir before this one with it.
    pub(in crate::node) fn open_wills(&mut self) {
        self.note_rejoined();
        let mine = self.wills.held.iter().filter(|(_, will)| {
            let mut before = will.heirs.iter().take_while(|heir| **heir != self.own);
            !self.nodes.is_live(&will.from) && !before.any(|heir| self.nodes.is_live(heir))
        });
        let mine: Vec<JobId> = mine.map(|(job, _)| *job).collect();
        if mine.is_empty() {
            return;
        }
        let of = |job: &JobId| self.wills.held.get(job).map(|will| &will.from);
        if mine.iter().filter_map(of).any(|node| self.is_just_lost(node)) {
            return self.out.arm(LOOK_AGAIN, Timer::Wills);
        }
        if self.is_cut_off() || self.is_going_down() {
            tracing::warn!("this node sees too little of the cluster to take over its jobs");
            return self.out.arm(LOOK_AGAIN, Timer::Wills);
        }
        for job in mine {
            if let Some(will) = self.wills.held.remove(&job) {
                self.inherit(job, &will);
            }
        }
    }

    fn inherit(&mut self, job: JobId, will: &Will) {
        let Some((state, filed)) = content(&will.bytes) else {
            tracing::error!(%job, from = %will.from, "the will of a coordinator cannot be read: the job is lost");
            return;
        };
        let now_us = self.out.now().0;
        let (state, effects) = state.inherit(self.own.clone(), &will.from, now_us);
        let filed = filed
            .into_iter()
            .map(|(iteration, directory)| Filed { iteration, directory });
        let leading = Leading::inherited(state.checkpoint(), filed.collect(), Moment(now_us));
        let (is_detached, claim) = (state.spec().detached, state.claim());
        let output = if is_detached {
            JobOutput::to_files(job, BTreeMap::new(), &mut self.out)
        } else {
            JobOutput::to_absent_control(job)
        };
        let mut led = Led::new(&state, Audience::Detached, output);
        led.leading = leading;
        let step = self.lead_from_now_on(job, state, led, effects);
        match self.nodes.host(&will.from) == self.nodes.own().host {
            _ if is_detached => {}
            // Of a host that is this one nobody is cut off: a `pcmctl` that does not come has ended.
            true => self.await_audience(job, RETURN_AFTER_LOSS_WITHIN),
            false => self.seek_audience(job, RETURN_AFTER_LOSS_WITHIN),
        }
        let nodes: Vec<NodeName> = self.nodes.others().map(|report| report.node).collect();
        for node in nodes.into_iter().chain([self.own.clone()]) {
            self.send_job(&node, job, claim.clone());
        }
        if is_detached {
            // What the lost coordinator had not taken is still with the ranks' nodes.
            self.ask_output(job, None);
        }
        self.finish(job, step);
        self.leave_will(job);
    }

    /// Another daemon leads this job in place of one that it takes for lost.
    fn on_led(&mut self, job: JobId, node: &NodeName, reign: u32) {
        if let Some(coordinator) = self.jobs.coordinator(job) {
            let own = (coordinator.reign(), std::cmp::Reverse(&self.own));
            if own > (reign, std::cmp::Reverse(node)) {
                let claim = coordinator.claim();
                return self.send_job(node, job, claim);
            }
            if *node != self.own {
                self.abdicate(job, node);
            }
        }
        if self.ended.find(job).is_some_and(|status| status.reign < reign) {
            self.ended.forget(job);
        }
        self.wills.held.remove(&job);
        let by = node.clone();
        self.store_input(StoreInput::Led { job, by });
        if self.jobs.runs(job) {
            let node = node.clone();
            self.participate(job, participant::Input::Led { node, reign });
        }
    }

    /// This node was taken for lost, and another leads its job.
    fn abdicate(&mut self, job: JobId, to: &NodeName) {
        tracing::warn!(%job, node = %to, "another node leads the job: this one was taken for lost");
        if let Some((_, mut led)) = self.jobs.stop_leading(job) {
            led.output.close(&mut self.out);
            for from in led.leading.into_requesters() {
                let message = format!("node {to} leads job {job} now: ask for the checkpoint again");
                self.answer(from, DaemonToControl::Refused(Refusal::new(refusal::ABORTED, message)));
            }
        }
        self.record(Record::Abdicated { job });
        if let Some(link) = self.controls.attached_to(job) {
            let node = to.clone();
            self.answer(Requester::Control(link), DaemonToControl::LedBy { node });
            self.controls.detach(link);
        }
    }
}
