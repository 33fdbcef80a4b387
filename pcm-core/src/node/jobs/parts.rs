//! This node's part of each job: feeds its state machine with what the keeper, the ranks and the other nodes say, and
//! carries out what it decides.

use crate::job::participant::{Effect, Input, Participant};
use crate::node::event::{Held, KeeperFact};
use crate::node::jobs::reconfiguring::Reforming;
use crate::node::machine::Node;
use crate::node::memory::MemoryFile;
use crate::node::ranks::effect::RankEffect;
use crate::node::ranks::local::LocalRanks;
use crate::node::record::Record;
use crate::node::store::input::StoreInput;
use crate::node::streams::part_output::PartOutput;
use crate::node::streams::part_stdin::PartStdin;
use crate::node::timer::Timer;
use crate::pmi::wire::Request;
use crate::reconfiguration::effects as reform;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StartOrder, StreamToNode, WorldMessage};
use pcm_proto::reconfiguration::ReconfigurationMessage;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// This node's part of a job.
pub(in crate::node) struct Part {
    pub(in crate::node) state: Participant,
    pub(in crate::node) ranks: LocalRanks,
    pub(in crate::node) reforming: Reforming,
    pub(in crate::node) output: PartOutput,
    pub(in crate::node) stdin: PartStdin,
    armed_us: Option<u64>,
}

impl Part {
    pub(in crate::node) fn new(job: JobId, state: Participant, reforming: Reforming) -> Self {
        Self {
            state,
            ranks: LocalRanks::new(job),
            reforming,
            output: PartOutput::new(job),
            stdin: PartStdin::new(job),
            armed_us: None,
        }
    }
}

impl Node {
    /// Gives an input to this node's part of a job and carries out what it decides.
    pub(in crate::node) fn participate(&mut self, job: JobId, input: Input) {
        let now_us = self.out.now().0;
        if !self.parts.contains_key(&job) {
            return;
        }
        if input.decides() {
            self.record(Record::PartInput {
                job,
                now_us,
                input: input.clone(),
            });
        }
        let Some(part) = self.parts.get_mut(&job) else { return };
        let effects = part.state.handle(now_us, input);
        self.carry_out_part(job, effects);
    }

