//! The store as the node sees it: passes each input to the part that it is for, finds images that are here for the
//! processes and nodes that ask, and holds the copies that have come.

use super::ahead;
use super::arrival::CopyOrder;
use super::checkpoint_store::{CheckpointStore, HeldBuffer};
use super::effect::StoreEffect;
use super::end::EndAddresses;
use super::image_key::ImageKey;
use super::inbound::Inbound;
use super::input::StoreInput;
use super::outbound::Outbound;
use super::relaunch_store::RelaunchStore;
use super::route::AllowedRoutes;
use super::step::{Step, Surroundings};
use crate::moment::Moment;
use crate::node::memory::MemoryFile;
use crate::node::outbox::Outbox;
use crate::node::record::{Holding, PartKey, Record};
use crate::reconfiguration::{effects::Input, meet_order};
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, CheckpointOrder, IntoFiles};
use pcm_proto::ids::{CheckpointId, JobId, NodeName, ProcessId, Rank};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::layout::Mode;
use pcm_proto::parked::{Asked, BlockRun, ParkKey, RestoreAnswer, RestoreAsk};
use pcm_proto::reconfiguration::{Attempt, ReconfigurationOrder, ReconfigurationReport, Trouble};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All data of jobs that this node deals with.
#[derive(Debug, Default)]
pub struct Store {
    checkpoints: CheckpointStore,
    relaunch: RelaunchStore,
    inbound: Inbound,
    outbound: Outbound,
}

impl Store {
    /// Takes no better route than this.
    pub fn allow(&mut self, allowed: AllowedRoutes) {
        self.inbound.routes().allow(allowed);
    }

    /// Bulk transfers come in here from now on.
    pub fn open(&mut self, ends: EndAddresses) {
        self.inbound.routes().open(ends);
    }

    /// What a successor has to know.
    pub fn records(&self) -> Vec<Record> {
        self.checkpoints.records()
    }

    /// Whether a part of a checkpoint is held here that may have no copy elsewhere yet.
    pub fn holds_unsettled(&self) -> bool {
        self.checkpoints.holds_unsettled()
    }

    /// Whether parts of checkpoints are held here for jobs that this node coordinates.
    pub fn holds_for(&self, node: &NodeName) -> bool {
        self.checkpoints.holds_for(node)
    }

    /// Jobs of which parts of checkpoints are held here, and that this node coordinates.
    pub fn jobs_led_by(&self, node: &NodeName) -> BTreeSet<JobId> {
        self.checkpoints.jobs_led_by(node)
    }

    /// The daemon started again: takes over what the keeper holds.
    pub fn take_over(
        &mut self,
        parked: Vec<(ParkKey, Option<MemoryFile>)>,
        (held, known): (Vec<HeldBuffer>, BTreeMap<BufferKey, Holding>),
        around: &dyn Surroundings,
        out: &mut Outbox,
    ) {
        let mut step = Step { around, out };
        for (key, memory) in parked {
            self.relaunch.take_over(key, memory, &mut step);
        }
        self.checkpoints.take_over(held, known, &mut step);
    }

    /// The routes that images take from these nodes now.
    pub fn routes_in_use(&self, now: Moment, around: &dyn Surroundings, nodes: &[NodeName]) -> String {
        self.inbound.routes.in_use(now, around, nodes)
    }

    /// Why copies do not come over InfiniBand or RoCE, where there is a device for datagrams.
    pub fn why_not_rdma(&self, now: Moment, has_device: bool) -> Vec<String> {
        self.inbound.routes.why_not_rdma(now, has_device)
    }

    /// Takes an input.
    pub fn handle(&mut self, input: StoreInput, around: &dyn Surroundings, out: &mut Outbox) {
        let mut step = Step { around, out };
        self.on_input(input, &mut step);
        while let Some(copy) = self.inbound.take_finished() {
            self.checkpoints.hold_copy(copy, self.inbound.pool(), &mut step);
        }
    }

