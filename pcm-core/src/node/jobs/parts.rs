//! This node's part of each job: feeds its state machine with what the keeper, the ranks and the other nodes say, and
//! carries out what it decides.

use super::data;
use crate::job::at_node::JobAtNode;
use crate::job::participant::{Effect, Input, Participant};
use crate::node::context::Context;
use crate::node::event::{Held, KeeperFact};
use crate::node::jobs::machine::Jobs;
use crate::node::memory::MemoryFile;
use crate::node::outbox::Inward;
use crate::node::program_requests;
use crate::node::queries::Asker;
use crate::node::ranks::effect::RankEffect;
use crate::node::ranks::local::LocalRanks;
use crate::node::ranks::pages::{PageQuestion, Reader};
use crate::node::record::Record;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::streams::part_output::PartOutput;
use crate::node::streams::part_stdin::PartStdin;
use crate::pmi::wire::Request;
use crate::reconfiguration::effects as reform;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey};
use pcm_proto::peer::{
    CoordinatorToNode, JobMessage, NodeToCoordinator, Question, StartOrder, StreamToNode, WorldMessage,
};
use pcm_proto::reconfiguration::{Attempt, ReconfigurationMessage};
use std::collections::{BTreeMap, BTreeSet};

/// What belongs to the processes of a job here, beside its machine.
#[derive(Debug)]
pub(in crate::node) struct Local {
    pub(in crate::node) ranks: LocalRanks,
    pub(in crate::node) output: PartOutput,
    pub(in crate::node) stdin: PartStdin,
    /// Requesters of reconfigurations that are under way.
    pub(in crate::node) requesters: BTreeMap<Attempt, Requester>,
}

impl Local {
    pub(in crate::node) fn new(job: JobId) -> Self {
        Self {
            ranks: LocalRanks::new(job),
            output: PartOutput::new(job),
            stdin: PartStdin::new(job),
            requesters: BTreeMap::new(),
        }
    }
}

impl Jobs {
    /// Carries out what this node's part of a job wants.
    pub(in crate::node) fn carry_out_run(&mut self, job: JobId, effect: Effect, cx: &mut Context<'_>) {
        match effect {
            Effect::Send { node, message } => cx.send_job(&node, job, message),
            Effect::Start { process } => self.launch(job, process, cx),
            Effect::Signal { process, signal } => {
                let key = ProcessKey { job, process };
                cx.out.keeper(DaemonToKeeper::Signal { key, signal });
            }
            Effect::EndJob => {
                // How far the ranks had come, for the coordinator.
                if let Some(part) = self.table.part(job) {
                    let node = part.coordinator().clone();
                    let reader = Reader::Coordinator { job, node };
                    cx.read_pages(reader, PageQuestion::Reached { job });
                }
                cx.out.keeper(DaemonToKeeper::EndJob { job });
            }
            Effect::Adopted { process } => self.read_output_of(job, process, cx),
            Effect::Answer { process, line } => {
                let key = ProcessKey { job, process };
                cx.out.rank(RankEffect::AnswerPmi { key, line });
            }
            Effect::Emptied => self.on_part_emptied(job, cx),
            Effect::Over => self.on_part_over(job, cx),
        }
    }

