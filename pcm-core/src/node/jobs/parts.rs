//! This node's part of each job: feeds its state machine with what the keeper, the ranks and the other nodes say, and
//! carries out what it decides.

use super::local::Local;
use super::machine::Jobs;
use super::table::Job;
use crate::job::at_node::{self, Beginning, JobAtNode};
use crate::job::participant::{self, Closing, Input, Participant};
use crate::node::context::Context;
use crate::node::event::{Held, KeeperFact, RankNews};
use crate::node::ranks::effect::{RankEffect, RankFact};
use crate::node::record::Record;
use crate::node::store::checkpoint_store::ABANDONED_AFTER;
use crate::node::store::input::StoreInput;
use crate::node::timer::{JobTimer, Timer};
use crate::reconfiguration::effects as reform;
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StartOrder, StreamToNode, WorldMessage};
use pcm_proto::reconfiguration::ReconfigurationMessage;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ranks whose coordinator's daemon is out of reach go on for so long: the keeper there starts it again in a fraction
/// of a second, and a cut-off node must not compute for ever.
const COORDINATOR_LOST_AFTER: Duration = Duration::from_secs(10);

impl Jobs {
    /// The coordinator gives this node an order.
    pub(in crate::node) fn on_order(
        &mut self,
        job: JobId,
        node: &NodeName,
        order: CoordinatorToNode,
        cx: &mut Context<'_>,
    ) {
        // The order to start comes down a tree.
        let leader = match &order {
            CoordinatorToNode::Start(start) => &start.coordinator,
            _ => node,
        };
        if !self.succession.may_order(&self.table, job, leader, cx) {
            tracing::info!(%job, %leader, "an order of a node that does not lead the job any more is ignored");
            return;
        }
        match order {
            CoordinatorToNode::Close if !self.succession.may_end(job, node) => {}
            CoordinatorToNode::Hosts(hosts) => cx.cluster.note_hosts(hosts),
            CoordinatorToNode::Standbys { count, spec } => {
                let order = self.table.launcher.standby(job, &spec, cx.cluster.nodes().own().host);
                self.standby_askers.ask(node, count, order, cx);
            }
            CoordinatorToNode::EndStandbys => cx.out.keeper(DaemonToKeeper::EndStandbys { job }),
            CoordinatorToNode::Start(start) if !is_for_this_life(&start, cx) => {
                tracing::info!(%job, %node, "an order to start was for this node before it was born again");
            }
            CoordinatorToNode::Start(start) => {
                if !self.makes_way(job, start.life, cx) {
                    return;
                }
                if self.table.runs(job) {
                    self.participate_ordered(job, node, CoordinatorToNode::Start(start), cx);
                } else {
                    self.begin_part(job, node, start, cx);
                }
            }
            order if self.table.runs(job) => self.participate_ordered(job, node, order, cx),
            CoordinatorToNode::End { .. } => {
                // The order to start may still be on its way down the tree; it must not start anything any more.
                self.table.past.close(job);
                self.table.past.forget_lost(job);
                cx.send_job(node, job, NodeToCoordinator::Cleared);
            }
            CoordinatorToNode::Close | CoordinatorToNode::Release => {
                self.table.past.close(job);
                self.table.past.forget_lost(job);
            }
            CoordinatorToNode::Confirm => cx.send_job(node, job, NodeToCoordinator::NoPart),
            order => self.keep_early(job, node, order.into()),
        }
    }

    /// Asks the nodes of the jobs led here for their parts: while this node was cut off, another one may have led a job
    /// and ended its ranks.
    pub(in crate::node) fn confirm_parts(&self, cx: &mut Context<'_>) {
        for (job, coordinator) in self.table.coordinators() {
            let has_ranks = |node: &&NodeName| coordinator.alive_on(node) > 0 && **node != cx.settings.own;
            let nodes: Vec<NodeName> = coordinator.active_nodes().filter(has_ranks).cloned().collect();
            for node in nodes {
                cx.send_job(&node, job, CoordinatorToNode::Confirm);
            }
        }
    }

    fn participate_ordered(&mut self, job: JobId, node: &NodeName, order: CoordinatorToNode, cx: &mut Context<'_>) {
        let node = node.clone();
        self.table.participate(job, Input::Ordered { node, order }, cx);
    }