    fn on_input(&mut self, input: StoreInput, step: &mut Step<'_>) {
        match input {
            StoreInput::Summed { key, id, tally } => {
                self.checkpoints.on_summed(key, id, tally, self.inbound.pool(), step);
            }
            StoreInput::Kept { key, outcome } => {
                self.checkpoints
                    .on_keeper_answered(key, outcome, self.inbound.pool(), step);
            }
            StoreInput::Unwritable { key, attempt, reason } => self.inbound.on_unwritable(key, attempt, &reason, step),
            StoreInput::BorrowerAsks { number, key } => {
                let memory = self.image_for_others(key).map(|memory| memory.id);
                step.push(StoreEffect::Lend { number, memory });
            }
            StoreInput::Lent { key, attempt, lent } => self.inbound.on_lent(key, attempt, lent, step),
            StoreInput::Offered { key, attempt, region } => self.inbound.on_offered(key, attempt, region, step),
            StoreInput::Came {
                key,
                attempt,
                is_memory_left,
                outcome,
            } => self.inbound.on_came(key, attempt, is_memory_left, outcome, step),
            StoreInput::PutEnded { number, outcome } => self.outbound.on_ended(number, outcome, step),
            StoreInput::Parked { key, memory } => self.relaunch.on_parked(key, memory, step),
            StoreInput::NotParked { key, reason } => self.relaunch.on_not_parked(key, reason, step),
            StoreInput::Block { key, node, came } => self.inbound.on_block(key, &node, came, step),
            StoreInput::Image { key, node, message } => self.on_image_message(key, &node, message, step),
            StoreInput::Checkpoint { job, node, message } => self.on_checkpoint(job, &node, message, step),
            StoreInput::NodeLinked { node } => self.inbound.on_linked(&node, step),
            StoreInput::CoordinatorLinked { node } => self.checkpoints.on_coordinator_linked(&node, step),
            StoreInput::NodeReplaced { node } => self.inbound.routes().forget_node(&node),
            StoreInput::NodeGone { node } => {
                CheckpointStore::on_node_gone(&node, step);
                self.outbound.on_node_gone(&node, step);
                self.inbound.on_node_gone(&node, step);
            }
            StoreInput::RdmaHeard { node } => self.inbound.routes().on_rdma_heard(&node),
            StoreInput::Led { job, by } => {
                self.checkpoints.on_led(job, &by, step);
                self.inbound.on_led(job, &by);
            }
            StoreInput::HeldTimer => self.checkpoints.on_held_timer(step),
            StoreInput::ImagesTimer => self.inbound.on_timer(step),
            StoreInput::UnneededTimer(key) => self.on_unneeded_timer(key, step),
            StoreInput::AheadTimer(key) => ahead::on_timer(key, step),
            StoreInput::OrphansTimer(node) => {
                self.checkpoints.on_orphans_timer(&node, self.inbound.pool(), step);
            }
            input => self.on_local_input(input, step),
        }
    }

    /// What ranks say, and what other parts of the node want.
    fn on_local_input(&mut self, input: StoreInput, step: &mut Step<'_>) {
        match input {
            StoreInput::ParkHanded { key, memory } => self.relaunch.on_handed(key, memory, step),
            StoreInput::ConstantData { key, table, stretches } => on_constant_data(key, table, stretches, step),
            StoreInput::Report { process, report } => self.on_report(process, report, step),
            StoreInput::RestoreAsked { asker, ask } => self.on_restore_asked(asker, ask, step),
            StoreInput::RestoreFailed {
                process,
                reason,
                is_unanswered,
            } => on_restore_failed(process, (reason, is_unanswered), step),
            StoreInput::RankCheckpoint { from, said, memory } => self.checkpoints.on_rank(from, said, memory, step),
            StoreInput::TellPlanAhead { job, process } => tell_plan_ahead(ProcessKey { job, process }, step),
            StoreInput::Salvage { key } => self.relaunch.salvage(key, step),
            StoreInput::DropParked { job, attempt } => self.drop_parked(job, attempt, step),
            StoreInput::JobEmptied { job } => {
                self.forget_of_ranks(job, step);
                self.checkpoints.drop_empty(job, self.inbound.pool(), step);
            }
            StoreInput::JobOver { job } => {
                self.forget_of_ranks(job, step);
                self.forget_checkpoints(job, |_| false, step);
            }
            input => tracing::error!(?input, "an input of the store is not handled"),
        }
    }

