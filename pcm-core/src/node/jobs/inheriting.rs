//! Jobs change their leader: wills are left with heirs, an heir takes over the jobs of a lost coordinator, and a
//! coordinator that was taken for lost lets go. Where two lead one job, the later one is right. Decides nothing about
//! the job itself: `pcm-core/src/job/inheriting.rs` does.

use super::heirs::{Will, content};
use super::led::{Led, RETURN_AFTER_RESTART_WITHIN};
use super::local::Local;
use super::machine::Jobs;
use super::standbys;
use crate::checkpoint::Filed;
use crate::job::at_node::JobAtNode;
use crate::job::coordinator::{self, Coordinator};
use crate::job::participant::{self, Closing};
use crate::node::context::Context;
use crate::node::outbox::Inward;
use crate::node::record::Record;
use crate::node::store::checkpoint_store::ABANDONED_AFTER;
use crate::node::store::input::StoreInput;
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::{CoordinatorToNode, SuccessionMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A `pcmctl` finds its job's new coordinator within this time: it asks the cluster all the while.
const RETURN_AFTER_LOSS_WITHIN: Duration = Duration::from_secs(30);

/// How far each stream of each job had come.
type Offsets = BTreeMap<JobId, BTreeMap<(ProcessId, Stream), u64>>;

impl Jobs {
    /// A coordinator or an heir says something.
    pub(super) fn on_succession(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: SuccessionMessage,
        cx: &mut Context<'_>,
    ) {
        match message {
            SuccessionMessage::Will { heirs, bytes } => {
                self.numbering.heard_of(job, cx);
                self.succession.on_will(job, node, (heirs, bytes), &self.table, cx);
            }
            SuccessionMessage::WillVoid => self.succession.on_void(job, node),
            SuccessionMessage::WillHeld => {
                let led = self.table.led(job);
                if !led.is_some_and(|led| led.willed.is_heir(node)) {
                    cx.send_job(node, job, SuccessionMessage::WillVoid);
                }
            }
            SuccessionMessage::Led { reign } => self.on_led(job, node, reign, cx),
        }
    }

    /// Whether this node leads, or led to their end, jobs of others that nodes may know nothing of: those behind a cut.
    pub(in crate::node) fn has_claims(&self) -> bool {
        let mut led = self.table.coordinators();
        led.any(|(_, coordinator)| coordinator.reign() > 0) || !self.table.past.inherited().is_empty()
    }

    /// A node is linked (again): wills between it and this node are renewed, and it hears who leads what.
    pub(super) fn on_heirs_linked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        cx.note_rejoined();
        if cx.cluster.is_leaving() {
            // Its heirs lead its jobs.
            return;
        }
        self.succession.on_linked(node, cx);
        for job in self.table.led_ids() {
            let Some((coordinator, led)) = self.table.led_with(job) else {
                continue;
            };
            if coordinator.reign() > 0 {
                let claim = coordinator.claim();
                cx.send_job(node, job, claim);
            }
            if led.willed.is_heir(node) {
                led.willed.send(node, coordinator, led.leading.filed(), cx);
            }
        }
        for (job, reign) in self.table.past.inherited() {
            cx.send_job(node, job, SuccessionMessage::Led { reign });
        }
    }

    /// A node is linked (again): it may be a new one, until it says which keeper it has.
    pub(in crate::node) fn doubt_testator(&mut self, node: &NodeName, held: BTreeSet<JobId>) {
        self.succession.doubt(node, &self.table, held);
    }

    /// A node is a new one: for the jobs of the one before it that is dead.
    pub(in crate::node) fn bury_testator(&mut self, node: &NodeName, held: BTreeSet<JobId>, cx: &mut Context<'_>) {
        for job in self.succession.bury(node, &self.table, held) {
            tracing::warn!(%job, %node, "the job's coordinator is back as a new node, which knows nothing of it");
            if self.table.part(job).is_some_and(|part| !part.is_emptied()) {
                self.table.participate(job, participant::Input::CoordinatorLost, cx);
            }
            cx.arm(ABANDONED_AFTER, Timer::Job(job, JobTimer::Orphan));
        }
        self.open_wills(cx);
    }

    /// No node took over a job whose coordinator is back as a new node: what is held of it here is of no use.
    pub(super) fn on_orphan_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        if !self.succession.is_orphan(job) {
            return;
        }
        if self.succession.waits_for(job, cx) {
            return cx.arm(ABANDONED_AFTER, Timer::Job(job, JobTimer::Orphan));
        }
        tracing::warn!(%job, "no node leads this job any more: what is held of it here is dropped");
        self.succession.forget(job);
        match self.table.runs(job) {
            true => self.table.on_part_over(job, Closing::JobOver, cx),
            false => cx.store(StoreInput::JobOver { job }),
        }
    }

    /// Looks again whether this node may take jobs over.
    pub(in crate::node) fn look_at_wills(&mut self, cx: &mut Context<'_>) {
        self.succession.on_look();
        self.open_wills(cx);
    }

    /// Takes over the jobs whose coordinator's node is gone, and every heir before this one with it.
    pub(in crate::node) fn open_wills(&mut self, cx: &mut Context<'_>) {
        for (job, will) in self.succession.open(cx) {
            self.inherit(job, &will, cx);
        }
    }

    fn inherit(&mut self, job: JobId, will: &Will, cx: &mut Context<'_>) {
        let (state, filed) = match content(job, &will.bytes) {
            Ok(content) => content,
            Err(fault) => return tracing::error!(%job, from = %will.from, fault, "the job is lost with its will"),
        };
        let (state, effects) = state.inherit(cx.own(), &will.from, cx.now().0);
        let (is_detached, claim) = (state.spec().detached, state.claim());
        let filed = filed
            .into_iter()
            .map(|(iteration, directory)| Filed { iteration, directory });
        // Of a host that is this one no reader is cut off: a `pcmctl` that does not come has ended.
        let is_cut_off = cx.cluster.nodes().host(&will.from) != cx.cluster.nodes().own().host;
        let mut led = Led::taken_over(&state, BTreeMap::new(), cx);
        led.leading.take_over(job, filed.collect(), cx);
        led.await_reader(&state, RETURN_AFTER_LOSS_WITHIN, is_cut_off, cx);
        let step = self.table.lead_from_now_on(job, state, led, effects, cx);
        let nodes: Vec<NodeName> = cx.cluster.nodes().others().map(|report| report.node).collect();
        for node in nodes.into_iter().chain([cx.own()]) {
            cx.send_job(&node, job, claim.clone());
        }
        if is_detached && let Some((coordinator, led)) = self.table.led_with(job) {
            // What the lost coordinator had not taken is still with the ranks' nodes.
            led.output(coordinator, |output, view| output.ask(None, view, cx.out));
        }
        self.table.finish(job, step, cx);
        // What was said of these before this node led the job is not said again.
        let coordinator = self.table.coordinator(job).into_iter();
        let nodes = coordinator.flat_map(Coordinator::nodes_with_output);
        let gone: Vec<NodeName> = nodes.filter(|node| !cx.cluster.may_live(node)).cloned().collect();
        let gone = gone.into_iter().map(|node| coordinator::Input::NodeGone { node });
        self.table.coordinate(job, gone, cx);
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
        self.table.past.on_led(job, reign);
        if self.succession.on_led(job, node, reign, cx) {
            let by = node.clone();
            cx.store(StoreInput::Led { job, by });
            let by = node.clone();
            cx.out.inward(Inward::Led { job, by, reign });
        }
    }

    /// Another daemon leads a job, and knows which checkpoints of it are here: it hears of the processes here.
    pub(in crate::node) fn say_part(&mut self, job: JobId, node: NodeName, reign: u32, cx: &mut Context<'_>) {
        if self.table.runs(job) {
            self.table.participate(job, participant::Input::Led { node, reign }, cx);
        }
    }

    /// This node was taken for lost, and another leads its job.
    fn abdicate(&mut self, job: JobId, to: &NodeName, cx: &mut Context<'_>) {
        tracing::warn!(%job, node = %to, "another node leads the job: this one was taken for lost");
        let stopped = self.table.stop_leading(job);
        cx.record(Record::Abdicated { job });
        let Some((coordinator, led)) = stopped else { return };
        let own = cx.own();
        for node in coordinator.active_nodes().filter(|node| ![to, &own].contains(node)) {
            // The other may not know that the job is there.
            cx.send_job(node, job, CoordinatorToNode::End { grace_ms: 0 });
        }
        led.abdicate(job, to, cx);
    }

    /// Takes in the jobs that an earlier daemon of this node knew, with output that was passed on and output that was
    /// written to files.
    pub(in crate::node) fn restore(
        &mut self,
        known: BTreeMap<JobId, JobAtNode>,
        (mut printed, mut written): (Offsets, Offsets),
        spans_hosts: bool,
        cx: &mut Context<'_>,
    ) {
        for (job, machine) in known {
            let local = machine.part().map(|_| {
                let mut local = Local::new(job);
                for ((process, stream), bytes) in printed.remove(&job).unwrap_or_default() {
                    local.output.go_on_at(process, stream, bytes);
                }
                local
            });
            let led = machine.coordinator().map(|coordinator| {
                let mut led = Led::taken_over(coordinator, written.remove(&job).unwrap_or_default(), cx);
                led.leading.take_over(job, Vec::new(), cx);
                standbys::begin(job, coordinator.spec(), cx);
                let is_cut_off = coordinator.reign() > 0 && spans_hosts;
                led.await_reader(coordinator, RETURN_AFTER_RESTART_WITHIN, is_cut_off, cx);
                led
            });
            let known = self.table.insert(job, machine);
            (known.local, known.led) = (local, led);
        }
    }
}
