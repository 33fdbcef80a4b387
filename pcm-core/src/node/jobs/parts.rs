//! This node's part of each job: feeds its state machine with what the keeper, the ranks and the other nodes say, and
//! carries out what it decides.

use crate::job::at_node::{self, JobAtNode};
use crate::job::participant::{Effect, Input, Participant};
use crate::node::event::{Held, KeeperFact};
use crate::node::machine::Node;
use crate::node::memory::MemoryFile;
use crate::node::ranks::effect::RankEffect;
use crate::node::ranks::local::LocalRanks;
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
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StartOrder, StreamToNode, WorldMessage};
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

impl Node {
    /// Gives an input to this node's part of a job and carries out what the job decides.
    pub(in crate::node) fn participate(&mut self, job: JobId, input: Input) {
        self.step(job, at_node::Input::Run(input));
    }

    /// Carries out what this node's part of a job wants.
    pub(in crate::node) fn carry_out_run(&mut self, job: JobId, effect: Effect) {
        match effect {
            Effect::Send { node, message } => self.send_job(&node, job, message),
            Effect::Start { process } => self.launch(job, process),
            Effect::Signal { process, signal } => {
                let key = ProcessKey { job, process };
                self.out.keeper(DaemonToKeeper::Signal { key, signal });
            }
            Effect::EndJob => {
                self.say_reached(job);
                self.out.keeper(DaemonToKeeper::EndJob { job });
            }
            Effect::Adopted { process } => self.read_output_of(job, process),
            Effect::Answer { process, line } => {
                let key = ProcessKey { job, process };
                self.out.rank(RankEffect::AnswerPmi { key, line });
            }
            Effect::Emptied => self.on_part_emptied(job),
            Effect::Over => self.on_part_over(job),
        }
    }

    /// The coordinator gives this node an order.
    pub(in crate::node) fn on_order(&mut self, job: JobId, node: &NodeName, order: CoordinatorToNode) {
        match order {
            CoordinatorToNode::Hosts(hosts) => self.nodes.note_hosts(hosts),
            CoordinatorToNode::Start(start) => {
                if !self.makes_way(job, start.restarts) {
                    return;
                }
                if self.jobs.runs(job) {
                    self.participate_ordered(job, node, CoordinatorToNode::Start(start));
                } else {
                    self.begin_part(job, node, start);
                }
            }
            order if self.jobs.runs(job) => self.participate_ordered(job, node, order),
            CoordinatorToNode::End { .. } => {
                // The order to start may still be on its way down the tree; it must not start anything any more.
                self.close(job);
                self.send_job(node, job, NodeToCoordinator::Cleared);
            }
            CoordinatorToNode::Close => self.close(job),
            order => self.keep_early(job, node, order.into()),
        }
    }

    fn participate_ordered(&mut self, job: JobId, node: &NodeName, order: CoordinatorToNode) {
        let node = node.clone();
        self.participate(job, Input::Ordered { node, order });
    }

    /// The first order of a job comes here.
    fn begin_part(&mut self, job: JobId, node: &NodeName, order: Box<StartOrder>) {
        self.heard_of(job);
        if self.closed.contains(&job) {
            return self.send_job(node, job, NodeToCoordinator::Cleared);
        }
        let prefix = format!("pcm-{}", self.spec.cluster_id);
        let machine = JobAtNode::new(job, self.own.clone(), self.limits.clone());
        let now = self.out.now();
        let known = self.jobs.insert(job, machine);
        known.local = Some(Local::new(job));
        let mut step = known.machine.begin(now, node, order, prefix);
        self.record_entry(job, &mut step);
        self.finish(job, step);
        for (node, message) in self.early.take(job) {
            self.on_job_message(job, &node, message);
        }
    }

    /// What comes before the order to start waits for it.
    fn keep_early(&mut self, job: JobId, node: &NodeName, message: JobMessage) {
        if !self.closed.contains(&job) {
            self.early.hold(job, node.clone(), message);
        }
    }

    /// A neighbour in a world's tree says something.
    pub(in crate::node) fn on_world_message(&mut self, job: JobId, node: &NodeName, message: WorldMessage) {
        if !self.jobs.runs(job) {
            return self.keep_early(job, node, message.into());
        }
        let node = node.clone();
        self.participate(job, Input::World { node, message });
    }

    /// Another node of the job says something about its reconfiguration.
    pub(in crate::node) fn on_reconfiguration_message(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: ReconfigurationMessage,
    ) {
        if !self.jobs.runs(job) {
            return self.keep_early(job, node, JobMessage::Reconfiguration(Box::new(message)));
        }
        let from = node.clone();
        self.reform(job, reform::Input::Message { from, message });
    }