    /// The first order of a job comes here.
    fn begin_part(&mut self, job: JobId, node: &NodeName, order: Box<StartOrder>, cx: &mut Context<'_>) {
        self.numbering.heard_of(job, cx);
        if self.table.past.is_closed(job) {
            return cx.send_job(node, job, NodeToCoordinator::Cleared);
        }
        self.table.past.forget_lost(job);
        let beginning = Beginning {
            kvs_prefix: format!("pcm-{}", cx.settings.spec.cluster_id),
            reign: self.succession.reign(job),
        };
        let machine = JobAtNode::new(job, cx.own(), cx.settings.limits.clone());
        let now = cx.now();
        let known = self.table.insert(job, machine);
        known.local = Some(Local::new(job));
        let step = known.machine.begin(now, node, order, beginning);
        self.table.finish(job, step, cx);
        for (node, message) in self.table.early.take(job) {
            self.on_message(job, &node, message, cx);
        }
    }

    /// What comes before the order to start waits for it.
    pub(super) fn keep_early(&mut self, job: JobId, node: &NodeName, message: JobMessage) {
        if !self.table.past.is_closed(job) {
            self.table.early.hold(job, node.clone(), message);
        }
    }

    /// A neighbour in a world's tree says something.
    pub(in crate::node) fn on_world_message(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: WorldMessage,
        cx: &mut Context<'_>,
    ) {
        // Worlds are numbered through all lives of a job, so the word can only be for the life that is meant.
        let is_for_other = |part: &Participant| part.is_for_next_life(&message) || part.is_for_other_life(&message);
        if self.table.part(job).is_none_or(is_for_other) {
            return self.table.early.hold(job, node.clone(), message.into());
        }
        let node = node.clone();
        self.table.participate(job, Input::World { node, message }, cx);
    }

    /// Another node of the job says something about its reconfiguration.
    pub(in crate::node) fn on_reconfiguration_message(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: ReconfigurationMessage,
        cx: &mut Context<'_>,
    ) {
        if !self.table.runs(job) {
            return self.keep_early(job, node, JobMessage::Reconfiguration(Box::new(message)));
        }
        let from = node.clone();
        self.table.reform(job, reform::Input::Message { from, message }, cx);
    }

    /// The reader of the job's output says something.
    pub(in crate::node) fn on_reader_said(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: StreamToNode,
        cx: &mut Context<'_>,
    ) {
        if !self.table.runs(job) {
            return self.keep_early(job, node, message.into());
        }
        self.table
            .with_job(job, |known, cx| known.on_reader_said(message, cx), cx);
    }

    /// A job that is started again replaces what it was here before, once that has ended. Whether the order can be
    /// carried out now; the coordinator repeats it.
    fn makes_way(&mut self, job: JobId, life: Epoch, cx: &mut Context<'_>) -> bool {
        let known = self.table.part(job).map(Participant::life);
        if life == Epoch(0) || known.is_some_and(|known| known >= life) {
            return true;
        }
        self.table.past.reopen(job);
        let Some(part) = self.table.part(job) else { return true };
        if !part.is_emptied() {
            let node = part.coordinator().clone();
            let order = CoordinatorToNode::End { grace_ms: 0 };
            self.table.participate(job, Input::Ordered { node, order }, cx);
            return false;
        }
        self.table.give_up_changes(job, cx);
        self.table.keep_words_for_next_part(job);
        if let Some(local) = self.table.stop_running(job) {
            local.end(cx.out);
        }
        cx.store(StoreInput::JobEmptied { job });
        cx.record(Record::PartOver { job });
        true
    }

    pub(in crate::node) fn on_keeper(&mut self, fact: KeeperFact, cx: &mut Context<'_>) {
        match fact {
            KeeperFact::Started(held) => {
                let Held { key, pid, .. } = held;
                self.attach(held, cx);
                self.table.participate(
                    key.job,
                    Input::Started {
                        process: key.process,
                        pid,
                    },
                    cx,
                );
                cx.ranks_changed();
            }
            KeeperFact::StartRefused { key, code, reason } => {
                let process = key.process;
                self.table
                    .participate(key.job, Input::Refused { process, code, reason }, cx);
            }
            KeeperFact::Exited { key, status } => self.on_exited(key, status, cx),
            KeeperFact::StandbysHeld { job, standbys } => self.standby_askers.tell(job, standbys, cx),
            KeeperFact::Parked { key, memory } => cx.store(StoreInput::Parked { key, memory }),
            KeeperFact::NotParked { key, reason } => cx.store(StoreInput::NotParked { key, reason }),
            KeeperFact::Kept { key, outcome } => cx.store(StoreInput::Kept { key, outcome }),
            KeeperFact::JobCleared {
                job,
                killed,
                segments,
                left,
            } => {
                if killed + segments + left > 0 {
                    tracing::info!(%job, killed, segments, left, "what a job left was cleared");
                }
                self.table.participate(job, Input::JobCleared, cx);
            }
        }
    }