    /// The coordinator gives this node an order.
    pub(in crate::node) fn on_order(
        &mut self,
        job: JobId,
        node: &NodeName,
        order: CoordinatorToNode,
        cx: &mut Context<'_>,
    ) {
        match order {
            CoordinatorToNode::Hosts(hosts) => cx.cluster.note_hosts(hosts),
            CoordinatorToNode::Start(start) => {
                if !self.makes_way(job, start.restarts, cx) {
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
                self.close(job);
                cx.send_job(node, job, NodeToCoordinator::Cleared);
            }
            CoordinatorToNode::Close => self.close(job),
            order => self.keep_early(job, node, order.into()),
        }
    }

    fn participate_ordered(&mut self, job: JobId, node: &NodeName, order: CoordinatorToNode, cx: &mut Context<'_>) {
        let node = node.clone();
        self.participate(job, Input::Ordered { node, order }, cx);
    }

    /// The first order of a job comes here.
    fn begin_part(&mut self, job: JobId, node: &NodeName, order: Box<StartOrder>, cx: &mut Context<'_>) {
        self.heard_of(job, cx);
        if self.closed.contains(&job) {
            return cx.send_job(node, job, NodeToCoordinator::Cleared);
        }
        let prefix = format!("pcm-{}", cx.settings.spec.cluster_id);
        let machine = JobAtNode::new(job, cx.own(), cx.settings.limits.clone());
        let now = cx.now();
        let known = self.table.insert(job, machine);
        known.local = Some(Local::new(job));
        let step = known.machine.begin(now, node, order, prefix);
        self.finish(job, step, cx);
        for (node, message) in self.early.take(job) {
            self.on_message(job, &node, message, cx);
        }
    }

    /// What comes before the order to start waits for it.
    fn keep_early(&mut self, job: JobId, node: &NodeName, message: JobMessage) {
        if !self.closed.contains(&job) {
            self.early.hold(job, node.clone(), message);
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
        if !self.table.runs(job) {
            return self.keep_early(job, node, message.into());
        }
        let node = node.clone();
        self.participate(job, Input::World { node, message }, cx);
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
        self.reform(job, reform::Input::Message { from, message }, cx);
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
        match message {
            StreamToNode::OutputTaken { process, stream, bytes } => {
                self.on_part_output_taken(job, process, stream, bytes, cx);
            }
            StreamToNode::OutputFrom(from) => self.on_output_from(job, &from, cx),
            StreamToNode::Stdin { offset, bytes } => self.on_part_stdin(job, offset, bytes, cx),
        }
    }

    /// A job that is started again replaces what it was here before, once that has ended. Whether the order can be
    /// carried out now; the coordinator repeats it.
    fn makes_way(&mut self, job: JobId, restarts: u32, cx: &mut Context<'_>) -> bool {
        let known = self.table.part(job).map(Participant::restarts);
        if restarts == 0 || known.is_some_and(|known| known >= restarts) {
            return true;
        }
        self.closed.retain(|closed| *closed != job);
        let Some(part) = self.table.part(job) else { return true };
        if !part.is_emptied() {
            let node = part.coordinator().clone();
            let order = CoordinatorToNode::End { grace_ms: 0 };
            self.participate(job, Input::Ordered { node, order }, cx);
            return false;
        }
        self.reform_given_up(job, cx);
        if let Some(local) = self.table.stop_running(job) {
            local.ranks.forget_all(cx.out);
        }
        cx.store(StoreInput::JobEmptied { job });
        cx.record(Record::PartOver { job });
        true
    }

    pub(in crate::node) fn on_keeper(&mut self, fact: KeeperFact, cx: &mut Context<'_>) {
        match fact {
            KeeperFact::Started(held) => {
                let Held { key, pid, .. } = held;
                self.attach_rank(held, cx);
                self.participate(
                    key.job,
                    Input::Started {
                        process: key.process,
                        pid,
                    },
                    cx,
                );
                cx.ranks_changed();
            }
            KeeperFact::StartRefused { key, code, reason } => self.on_not_started(key, code, reason, cx),
            KeeperFact::Exited { key, status } => self.on_exited(key, status, cx),
            KeeperFact::Parked { key, memory } => cx.store(StoreInput::Parked { key, memory }),
            KeeperFact::NotParked { key, reason } => cx.store(StoreInput::NotParked { key, reason }),
            KeeperFact::JobCleared {
                job,
                killed,
                segments,
                left,
            } => {
                if killed + segments + left > 0 {
                    tracing::info!(%job, killed, segments, left, "what a job left was cleared");
                }
                self.participate(job, Input::JobCleared, cx);
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
        if self.table.runs(key.job) {
            self.participate(
                key.job,
                Input::Exited {
                    process: key.process,
                    status,
                },
                cx,
            );
            self.forget_if_done(key.job, key.process, cx);
        } else {
            cx.out.keeper(DaemonToKeeper::Forget { key });
        }
        cx.ranks_changed();
    }

    /// Serves a process that the keeper holds.
    fn attach_rank(&mut self, held: Held, cx: &mut Context<'_>) {
        let key = held.key;
        let Some(part) = self.table.local_mut(key.job) else {
            cx.out.rank(RankEffect::Forget { key });
            cx.out.keeper(DaemonToKeeper::EndJob { job: key.job });
            return;
        };
        if part.ranks.contains(key.process) {
            return;
        }
        match held.attached {
            Ok(attached) => {
                part.ranks.on_attached(attached, cx.now());
                if attached.has_stdin {
                    part.stdin.on_attached(key.process, cx.out);
                }
                self.read_output_of(key.job, key.process, cx);
            }
            Err(error) => {
                tracing::error!(job = %key.job, process = %key.process, error, "a process cannot be served");
                self.participate(
                    key.job,
                    Input::Aborting {
                        process: key.process,
                        code: 1,
                    },
                    cx,
                );
            }
        }
    }

    /// What a process prints is output of the job, unless it is a spare: nobody may ever take that.
    fn read_output_of(&mut self, job: JobId, process: ProcessId, cx: &mut Context<'_>) {
        let Some((part, local)) = self.table.local_with(job) else {
            return;
        };
        if !part.is_spare(process) && local.ranks.contains(process) {
            local.output.read(process, cx.out);
        }
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

    /// A rank asks its process manager.
    pub(in crate::node) fn on_pmi(&mut self, key: ProcessKey, request: Request, cx: &mut Context<'_>) {
        if let Some(local) = self.table.local_mut(key.job) {
            local.ranks.on_request(key.process, &request);
        }
        self.participate(
            key.job,
            Input::Pmi {
                process: key.process,
                request,
            },
            cx,
        );
    }

    /// The library in a rank says something.
    pub(in crate::node) fn on_app(
        &mut self,
        key: ProcessKey,
        message: AppToDaemon,
        memory: Option<MemoryFile>,
        cx: &mut Context<'_>,
    ) {
        let ProcessKey { job, process } = key;
        match message {
            AppToDaemon::Initialized { .. } => {
                if let Some(local) = self.table.local_mut(job) {
                    local.ranks.on_initialized(process);
                }
                cx.ranks_changed();
            }
            AppToDaemon::Aborting { code } => self.participate(job, Input::Aborting { process, code }, cx),
            AppToDaemon::Resize { ranks } => self.on_program_request(job, ranks, cx),
            AppToDaemon::Finalizing => self.reform(job, reform::Input::Finalizing { process }, cx),
            about_data => {
                if let Some(input) = data::of_rank(key, about_data, memory) {
                    cx.store(input);
                }
            }
        }
    }

    /// A rank requests another number of ranks for its job.
    fn on_program_request(&mut self, job: JobId, ranks: u32, cx: &mut Context<'_>) {
        let Some(known) = self.table.get(job) else { return };
        let Some(part) = known.machine.part() else { return };
        let size = known.machine.layout().map_or(0, |layout| layout.size() as u32);
        if let Some(request) = program_requests::request(job, ranks, size) {
            let question = Question::Control(Box::new(request));
            let within = program_requests::REQUEST_WITHIN;
            cx.ask(part.coordinator(), question, Asker::Program { job }, within);
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
        self.finish(job, step, cx);
    }

    /// The keeper may let go of a process that ended once its output was read to the end.
    pub(in crate::node) fn forget_if_done(&mut self, job: JobId, process: ProcessId, cx: &mut Context<'_>) {
        let Some((part, local)) = self.table.local_with(job) else {
            return;
        };
        let has_ended = part
            .processes()
            .get(&process)
            .is_some_and(|process| !process.is_alive());
        if has_ended && local.output.has_ended(process) {
            local.ranks.forget(process, cx.out);
        }
    }

    pub(in crate::node) fn on_part_over(&mut self, job: JobId, cx: &mut Context<'_>) {
        self.reform_given_up(job, cx);
        let Some(local) = self.table.stop_running(job) else {
            return;
        };
        local.ranks.forget_all(cx.out);
        cx.store(StoreInput::JobOver { job });
        cx.record(Record::PartOver { job });
        self.close(job);
        cx.out.inward(Inward::JobEnded);
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
            self.attach_rank(held, cx);
        }
        for job in orphans {
            tracing::warn!(%job, "nothing is known of a job that has processes here: they are ended");
        }
        known
    }

    /// The jobs hear what the keeper holds.
    pub(in crate::node) fn restart(&mut self, mut held: Known, cx: &mut Context<'_>) {
        let now = cx.now();
        for job in self.table.local_ids() {
            let Some(known) = self.table.get_mut(job) else { continue };
            let asking = known.local.as_ref().map(|local| local.ranks.asking());
            let held = held.remove(&job).unwrap_or_default();
            let asking = asking.unwrap_or_default();
            let step = known.machine.on_restarted(now, &asking, &held, cx.cluster.nodes());
            self.finish(job, step, cx);
        }
        cx.ranks_changed();
    }
}

/// Processes that the keeper holds, with how they ended.
type Known = BTreeMap<JobId, BTreeMap<ProcessId, (u32, Option<ExitStatus>)>>;