    /// The reader of the job's output says something.
    pub(in crate::node) fn on_reader_said(&mut self, job: JobId, node: &NodeName, message: StreamToNode) {
        if !self.jobs.runs(job) {
            return self.keep_early(job, node, message.into());
        }
        match message {
            StreamToNode::OutputTaken { process, stream, bytes } => {
                self.on_part_output_taken(job, process, stream, bytes);
            }
            StreamToNode::OutputFrom(from) => self.on_output_from(job, &from),
            StreamToNode::Stdin { offset, bytes } => self.on_part_stdin(job, offset, bytes),
        }
    }

    /// A job that is started again replaces what it was here before, once that has ended. Whether the order can be
    /// carried out now; the coordinator repeats it.
    fn makes_way(&mut self, job: JobId, restarts: u32) -> bool {
        let known = self.jobs.part(job).map(Participant::restarts);
        if restarts == 0 || known.is_some_and(|known| known >= restarts) {
            return true;
        }
        self.closed.retain(|closed| *closed != job);
        let Some(part) = self.jobs.part(job) else { return true };
        if !part.is_emptied() {
            let node = part.coordinator().clone();
            let order = CoordinatorToNode::End { grace_ms: 0 };
            self.participate(job, Input::Ordered { node, order });
            return false;
        }
        self.reform_given_up(job);
        if let Some(local) = self.jobs.stop_running(job) {
            local.ranks.forget_all(&mut self.out);
        }
        self.store_input(StoreInput::JobEmptied { job });
        self.record(Record::PartOver { job });
        true
    }

    pub(in crate::node) fn on_keeper(&mut self, fact: KeeperFact) {
        match fact {
            KeeperFact::Started(held) => {
                let Held { key, pid, .. } = held;
                self.attach_rank(held);
                self.participate(
                    key.job,
                    Input::Started {
                        process: key.process,
                        pid,
                    },
                );
                self.tell_agent_ranks();
                self.tell_ranks_of_oversubscription();
            }
            KeeperFact::StartRefused { key, code, reason } => self.on_not_started(key, code, reason),
            KeeperFact::Exited { key, status } => self.on_exited(key, status),
            KeeperFact::Parked { key, memory } => self.store_input(StoreInput::Parked { key, memory }),
            KeeperFact::NotParked { key, reason } => self.store_input(StoreInput::NotParked { key, reason }),
            KeeperFact::JobCleared {
                job,
                killed,
                segments,
                left,
            } => {
                if killed + segments + left > 0 {
                    tracing::info!(%job, killed, segments, left, "what a job left was cleared");
                }
                self.participate(job, Input::JobCleared);
            }
        }
    }

    /// A process ended.
    fn on_exited(&mut self, key: ProcessKey, status: ExitStatus) {
        let told_now = match self.jobs.local_mut(key.job) {
            Some(local) => local.ranks.on_exited(key.process, status, &mut self.out),
            None => Some(status),
        };
        if let Some(status) = told_now {
            self.end_process(key, status);
        }
    }

    /// What a process that ended had to say was heard, or does not come.
    pub(in crate::node) fn on_last_words(&mut self, key: ProcessKey) {
        let local = self.jobs.local_mut(key.job);
        if let Some(status) = local.and_then(|local| local.ranks.on_silent(key.process)) {
            self.end_process(key, status);
        }
    }

    fn end_process(&mut self, key: ProcessKey, status: ExitStatus) {
        if self.jobs.runs(key.job) {
            self.participate(
                key.job,
                Input::Exited {
                    process: key.process,
                    status,
                },
            );
            self.forget_if_done(key.job, key.process);
        } else {
            self.out.keeper(DaemonToKeeper::Forget { key });
        }
        self.tell_agent_ranks();
        self.tell_ranks_of_oversubscription();
    }

    /// Serves a process that the keeper holds.
    fn attach_rank(&mut self, held: Held) {
        let key = held.key;
        let Some(part) = self.jobs.local_mut(key.job) else {
            self.out.rank(RankEffect::Forget { key });
            self.out.keeper(DaemonToKeeper::EndJob { job: key.job });
            return;
        };
        if part.ranks.contains(key.process) {
            return;
        }
        match held.attached {
            Ok(attached) => {
                part.ranks.on_attached(attached, self.out.now());
                if attached.has_stdin {
                    part.stdin.on_attached(key.process, &mut self.out);
                }
                self.read_output_of(key.job, key.process);
            }
            Err(error) => {
                tracing::error!(job = %key.job, process = %key.process, error, "a process cannot be served");
                self.participate(
                    key.job,
                    Input::Aborting {
                        process: key.process,
                        code: 1,
                    },
                );
            }
        }
    }

