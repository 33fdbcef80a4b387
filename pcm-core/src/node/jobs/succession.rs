//! Jobs outlive the node of their coordinator: each coordinator leaves a will with its heirs, and the first heir that
//! lives opens it when that node is taken for dead. An heir says so to every node; who hears it ends what runs of the
//! job and reports what it holds. Here is what other nodes left, and whether they may still speak for their jobs.

use super::heirs::{Will, Wills, content};
use super::table::Table;
use super::testators::Testators;
use crate::node::context::Context;
use crate::node::timer::Timer;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::{Heir, SuccessionMessage};
use std::collections::BTreeSet;
use std::time::Duration;

/// An heir that may not open its will now looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A new will is checked after this time: a job that ends within it needs no check, and one that is renewed often
/// costs a few bytes a second.
const CHECK_AFTER: Duration = Duration::from_secs(2);

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct Succession {
    wills: Wills,
    testators: Testators,
    /// Whether new wills are going to be checked.
    is_check_due: bool,
    /// Whether this node is going to look again whether it may open them.
    is_look_due: bool,
}

impl Succession {
    // Whose word counts.

    /// Whether a node may give orders about a job: one that led it may not have heard yet which node leads it now.
    pub(super) fn may_order(&self, table: &Table, job: JobId, node: &NodeName, cx: &Context<'_>) -> bool {
        match table.leads(job) {
            true => *node == cx.settings.own,
            false => self.testators.may_lead(job, node),
        }
    }

    /// Whether it counts when a node says that a job is over.
    pub(super) fn may_end(&mut self, job: JobId, node: &NodeName) -> bool {
        self.testators.counts(job, node)
    }

    /// The highest reign of a job that was heard of.
    pub(super) fn reign(&self, job: JobId) -> u32 {
        self.wills.reign(job)
    }

    /// A node is linked (again): it may be a new one, until it says which keeper it has. `held` are the jobs of which
    /// this node holds parts of checkpoints for that one.
    pub(super) fn doubt(&mut self, node: &NodeName, table: &Table, held: BTreeSet<JobId>) {
        let led = self.led_by(node, table, held);
        self.testators.doubt(node, led);
    }

    /// A node has the keeper that was known; whether it has to hear everything again, because what it said before that
    /// did not count.
    pub(in crate::node) fn trust(&mut self, node: &NodeName) -> bool {
        self.testators.trust(node)
    }

    /// A node is a new one: for the jobs of the one before it, which are these, that is dead.
    pub(super) fn bury(&mut self, node: &NodeName, table: &Table, held: BTreeSet<JobId>) -> BTreeSet<JobId> {
        let led = self.led_by(node, table, held);
        self.testators.bury(node, led)
    }

    /// The jobs of other nodes that this one led, as far as is known here.
    fn led_by(&self, node: &NodeName, table: &Table, held: BTreeSet<JobId>) -> BTreeSet<JobId> {
        let willed = self.wills.of(node);
        let parts = table.parts().filter(|(_, part)| part.coordinator() == node);
        let known = willed.chain(parts.map(|(job, _)| job));
        known.chain(held).filter(|job| !table.leads(*job)).collect()
    }

    /// Whether a job's coordinator is dead, and no other node leads the job.
    pub(super) fn is_orphan(&self, job: JobId) -> bool {
        self.testators.is_orphan(job)
    }