    /// An image that is here, for another process to read.
    fn image_for_others(&mut self, key: ImageKey) -> Option<MemoryFile> {
        let ImageKey { job, name } = key;
        match name {
            ImageName::Parked { attempt, process } => self.relaunch.image(ParkKey { job, attempt, process }),
            ImageName::Part { id, rank } => self.checkpoints.part_for_others((job, id, rank)),
        }
    }

    /// Another node says something about an image that it has, or that it needs.
    fn on_image_message(&mut self, key: ImageKey, node: &NodeName, message: ImageMessage, step: &mut Step<'_>) {
        match message {
            ImageMessage::Want { block } => self.give_block(node, key, block, step),
            ImageMessage::Put { region, at } => match self.image_for_others(key) {
                Some(memory) => self.outbound.put(key, node, (region, at), memory.id, step),
                None => say_gone(node, key, step),
            },
            ImageMessage::NotPut { region, reason } => self.inbound.on_not_put(key, region, reason, step),
            ImageMessage::Gone { reason } => self.inbound.on_gone(key, node, &reason, step),
            // The driver checks its bytes first.
            ImageMessage::Block { .. } => tracing::error!("a block of an image was not checked"),
        }
    }

    fn give_block(&mut self, node: &NodeName, key: ImageKey, block: u64, step: &mut Step<'_>) {
        match self.image_for_others(key) {
            Some(memory) => step.push(StoreEffect::GiveBlock {
                node: node.clone(),
                key,
                block,
                memory: memory.id,
            }),
            None if self.relaunch.await_image(key, node, block, step) => {}
            None => say_gone(node, key, step),
        }
    }

    /// A rank says something about a reconfiguration.
    fn on_report(&mut self, process: ProcessKey, report: ReconfigurationReport, step: &mut Step<'_>) {
        let ProcessKey { job, process: id } = process;
        if let ReconfigurationReport::Moved { attempt, .. } = report {
            let key = ParkKey {
                job,
                attempt,
                process: id,
            };
            if self.relaunch.hold_back(key, &report) {
                return;
            }
        }
        if matches!(report, ReconfigurationReport::Ready { .. }) && step.relaunch(job).is_none() {
            on_checkpoint_taken_up(process, Ok(()), step);
        }
        step.reconfigure(job, Input::Report { process: id, report });
    }

    /// A restored rank asks for data, or one before a meeting for what travels ahead.
    fn on_restore_asked(&mut self, asker: ProcessKey, ask: RestoreAsk, step: &mut Step<'_>) {
        let Some((attempt, plan)) = step.engaged(asker.job) else {
            return self.on_checkpoint_asked(asker, ask, step);
        };
        match ask {
            RestoreAsk::Plan if plan.mode == Mode::Live => tell_plan_ahead(asker, step),
            RestoreAsk::Plan => {
                let answer = RestoreAnswer::Plan {
                    awaited: Some(attempt),
                    old_size: plan.old.size() as u32,
                    continues: plan.continues.clone(),
                    weights: plan.new.weights.clone(),
                };
                step.tell(asker, DaemonToApp::Restore(answer));
            }
            RestoreAsk::Blocks { asked, runs } => {
                let rank = asked.rank;
                let Some(member) = plan.old.members.get(rank.0 as usize).cloned() else {
                    return step.tell_lost(asker, asked, Some(attempt), format!("there was no rank {rank}"));
                };
                let key = ParkKey {
                    job: asker.job,
                    attempt,
                    process: member.process,
                };
                if member.node == *step.out.own() {
                    return self.relaunch.give(asker, asked, key, step);
                }
                let sources = (attempt.epoch, VecDeque::from([member.node]));
                let asker = (asker.process, asked);
                self.inbound.fetch_image(key.into(), sources, asker, runs, step);
            }
        }
    }