    /// What a process prints is output of the job, unless it is a spare: nobody may ever take that.
    fn read_output_of(&mut self, job: JobId, process: ProcessId) {
        let Some((part, local)) = self.jobs.local_with(job) else {
            return;
        };
        if !part.is_spare(process) && local.ranks.contains(process) {
            local.output.read(process, &mut self.out);
        }
    }

    /// Ends the spares of all jobs here; their coordinators have others started elsewhere.
    pub(in crate::node) fn end_spares(&mut self) {
        for (job, part) in self.jobs.parts() {
            for process in part.spares() {
                let key = ProcessKey { job, process };
                self.out.keeper(DaemonToKeeper::Signal { key, signal: 9 });
            }
        }
    }

    /// A rank asks its process manager.
    pub(in crate::node) fn on_pmi(&mut self, key: ProcessKey, request: Request) {
        if let Some(local) = self.jobs.local_mut(key.job) {
            local.ranks.on_request(key.process, &request);
        }
        self.participate(
            key.job,
            Input::Pmi {
                process: key.process,
                request,
            },
        );
    }

    /// The library in a rank says something.
    pub(in crate::node) fn on_app(&mut self, key: ProcessKey, message: AppToDaemon, memory: Option<MemoryFile>) {
        let ProcessKey { job, process } = key;
        match message {
            AppToDaemon::Initialized { .. } => self.on_initialized(key),
            AppToDaemon::Aborting { code } => self.participate(job, Input::Aborting { process, code }),
            AppToDaemon::Resize { ranks } => self.on_program_request(key, ranks),
            AppToDaemon::Finalizing => self.reform(job, reform::Input::Finalizing { process }),
            about_data => self.on_rank_data(key, about_data, memory),
        }
    }

    /// A process has the answer to its PMI request.
    pub(in crate::node) fn on_pmi_answered(&mut self, key: ProcessKey) {
        let ProcessKey { job, process } = key;
        let now = self.out.now();
        let Some(known) = self.jobs.get_mut(job) else { return };
        let is_recorded = known
            .local
            .as_mut()
            .is_some_and(|local| local.ranks.is_answer_recorded(process));
        let mut step = known.machine.on_answered(now, process, is_recorded);
        self.record_entry(job, &mut step);
        self.finish(job, step);
    }

    /// The keeper may let go of a process that ended once its output was read to the end.
    pub(in crate::node) fn forget_if_done(&mut self, job: JobId, process: ProcessId) {
        let Some((part, local)) = self.jobs.local_with(job) else {
            return;
        };
        let has_ended = part
            .processes()
            .get(&process)
            .is_some_and(|process| !process.is_alive());
        if has_ended && local.output.has_ended(process) {
            local.ranks.forget(process, &mut self.out);
        }
    }

    pub(in crate::node) fn on_part_over(&mut self, job: JobId) {
        self.reform_given_up(job);
        let Some(local) = self.jobs.stop_running(job) else {
            return;
        };
        local.ranks.forget_all(&mut self.out);
        self.store_input(StoreInput::JobOver { job });
        self.record(Record::PartOver { job });
        self.close(job);
        self.on_something_ended();
    }

    /// The daemon started again: takes over the processes that the keeper holds, before the jobs hear of them.
    pub(in crate::node) fn take_over(&mut self, held: Vec<Held>) -> Known {
        let mut known = Known::new();
        let mut orphans = BTreeSet::new();
        for held in held {
            let key = held.key;
            if !self.jobs.runs(key.job) {
                orphans.insert(key.job);
            }
            let ended = (held.pid, held.ended);
            known.entry(key.job).or_default().insert(key.process, ended);
            self.attach_rank(held);
        }
        for job in orphans {
            tracing::warn!(%job, "nothing is known of a job that has processes here: they are ended");
        }
        known
    }

    /// The jobs hear what the keeper holds.
    pub(in crate::node) fn restart_jobs(&mut self, mut held: Known) {
        let now = self.out.now();
        for job in self.jobs.local_ids() {
            let Some(known) = self.jobs.get_mut(job) else { continue };
            let asking = known.local.as_ref().map(|local| local.ranks.asking());
            let held = held.remove(&job).unwrap_or_default();
            let asking = asking.unwrap_or_default();
            let mut step = known.machine.on_restarted(now, &asking, &held, &self.nodes);
            self.record_entry(job, &mut step);
            self.finish(job, step);
        }
        self.tell_ranks_of_oversubscription();
    }
}

/// Processes that the keeper holds, with how they ended.
type Known = BTreeMap<JobId, BTreeMap<ProcessId, (u32, Option<ExitStatus>)>>;