    pub(in crate::node) fn carry_out_part(&mut self, job: JobId, effects: Vec<Effect>) {
        for effect in effects {
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
                Effect::Over => return self.on_part_over(job),
            }
        }
        self.arm_part(job);
    }

    fn arm_part(&mut self, job: JobId) {
        let now_us = self.out.now().0;
        let Some(part) = self.parts.get_mut(&job) else { return };
        let deadline = part.state.deadline();
        if deadline != part.armed_us {
            part.armed_us = deadline;
            if let Some(deadline_us) = deadline {
                let after = Duration::from_micros(deadline_us.saturating_sub(now_us));
                self.out.arm(after, Timer::Part(job));
            }
        }
    }

    pub(in crate::node) fn on_part_timer(&mut self, job: JobId) {
        let now_us = self.out.now().0;
        let Some(part) = self.parts.get_mut(&job) else { return };
        part.armed_us = None;
        match part.state.deadline() {
            Some(deadline_us) if deadline_us <= now_us => self.participate(job, Input::Tick),
            _ => self.arm_part(job),
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
                if self.parts.contains_key(&job) {
                    self.participate_ordered(job, node, CoordinatorToNode::Start(start));
                } else {
                    self.begin_part(job, node, start);
                }
            }
            order if self.parts.contains_key(&job) => self.participate_ordered(job, node, order),
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
        let mut state = Participant::new(job, self.own.clone(), &order, prefix);
        let (reforming, reform_effects) = Reforming::at_start(&self.own, &order, self.limits.clone());
        let ordered = Input::Ordered {
            node: node.clone(),
            order: CoordinatorToNode::Start(order),
        };
        let effects = state.handle(self.out.now().0, ordered);
        self.record(Record::Part {
            job,
            state: Box::new(state.clone()),
        });
        self.parts.insert(job, Part::new(job, state, reforming));
        self.carry_out_reform(job, reform_effects);
        self.carry_out_part(job, effects);
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
        if !self.parts.contains_key(&job) {
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
        if !self.parts.contains_key(&job) {
            return self.keep_early(job, node, JobMessage::Reconfiguration(Box::new(message)));
        }
        let from = node.clone();
        self.reform(job, reform::Input::Message { from, message });
    }

    /// The reader of the job's output says something.
    pub(in crate::node) fn on_reader_said(&mut self, job: JobId, node: &NodeName, message: StreamToNode) {
        if !self.parts.contains_key(&job) {
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
        let known = self.parts.get(&job).map(|part| part.state.restarts());
        if restarts == 0 || known.is_some_and(|known| known >= restarts) {
            return true;
        }
        self.closed.retain(|closed| *closed != job);
        let Some(part) = self.parts.get(&job) else { return true };
        if !part.state.is_emptied() {
            let node = part.state.coordinator().clone();
            let order = CoordinatorToNode::End { grace_ms: 0 };
            self.participate(job, Input::Ordered { node, order });
            return false;
        }
        self.reform_given_up(job);
        if let Some(part) = self.parts.remove(&job) {
            part.ranks.forget_all(&mut self.out);
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
        let told_now = match self.parts.get_mut(&key.job) {
            Some(part) => part.ranks.on_exited(key.process, status, &mut self.out),
            None => Some(status),
        };
        if let Some(status) = told_now {
            self.end_process(key, status);
        }
    }

    /// What a process that ended had to say was heard, or does not come.
    pub(in crate::node) fn on_last_words(&mut self, key: ProcessKey) {
        let part = self.parts.get_mut(&key.job);
        if let Some(status) = part.and_then(|part| part.ranks.on_silent(key.process)) {
            self.end_process(key, status);
        }
    }

    fn end_process(&mut self, key: ProcessKey, status: ExitStatus) {
        if self.parts.contains_key(&key.job) {
            self.participate(
                key.job,
                Input::Exited {
                    process: key.process,
                    status,
                },
            );
            self.reform_exited(key.job, key.process, status);
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
        let Some(part) = self.parts.get_mut(&key.job) else {
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
        let Some(part) = self.parts.get_mut(&job) else { return };
        if !part.state.is_spare(process) && part.ranks.contains(process) {
            part.output.read(process, &mut self.out);
        }
    }

    /// Ends the spares of all jobs here; their coordinators have others started elsewhere.
    pub(in crate::node) fn end_spares(&mut self) {
        for (job, part) in &self.parts {
            for process in part.state.spares() {
                let key = ProcessKey { job: *job, process };
                self.out.keeper(DaemonToKeeper::Signal { key, signal: 9 });
            }
        }
    }

    /// A rank asks its process manager.
    pub(in crate::node) fn on_pmi(&mut self, key: ProcessKey, request: Request) {
        if let Some(part) = self.parts.get_mut(&key.job) {
            part.ranks.on_request(key.process, &request);
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
        let now_us = self.out.now().0;
        let Some(part) = self.parts.get_mut(&job) else { return };
        let input = Input::Answered { process };
        if part.ranks.is_answer_recorded(process) {
            self.out.record(Record::PartInput {
                job,
                now_us,
                input: input.clone(),
            });
        }
        part.state.handle(now_us, input);
    }

    /// The keeper may let go of a process that ended once its output was read to the end.
    pub(in crate::node) fn forget_if_done(&mut self, job: JobId, process: ProcessId) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        let has_ended = part
            .state
            .processes()
            .get(&process)
            .is_some_and(|local| !local.is_alive());
        if has_ended && part.output.has_ended(process) {
            part.ranks.forget(process, &mut self.out);
        }
    }

    pub(in crate::node) fn on_part_over(&mut self, job: JobId) {
        self.reform_given_up(job);
        let Some(part) = self.parts.remove(&job) else { return };
        part.ranks.forget_all(&mut self.out);
        self.store_input(StoreInput::JobOver { job });
        self.record(Record::PartOver { job });
        self.close(job);
        self.on_something_ended();
    }

    pub(in crate::node) fn on_parts_linked(&mut self, node: &NodeName) {
        for job in self.parts.keys().copied().collect::<Vec<_>>() {
            let Some(part) = self.parts.get(&job) else { continue };
            let effects = part.state.on_linked(node);
            self.carry_out_part(job, effects);
        }
    }

    /// The daemon started again: takes over what the keeper holds.
    pub(in crate::node) fn take_over(&mut self, held: Vec<Held>) {
        let mut known: BTreeMap<JobId, BTreeMap<ProcessId, (u32, Option<ExitStatus>)>> = BTreeMap::new();
        let mut orphans = BTreeSet::new();
        for handed in held {
            let key = handed.key;
            if !self.parts.contains_key(&key.job) {
                orphans.insert(key.job);
                continue;
            }
            known
                .entry(key.job)
                .or_default()
                .insert(key.process, (handed.pid, handed.ended));
            self.attach_rank(handed);
        }
        for job in orphans {
            tracing::warn!(%job, "nothing is known of a job that has processes here: they are ended");
            self.out.keeper(DaemonToKeeper::EndJob { job });
        }
        for job in self.parts.keys().copied().collect::<Vec<_>>() {
            let Some(part) = self.parts.get_mut(&job) else { continue };
            let asking = part.ranks.asking();
            let held = known.remove(&job).unwrap_or_default();
            let now_us = self.out.now().0;
            let effects = part.state.on_restored(now_us, &asking, &held);
            let state = Box::new(part.state.clone());
            self.record(Record::Part { job, state });
            self.carry_out_part(job, effects);
        }
        self.tell_ranks_of_oversubscription();
    }
}