    /// A rank that continues others from a checkpoint asks for data.
    fn on_checkpoint_asked(&mut self, asker: ProcessKey, ask: RestoreAsk, step: &mut Step<'_>) {
        let around = step.around;
        let Some(restores) = around.job(asker.job).and_then(|job| job.restores) else {
            tracing::warn!(job = %asker.job, process = %asker.process, "a rank asks for data, but nothing is restored");
            return;
        };
        match ask {
            RestoreAsk::Plan => {
                let answer = RestoreAnswer::Plan {
                    awaited: None,
                    old_size: restores.stamp.ranks,
                    continues: (0..restores.stamp.ranks).map(|rank| Some(Rank(rank))).collect(),
                    weights: Vec::new(),
                };
                step.tell(asker, DaemonToApp::Restore(answer));
            }
            RestoreAsk::Blocks { asked, runs } => {
                let sources = restores.sources.get(asked.rank.0 as usize).cloned().unwrap_or_default();
                self.give_part(
                    asker,
                    (asked, runs),
                    (restores.stamp.id, restores.stamp.epoch, sources),
                    step,
                );
            }
        }
    }

    fn give_part(
        &mut self,
        asker: ProcessKey,
        (asked, runs): (Asked, Vec<BlockRun>),
        (id, epoch, sources): (CheckpointId, pcm_proto::ids::Epoch, Vec<NodeName>),
        step: &mut Step<'_>,
    ) {
        let key = (asker.job, id, asked.rank);
        if let Some(memory) = self.checkpoints.part_for_others(key) {
            return step.hand(asker, asked, None, memory);
        }
        let others = sources.into_iter().filter(|node| node != step.out.own());
        let sources = (epoch, others.collect());
        let asker = (asker.process, asked);
        self.inbound.fetch_image(key.into(), sources, asker, runs, step);
    }

    fn on_unneeded_timer(&mut self, key: ParkKey, step: &mut Step<'_>) {
        if self.relaunch.is_unneeded(key, step) {
            tracing::warn!(job = %key.job, attempt = %key.attempt, "parked data was never released and is dropped");
            self.drop_parked(key.job, key.attempt, step);
        }
    }

    fn drop_parked(&mut self, job: JobId, attempt: Attempt, step: &mut Step<'_>) {
        let is_over = |key: &ImageKey| key.job == job && key.attempt().is_some_and(|of| of <= attempt);
        self.inbound.forget(is_over, step);
        self.relaunch.drop_up_to(job, attempt, step);
    }

    /// No process of a job is here any more: what was parked, or fetched of a checkpoint, is not needed.
    fn forget_of_ranks(&mut self, job: JobId, step: &mut Step<'_>) {
        self.relaunch.forget_job(job, step);
        self.inbound.forget_of_ranks(job, step);
    }

    /// The coordinator of a job says something about its checkpoints.
    fn on_checkpoint(&mut self, job: JobId, node: &NodeName, message: CheckpointMessage, step: &mut Step<'_>) {
        match message {
            CheckpointMessage::Settled { id } => {
                self.checkpoints.on_settled(job, id, self.inbound.pool(), step);
                self.inbound.forget_restored(job, id, step);
                tell_ranks(job, CheckpointOrder::Settled { id }, step);
            }
            CheckpointMessage::GivenUp { id } => {
                self.checkpoints.on_given_up(job, id, self.inbound.pool(), step);
                self.drop_copies(job, |holds| holds.stamp.id == id, step);
                tell_ranks(job, CheckpointOrder::GivenUp { id }, step);
            }
            CheckpointMessage::Forget { but } => self.forget_checkpoints(job, |id| Some(id) == but, step),
            CheckpointMessage::RolledBack { to } => self.forget_checkpoints(job, |id| id <= to, step),
            CheckpointMessage::Drop { id, rank } => {
                self.drop_copies(job, |holds| holds.stamp.id == id && holds.rank == rank, step);
            }
            CheckpointMessage::Make { into } => tell_first_rank(job, into, step),
            CheckpointMessage::Copy {
                stamp,
                rank,
                process,
                from,
            } => {
                let part = (job, stamp.id, rank);
                let copy = CopyOrder {
                    stamp,
                    process,
                    coordinator: node.clone(),
                };
                if !self.checkpoints.say_held(part, step) {
                    self.inbound.order_copy(part, from, copy, step);
                }
            }
            _ => {}
        }
    }

    fn drop_copies(&mut self, job: JobId, is_over: impl Fn(&Holding) -> bool, step: &mut Step<'_>) {
        let is_over = |key: &BufferKey, holds: Option<&Holding>| key.is_copy && holds.is_some_and(&is_over);
        self.checkpoints.drop_of_job(job, is_over, self.inbound.pool(), step);
    }