    /// A job is not needed here any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.testators.forget(job);
        self.wills.held.remove(&job);
    }

    /// A node leads a job, with this reign; whether that is news.
    pub(super) fn on_led(&mut self, job: JobId, node: &NodeName, reign: u32, cx: &Context<'_>) -> bool {
        if self
            .wills
            .is_beaten(job, node, reign, |known| cx.cluster.may_live(known))
        {
            // It has not heard that yet another leads the job.
            return false;
        }
        self.wills.on_led(job, node, reign);
        self.wills.note_reign(job, node, reign);
        self.testators.on_led(job, node);
        true
    }

    // Wills.

    /// A coordinator leaves its will here.
    pub(super) fn on_will(
        &mut self,
        job: JobId,
        from: &NodeName,
        (heirs, bytes): (Vec<Heir>, Vec<u8>),
        table: &Table,
        cx: &mut Context<'_>,
    ) {
        if let Some(coordinator) = table.coordinator(job) {
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
        if let Some(status) = table.past.find(job).filter(|status| status.reign > progress.reign) {
            // It was taken for lost, and the job has ended meanwhile.
            let reign = status.reign;
            return cx.send_job(from, job, SuccessionMessage::Led { reign });
        }
        if self.wills.is_outdated(job, from, progress) {
            return;
        }
        let will = Will::new(from.clone(), heirs, bytes, progress);
        self.wills.held.insert(job, will);
        if !std::mem::replace(&mut self.is_check_due, true) {
            cx.arm(CHECK_AFTER, Timer::WillsHeld);
        }
    }

    /// A coordinator has other heirs, or its job is over.
    pub(super) fn on_void(&mut self, job: JobId, from: &NodeName) {
        if self.testators.counts(job, from) {
            self.wills.void(job, from);
        }
    }

    /// Asks for each will that is new whether it is still good: the word that it is void may have been lost with a
    /// link, or overtaken by the will.
    pub(in crate::node) fn check(&mut self, cx: &mut Context<'_>) {
        self.is_check_due = false;
        for (job, will) in &mut self.wills.held {
            if !std::mem::replace(&mut will.is_checked, true) {
                cx.send_job(&will.from, *job, SuccessionMessage::WillHeld);
            }
        }
    }

    /// Whether a node left wills here.
    pub(in crate::node) fn holds_will_of(&self, node: &NodeName) -> bool {
        self.wills.of(node).next().is_some()
    }

    /// A node is linked (again): its wills are renewed.
    pub(super) fn on_linked(&self, node: &NodeName, cx: &mut Context<'_>) {
        for job in self.wills.of(node) {
            cx.send_job(node, job, SuccessionMessage::WillHeld);
        }
    }

    /// Whether this node may take over a job as soon as it sees enough of the cluster.
    pub(super) fn waits_for(&self, job: JobId, cx: &Context<'_>) -> bool {
        self.wills.held.contains_key(&job) && cx.is_cut_off()
    }

    /// A daemon was started again. One that had opened a will before says so in a moment; one that had not has lost
    /// it.
    pub(in crate::node) fn on_daemon_back(&mut self, cx: &mut Context<'_>) {
        if !self.wills.held.is_empty() {
            self.look_later(cx);
        }
    }

    fn look_later(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.is_look_due, true) {
            cx.arm(LOOK_AGAIN, Timer::Wills);
        }
    }

    /// Time to look again whether this node may take jobs over.
    pub(super) fn on_look(&mut self) {
        self.is_look_due = false;
    }

    /// The jobs to take over, with their wills: their coordinators' nodes are gone, and every heir before this one.
    pub(super) fn open(&mut self, cx: &mut Context<'_>) -> Vec<(JobId, Will)> {
        cx.note_rejoined();
        let mine = self.wills.held.iter().filter(|(job, will)| {
            let nodes = cx.cluster.nodes();
            let may_answer = nodes.is_live(&will.from) && !self.testators.is_dead(**job, &will.from);
            // A daemon that was started after the will was left there holds none.
            let may_open = |heir: &Heir| nodes.is_live(&heir.node) && nodes.boot(&heir.node) <= heir.boot;
            !may_answer && !will.heirs_before(&cx.settings.own).any(may_open)
        });
        let mine: Vec<JobId> = mine.map(|(job, _)| *job).collect();
        if mine.is_empty() || cx.cluster.is_leaving() {
            return Vec::new();
        }
        let now = cx.now();
        let mut testators = mine.iter().filter_map(|job| Some(&self.wills.held.get(job)?.from));
        let is_just_lost = testators.any(|node| cx.cluster.is_just_lost(now, node));
        // Those that a node just awake took for dead may be the ones who went on.
        let is_too_early = is_just_lost || cx.cluster.is_just_awake(now);
        let is_blind = !is_too_early && (cx.is_cut_off() || cx.is_going_down);
        if is_blind {
            tracing::warn!("this node sees too little of the cluster to take over its jobs");
        }
        if is_too_early || is_blind {
            self.look_later(cx);
            return Vec::new();
        }
        let opened = mine.into_iter().map(|job| Some((job, self.wills.held.remove(&job)?)));
        opened.flatten().collect()
    }
}