    /// A process ended.
    fn on_exited(&mut self, key: ProcessKey, status: ExitStatus, cx: &mut Context<'_>) {
        let told_now = match self.table.local_mut(key.job) {
            Some(local) => local.ranks.on_exited(key.process, status, cx.out),
            None => Some(status),
        };
        if let Some(status) = told_now {
            self.end_process(key, status, cx);
        }
    }

    /// What a process that ended had to say was heard, or does not come.
    pub(in crate::node) fn on_last_words(&mut self, key: ProcessKey, cx: &mut Context<'_>) {
        let local = self.table.local_mut(key.job);
        if let Some(status) = local.and_then(|local| local.ranks.on_silent(key.process)) {
            self.end_process(key, status, cx);
        }
    }

    fn end_process(&mut self, key: ProcessKey, status: ExitStatus, cx: &mut Context<'_>) {
        if !self.table.holds_end(key, status, cx) {
            self.end_heard(key, status, cx);
        }
    }

    /// All that a process that ended had said was heard.
    pub(super) fn end_heard(&mut self, key: ProcessKey, status: ExitStatus, cx: &mut Context<'_>) {
        // Any other signal is judged as always: a crash.
        if let ExitStatus::Signal(signal @ (1 | 2 | 3 | 15)) = status
            && self.is_taken_away
        {
            self.lost_with_node(key, signal, cx);
        }
        if self.table.runs(key.job) {
            let local = self.table.local_mut(key.job);
            let said = local
                .map(|local| local.output.said_last(key.process))
                .unwrap_or_default();
            self.table
                .step(key.job, at_node::Input::Exited(key.process, status, said), cx);
            if let Some(known) = self.table.get_mut(key.job) {
                known.forget_if_done(key.process, cx);
            }
        } else {
            cx.out.keeper(DaemonToKeeper::Forget { key });
        }
        cx.ranks_changed();
    }

    /// An engine that takes the node away signals its ranks too. The signal alone would say that a user ends the job,
    /// so the coordinator hears of the loss first.
    fn lost_with_node(&mut self, key: ProcessKey, signal: i32, cx: &mut Context<'_>) {
        let Some(part) = self.table.part(key.job) else { return };
        let process = part.processes().get(&key.process);
        if !process.is_some_and(participant::Local::is_needed) {
            return;
        }
        let coordinator = part.coordinator().clone();
        let reason = format!(
            "node {} is taken away, and signal {signal} ended a rank before it had moved",
            cx.settings.own
        );
        cx.send_job(&coordinator, key.job, NodeToCoordinator::Lost { reason });
    }

    /// Serves a process that the keeper holds; one of an unknown job is ended.
    fn attach(&mut self, held: Held, cx: &mut Context<'_>) {
        let key = held.key;
        if self.table.local_mut(key.job).is_none() {
            cx.out.rank(RankEffect::Forget { key });
            return cx.out.keeper(DaemonToKeeper::EndJob { job: key.job });
        }
        self.table.with_job(key.job, |known, cx| known.attach(held, cx), cx);
    }

    /// Ends the spares of all jobs here; their coordinators have others started elsewhere.
    pub(in crate::node) fn end_spares(&mut self, cx: &mut Context<'_>) {
        for (job, part) in self.table.parts() {
            for process in part.spares() {
                let key = ProcessKey { job, process };
                cx.out.keeper(DaemonToKeeper::Signal { key, signal: 9 });
            }
        }
    }

    /// A process has the answer to its PMI request.
    pub(in crate::node) fn on_pmi_answered(&mut self, key: ProcessKey, cx: &mut Context<'_>) {
        let ProcessKey { job, process } = key;
        let now = cx.now();
        let Some(known) = self.table.get_mut(job) else { return };
        let is_recorded = known
            .local
            .as_mut()
            .is_some_and(|local| local.ranks.is_answer_recorded(process));
        let step = known.machine.on_answered(now, process, is_recorded);
        self.table.finish(job, step, cx);
    }

    pub(in crate::node) fn on_rank_news(&mut self, news: RankNews, cx: &mut Context<'_>) {
        if let RankNews::Silent { key, nonsense } = news {
            if let Some(reason) = nonsense {
                tracing::warn!(job = %key.job, process = %key.process, reason, "a process does not speak our protocol");
            }
            // Why a newcomer ended is in its output, which may still be on its way; the timer limits the wait.
            let is_awaited = |known: &Job| known.machine.is_joining(key.process) && !known.is_read_out(key.process);
            if !self.table.get_mut(key.job).is_some_and(|known| is_awaited(known)) {
                self.on_last_words(key, cx);
            }
            return;
        }
        if let RankNews::Pmix { helper, news } = news {
            return self.on_pmix_news(helper, news, cx);
        }
        self.table.with_job(news.job(), |known, cx| known.on_news(news, cx), cx);
    }