    /// Drops all of a job but these checkpoints.
    fn forget_checkpoints(&mut self, job: JobId, is_needed: impl Fn(CheckpointId) -> bool, step: &mut Step<'_>) {
        let is_over = |(of, id, _): &PartKey| *of == job && !is_needed(*id);
        self.inbound.forget_ordered(is_over);
        let is_image_over = |key: &ImageKey| match key.name {
            ImageName::Part { id, rank } => is_over(&(key.job, id, rank)),
            ImageName::Parked { .. } => false,
        };
        self.inbound.forget(is_image_over, step);
        if step.around.job(job).is_none() {
            self.inbound.routes().forget_job(job);
        }
        let is_unneeded = |_: &BufferKey, holds: Option<&Holding>| holds.is_none_or(|holds| !is_needed(holds.stamp.id));
        self.checkpoints
            .drop_of_job(job, is_unneeded, self.inbound.pool(), step);
        self.inbound.start_copies(step);
    }
}

fn say_gone(node: &NodeName, key: ImageKey, step: &mut Step<'_>) {
    let own = step.out.own();
    let reason = match key.name {
        ImageName::Parked { process, .. } => {
            format!("node {own} does not hold the data of process {process} any more")
        }
        ImageName::Part { rank, .. } => format!("node {own} does not hold the part of rank {rank}"),
    };
    step.say_of_image(node, key, ImageMessage::Gone { reason });
}

/// What others need of a rank's constant data can be copied while it computes on.
fn on_constant_data(key: ParkKey, table: u64, stretches: u32, step: &mut Step<'_>) {
    let is_planned = step.engaged(key.job).is_some_and(|(known, plan)| {
        known == key.attempt && plan.mode == Mode::Live && plan.old.member(key.process).is_some()
    });
    if is_planned {
        step.out.keeper(DaemonToKeeper::Salvage { key, table, stretches });
    }
}

/// Tells a process what is planned, so that constant data can travel ahead of the meeting.
fn tell_plan_ahead(process: ProcessKey, step: &mut Step<'_>) {
    let Some((attempt, plan)) = step.engaged(process.job).filter(|(_, plan)| plan.mode == Mode::Live) else {
        return;
    };
    let meeting = Box::new(meet_order(plan, &[]));
    let order = ReconfigurationOrder::Ahead { attempt, meeting };
    step.tell(process, DaemonToApp::Reconfiguration(order));
}

fn tell_ranks(job: JobId, order: CheckpointOrder, step: &mut Step<'_>) {
    let message = Box::new(DaemonToApp::Checkpoint(order));
    step.push(StoreEffect::TellRanks { job, message });
}

fn tell_first_rank(job: JobId, into: Option<IntoFiles>, step: &mut Step<'_>) {
    let layout = step.around.job(job).and_then(|facts| facts.layout);
    let first: Option<ProcessId> = layout.and_then(|layout| Some(layout.members.first()?.process));
    if let Some(process) = first {
        let order = DaemonToApp::Checkpoint(CheckpointOrder::Make { into });
        step.tell(ProcessKey { job, process }, order);
    }
}

/// A rank cannot take up its data: the relaunch is given up, or the restart from a checkpoint.
fn on_restore_failed(key: ProcessKey, (reason, is_unanswered): (String, bool), step: &mut Step<'_>) {
    let ProcessKey { job, process } = key;
    match step.relaunch(job) {
        Some((attempt, _)) => step.report_failed(ParkKey { job, attempt, process }, Trouble::Program, reason),
        None => on_checkpoint_taken_up(key, Err((reason, is_unanswered)), step),
    }
}

/// A process that continues another has its data, or cannot get it.
fn on_checkpoint_taken_up(process: ProcessKey, outcome: Result<(), (String, bool)>, step: &mut Step<'_>) {
    let ProcessKey { job, process } = process;
    let Some(facts) = step.around.job(job) else { return };
    let Some(id) = facts.restores.map(|restores| restores.stamp.id) else {
        return;
    };
    let said = match outcome {
        Ok(()) => CheckpointMessage::Restored { process },
        Err((reason, is_unanswered)) => CheckpointMessage::NotRestored {
            id,
            reason,
            is_unanswered,
        },
    };
    step.say_checkpoint(facts.coordinator, job, said);
}
