//! This node's part of each job: feeds its state machine with what the keeper, the ranks and the other nodes say, and
//! carries out what it decides.

use super::daemon::Daemon;
use super::reconfiguring::Reforming;
use crate::keeper_link::{FromKeeper, Handed};
use crate::rank::RankEvent;
use pcm_core::job::participant::{Effect, Input, Participant};
use pcm_core::node::ranks::effect::RankEffect;
use pcm_core::node::ranks::local::LocalRanks;
use pcm_core::node::record::Record;
use pcm_core::node::store::input::StoreInput;
use pcm_core::node::streams::part_output::PartOutput;
use pcm_core::node::streams::part_stdin::PartStdin;
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::effects as reform;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StartOrder, StreamToNode, WorldMessage};
use pcm_proto::reconfiguration::ReconfigurationMessage;
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// This node's part of a job.
pub(super) struct Part {
    pub(super) state: Participant,
    pub(super) ranks: LocalRanks,
    pub(super) reforming: Reforming,
    pub(super) output: PartOutput,
    pub(super) stdin: PartStdin,
    armed_us: Option<u64>,
}

impl Part {
    pub(super) fn new(job: JobId, state: Participant, reforming: Reforming) -> Self {
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

fn warn_of_nonsense(key: ProcessKey, reason: &str) {
    tracing::warn!(job = %key.job, process = %key.process, reason, "a process does not speak our protocol");
}

impl Daemon {
    /// Gives an input to this node's part of a job and carries out what it decides.
    pub(super) fn participate(&mut self, job: JobId, input: Input) {
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

    pub(super) fn carry_out_part(&mut self, job: JobId, effects: Vec<Effect>) {
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

    pub(super) fn on_part_timer(&mut self, job: JobId) {
        let now_us = self.out.now().0;
        let Some(part) = self.parts.get_mut(&job) else { return };
        part.armed_us = None;
        match part.state.deadline() {
            Some(deadline_us) if deadline_us <= now_us => self.participate(job, Input::Tick),
            _ => self.arm_part(job),
        }
    }

    /// The coordinator gives this node an order.
    pub(super) fn on_order(&mut self, job: JobId, node: &NodeName, order: CoordinatorToNode) {
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
    pub(super) fn on_world_message(&mut self, job: JobId, node: &NodeName, message: WorldMessage) {
        if !self.parts.contains_key(&job) {
            return self.keep_early(job, node, message.into());
        }
        let node = node.clone();
        self.participate(job, Input::World { node, message });
    }

    /// Another node of the job says something about its reconfiguration.
    pub(super) fn on_reconfiguration_message(&mut self, job: JobId, node: &NodeName, message: ReconfigurationMessage) {
        if !self.parts.contains_key(&job) {
            return self.keep_early(job, node, JobMessage::Reconfiguration(Box::new(message)));
        }
        let from = node.clone();
        self.reform(job, reform::Input::Message { from, message });
    }

    /// The reader of the job's output says something.
    pub(super) fn on_reader_said(&mut self, job: JobId, node: &NodeName, message: StreamToNode) {
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

    pub(super) fn on_keeper(&mut self, fact: FromKeeper) {
        match fact {
            FromKeeper::Started(handed) => {
                let (key, pid) = (handed.key, handed.pid);
                self.attach_rank(handed);
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
            FromKeeper::StartRefused { key, errno, reason } => {
                self.on_not_started(key, refusal_code(errno).to_owned(), reason);
            }
            FromKeeper::Exited { key, status } => self.on_exited(key, status),
            FromKeeper::Parked(image) => self.on_parked_image(image),
            FromKeeper::NotParked { key, reason } => self.store_input(StoreInput::NotParked { key, reason }),
            FromKeeper::JobCleared {
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
    pub(super) fn on_last_words(&mut self, key: ProcessKey) {
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

    /// Takes over the descriptors of a process.
    pub(super) fn attach_rank(&mut self, handed: Handed) {
        let key = handed.key;
        let Some(part) = self.parts.get_mut(&key.job) else {
            self.out.keeper(DaemonToKeeper::EndJob { job: key.job });
            return;
        };
        if part.ranks.contains(key.process) {
            return;
        }
        match self.rank_table.attach(handed) {
            Ok(attached) => {
                part.ranks.on_attached(attached, self.out.now());
                if attached.has_stdin {
                    part.stdin.on_attached(key.process, &mut self.out);
                }
                self.read_output_of(key.job, key.process);
            }
            Err(error) => {
                tracing::error!(job = %key.job, process = %key.process, %error, "a process cannot be served");
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
    pub(super) fn end_spares(&mut self) {
        for (job, part) in &self.parts {
            for process in part.state.spares() {
                let key = ProcessKey { job: *job, process };
                self.out.keeper(DaemonToKeeper::Signal { key, signal: 9 });
            }
        }
    }

    pub(super) fn on_rank(&mut self, event: RankEvent) {
        match event {
            RankEvent::Pmi { key, request } => {
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
            RankEvent::App {
                key,
                message,
                descriptors,
            } => self.on_app(key, message, descriptors),
            RankEvent::PmiBroken { key, reason } => warn_of_nonsense(key, &reason),
            RankEvent::AppBroken { key, reason } => {
                warn_of_nonsense(key, &reason);
                self.on_last_words(key);
            }
            RankEvent::PmiClosed { .. } => {}
            RankEvent::AppClosed { key } => self.on_last_words(key),
        }
    }

    /// The library in a rank says something.
    fn on_app(&mut self, key: ProcessKey, message: AppToDaemon, descriptors: Vec<OwnedFd>) {
        let ProcessKey { job, process } = key;
        match message {
            AppToDaemon::Initialized { .. } => self.on_initialized(key),
            AppToDaemon::Aborting { code } => self.participate(job, Input::Aborting { process, code }),
            AppToDaemon::Resize { ranks } => self.on_program_request(key, ranks),
            AppToDaemon::Finalizing => self.reform(job, reform::Input::Finalizing { process }),
            about_data => self.on_rank_data(key, about_data, descriptors),
        }
    }

    /// A process has the answer to its PMI request.
    pub(super) fn on_pmi_answered(&mut self, key: ProcessKey) {
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
    pub(super) fn forget_if_done(&mut self, job: JobId, process: ProcessId) {
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

    pub(super) fn on_part_over(&mut self, job: JobId) {
        self.reform_given_up(job);
        let Some(part) = self.parts.remove(&job) else { return };
        part.ranks.forget_all(&mut self.out);
        self.store_input(StoreInput::JobOver { job });
        self.record(Record::PartOver { job });
        self.close(job);
        self.on_something_ended();
    }

    pub(super) fn on_parts_linked(&mut self, node: &NodeName) {
        for job in self.parts.keys().copied().collect::<Vec<_>>() {
            let Some(part) = self.parts.get(&job) else { continue };
            let effects = part.state.on_linked(node);
            self.carry_out_part(job, effects);
        }
    }

    /// The daemon started again: takes over what the keeper holds.
    pub(super) fn take_over(&mut self, held: Vec<Handed>) {
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

fn refusal_code(errno: i32) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT | Errno::NOTDIR => refusal::UNKNOWN_PROGRAM,
        Errno::ACCESS | Errno::NOEXEC => refusal::NOT_EXECUTABLE,
        Errno::TOOBIG => refusal::ENVIRONMENT_TOO_LARGE,
        _ => refusal::START_FAILED,
    }
}