    pub(in crate::node) fn on_rank_fact(&mut self, fact: RankFact, cx: &mut Context<'_>) {
        match fact {
            RankFact::PmiAnswered { key } => self.on_pmi_answered(key, cx),
            fact => {
                if let Some(job) = fact.job() {
                    self.table.with_job(job, |known, cx| known.on_fact(fact, cx), cx);
                }
            }
        }
    }

    // Out of reach.

    pub(in crate::node) fn on_unlinked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        let of_node = self.table.parts().filter(|(_, part)| part.coordinator() == node);
        let after = coordinator_lost_after(cx);
        for job in of_node.map(|(job, _)| job).collect::<Vec<_>>() {
            cx.out.arm(after, Timer::Job(job, JobTimer::CoordinatorLost));
        }
    }

    pub(in crate::node) fn on_coordinator_lost_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(part) = self.table.part(job) else { return };
        let coordinator = part.coordinator().clone();
        if !is_away(&coordinator, cx) {
            return;
        }
        if part.is_emptied() {
            // Nothing runs here, but an heir may need the checkpoints that are held here.
            return cx.out.arm(ABANDONED_AFTER, Timer::Job(job, JobTimer::Abandoned));
        }
        tracing::warn!(%job, node = %coordinator, "the job's coordinator is out of reach: its ranks here are ended");
        self.table.participate(job, Input::CoordinatorLost, cx);
        let after = coordinator_lost_after(cx);
        cx.arm(after, Timer::Job(job, JobTimer::CoordinatorLost));
    }

    pub(in crate::node) fn on_abandoned_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(part) = self.table.part(job) else { return };
        if !part.is_emptied() || !is_away(part.coordinator(), cx) {
            return;
        }
        if self.succession.waits_for(job, cx) {
            cx.arm(ABANDONED_AFTER, Timer::Job(job, JobTimer::Abandoned));
        } else {
            self.table.on_part_over(job, Closing::JobOver, cx);
        }
    }

    /// The daemon started again: takes over the processes that the keeper holds, before the jobs hear of them.
    pub(in crate::node) fn take_over(&mut self, held: Vec<Held>, cx: &mut Context<'_>) -> Known {
        let mut known = Known::new();
        let mut orphans = BTreeSet::new();
        for held in held {
            let key = held.key;
            if !self.table.runs(key.job) {
                orphans.insert(key.job);
            }
            let ended = (held.pid, held.ended);
            known.entry(key.job).or_default().insert(key.process, ended);
            self.attach(held, cx);
        }
        for job in orphans {
            tracing::warn!(%job, "nothing is known of a job that has processes here: they are ended");
        }
        known
    }

    /// The jobs hear what the keeper holds.
    pub(in crate::node) fn restart(&mut self, mut held: Known, cx: &mut Context<'_>) {
        let now = cx.now();
        let jobs: Vec<JobId> = self.table.all().map(|(job, _)| job).collect();
        for job in jobs {
            let Some(known) = self.table.get_mut(job) else { continue };
            let asking = known.local.as_ref().map(|local| local.ranks.asking());
            let mut held = held.remove(&job).unwrap_or_default();
            let later = known.take_ends(&mut held);
            let asking = asking.unwrap_or_default();
            let step = known.machine.on_restarted(now, &asking, &held, cx.cluster.nodes());
            self.table.finish(job, step, cx);
            if let Some(known) = self.table.get_mut(job) {
                known.resume_pmix(cx);
            }
            for (process, status) in later {
                self.end_process(ProcessKey { job, process }, status, cx);
            }
        }
        cx.ranks_changed();
    }
}

/// Processes that the keeper holds, with how they ended.
type Known = BTreeMap<JobId, BTreeMap<ProcessId, (u32, Option<ExitStatus>)>>;

/// Not before the cluster takes a silent node for dead.
fn coordinator_lost_after(cx: &Context<'_>) -> Duration {
    COORDINATOR_LOST_AFTER.max(cx.settings.spec.patience() * 2)
}

/// Whether a job's coordinator is elsewhere and cannot be asked.
fn is_away(coordinator: &NodeName, cx: &Context<'_>) -> bool {
    *coordinator != cx.settings.own && !cx.cluster.transports().is_linked(coordinator)
}

/// Whether an order was meant for this node since its keeper runs.
fn is_for_this_life(order: &StartOrder, cx: &Context<'_>) -> bool {
    [0, cx.cluster.nodes().own().keeper_since_us].contains(&order.keeper_since_us)
}
