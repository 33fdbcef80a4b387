//! What one node does for a job: starts its share of the processes, serves their worlds' barriers, tells the
//! coordinator how they end, and ends them when told to, or when the coordinator is lost. Takes inputs, returns
//! effects; the same inputs always give the same state, so a daemon that was killed replays them from its journal.

use super::local_world::LocalWorld;
use super::tree;
use super::worlds;
use crate::pmi;
use crate::pmi::wire::Request;
use pcm_proto::ids::{JobId, NodeName, ProcessId, WorldId};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{JobMessage, MpiStage, ProcessEnd, SpawnAsk, StartOrder};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What happens to a node's part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The coordinator or another node of the job said something.
    Said {
        /// Who.
        node: NodeName,
        /// What.
        message: JobMessage,
    },
    /// A process runs.
    Started {
        /// Which.
        process: ProcessId,
        /// Its process id.
        pid: u32,
    },
    /// A process could not be started.
    Refused {
        /// Which.
        process: ProcessId,
        /// A code of [`pcm_proto::refusal`].
        code: String,
        /// Why.
        reason: String,
    },
    /// A process ended.
    Exited {
        /// Which.
        process: ProcessId,
        /// How.
        status: ExitStatus,
    },
    /// Nothing of the job is left in this node's process table.
    JobCleared,
    /// A process asks its process manager for something.
    Pmi {
        /// Which.
        process: ProcessId,
        /// What.
        request: Request,
    },
    /// The last answer to a process was sent.
    Answered {
        /// Which.
        process: ProcessId,
    },
    /// A process called `MPI_Abort` (as the library tells it, PMI may follow).
    Aborting {
        /// Which.
        process: ProcessId,
        /// With which code.
        code: i32,
    },
    /// All output of the job on this node was taken, now that its processes have ended.
    OutputTaken,
    /// The coordinator is out of reach for too long.
    CoordinatorLost,
    /// The time passed that [`Participant::deadline`] names.
    Tick,
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a message to a node, which may be the own one.
    Send {
        /// The node.
        node: NodeName,
        /// The message.
        message: JobMessage,
    },
    /// Start a process, and answer with [`Input::Started`] or [`Input::Refused`].
    Start {
        /// Which.
        process: ProcessId,
    },
    /// Send a signal to a process.
    Signal {
        /// Which.
        process: ProcessId,
        /// The signal's number.
        signal: i32,
    },
    /// Have the keeper end what is left of the job here, and answer with [`Input::JobCleared`].
    EndJob,
    /// Send this line to a process's PMI socket, then come back with [`Input::Answered`].
    Answer {
        /// Which.
        process: ProcessId,
        /// The line.
        line: String,
    },
    /// A process wants to publish, unpublish or look up a name.
    Name {
        /// Which.
        process: ProcessId,
        /// What it wants.
        request: Request,
    },
    /// No process is left; answer with [`Input::OutputTaken`] once all output was.
    Emptied,
    /// The job is over here: forget it.
    Over,
}

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalState {
    /// The keeper was asked to start it.
    Starting,
    /// It runs.
    Running {
        /// Its process id.
        pid: u32,
    },
    /// It ended.
    Ended(ProcessEnd),
    /// It could not be started.
    Refused {
        /// A code of [`pcm_proto::refusal`].
        code: String,
        /// Why.
        reason: String,
    },
}

/// A process of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// The world it started in.
    pub world: WorldId,
    /// Its rank there.
    pub world_rank: u32,
    /// Where it stands.
    pub state: LocalState,
    order: u32,
    kill_at_us: Option<u64>,
}

impl Local {
    /// Whether the keeper has it, or may have.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, LocalState::Starting | LocalState::Running { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// Processes may run and more may come.
    Active,
    /// SIGTERM was sent, SIGKILL comes at this time.
    Terminating { kill_at_us: u64 },
    /// The keeper was told to end the job.
    Clearing,
    /// No process is left.
    Emptied,
    /// No process and no output is left.
    Cleared,
}

/// One node's part of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participant {
    pub(super) job: JobId,
    pub(super) own: NodeName,
    pub(super) coordinator: NodeName,
    pub(super) spec: Box<JobSpec>,
    is_crowded: bool,
    kvs_prefix: String,
    orders: BTreeSet<u32>,
    pub(super) processes: BTreeMap<ProcessId, Local>,
    pub(super) worlds: BTreeMap<WorldId, LocalWorld>,
    /// The last spawn of each process, with the request while it is open.
    pub(super) spawns: BTreeMap<ProcessId, (u32, Option<SpawnAsk>)>,
    unwanted: BTreeSet<ProcessId>,
    phase: Phase,
    is_closed: bool,
}

impl Participant {
    /// The part of a job that a first order brings; the order itself goes to [`Participant::handle`]. `kvs_prefix`
    /// makes the names of the job's worlds unique for all time.
    pub fn new(job: JobId, own: NodeName, order: &StartOrder, kvs_prefix: String) -> Self {
        Self {
            job,
            own,
            coordinator: order.coordinator.clone(),
            spec: order.spec.clone(),
            is_crowded: order.is_crowded,
            kvs_prefix,
            orders: BTreeSet::new(),
            processes: BTreeMap::new(),
            worlds: BTreeMap::new(),
            spawns: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            phase: Phase::Active,
            is_closed: false,
        }
    }

    /// Takes one input; on return the state is changed and the effects are to be carried out.
    pub fn handle(&mut self, now_us: u64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Said { node, message } => self.on_said(now_us, &node, message, &mut effects),
            Input::Started { process, pid } => {
                self.settle(process, LocalState::Running { pid }, &mut effects);
            }
            Input::Refused { process, code, reason } => {
                self.settle(process, LocalState::Refused { code, reason }, &mut effects);
            }
            Input::Exited { process, status } => self.on_exited(process, status, &mut effects),
            Input::JobCleared => self.on_job_cleared(&mut effects),
            Input::Pmi { process, request } => self.on_pmi(process, request, &mut effects),
            Input::Answered { process } => self.on_answered(process),
            Input::Aborting { process, code } => self.on_aborting(process, code, String::new(), &mut effects),
            Input::OutputTaken => self.on_output_taken(&mut effects),
            Input::CoordinatorLost => self.begin_ending(now_us, super::ending::GRACE_MS, &mut effects),
            Input::Tick => {}
        }
        self.on_time(now_us, &mut effects);
        effects
    }

    /// When [`Input::Tick`] is due, in microseconds since 1970.
    pub fn deadline(&self) -> Option<u64> {
        let kills = self.processes.values().filter_map(|local| local.kill_at_us);
        let job = match self.phase {
            Phase::Terminating { kill_at_us } => Some(kill_at_us),
            _ => None,
        };
        kills.chain(job).min()
    }

    /// What a node that was out of reach may have missed. Changes nothing.
    pub fn on_linked(&self, node: &NodeName) -> Vec<Effect> {
        let mut effects = Vec::new();
        for world in self.worlds.values() {
            effects.extend(world.said_to(node));
        }
        if *node != self.coordinator {
            return effects;
        }
        let mut send = |message| {
            effects.push(Effect::Send {
                node: node.clone(),
                message,
            })
        };
        for order in &self.orders {
            if let Some(message) = self.started(*order) {
                send(message);
            }
        }
        let mut ends = Vec::new();
        for (process, local) in &self.processes {
            match &local.state {
                LocalState::Ended(end) => ends.push(*end),
                LocalState::Refused { code, reason } => {
                    let (code, reason) = (code.clone(), reason.clone());
                    send(JobMessage::StartRefused {
                        order: local.order,
                        process: *process,
                        code,
                        reason,
                    });
                }
                LocalState::Starting | LocalState::Running { .. } => {}
            }
        }
        if !ends.is_empty() {
            send(JobMessage::Exited(ends));
        }
        match self.phase {
            Phase::Emptied => send(JobMessage::Emptied),
            Phase::Cleared => send(JobMessage::Cleared),
            _ => {}
        }
        effects.extend(self.spawn_asks());
        effects
    }

    /// The daemon started again: `unanswered` are processes whose PMI request still waits in the socket, `held` those
    /// the keeper has, with how they ended. Returns what must be done again.
    pub fn on_restored(
        &mut self,
        now_us: u64,
        unanswered: &BTreeSet<ProcessId>,
        held: &BTreeMap<ProcessId, (u32, Option<ExitStatus>)>,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        for world in self.worlds.values_mut() {
            effects.extend(world.on_restored(unanswered));
        }
        for (process, local) in self.processes.clone() {
            let Some((pid, ended)) = held.get(&process) else {
                match local.state {
                    LocalState::Starting => effects.push(Effect::Start { process }),
                    // The keeper forgets only what we told it to forget, after its end was in the journal.
                    LocalState::Running { .. } => self.on_exited(process, ExitStatus::Signal(9), &mut effects),
                    LocalState::Ended(_) | LocalState::Refused { .. } => {}
                }
                continue;
            };
            self.settle(process, LocalState::Running { pid: *pid }, &mut effects);
            if let Some(status) = ended {
                self.on_exited(process, *status, &mut effects);
            }
        }
        match self.phase {
            Phase::Clearing => effects.push(Effect::EndJob),
            Phase::Emptied => effects.push(Effect::Emptied),
            _ => {}
        }
        self.on_time(now_us, &mut effects);
        effects
    }

    fn on_said(&mut self, now_us: u64, node: &NodeName, message: JobMessage, effects: &mut Vec<Effect>) {
        match message {
            JobMessage::Start(order) => self.on_start(&order, effects),
            JobMessage::Signal { signal } => {
                let alive = self.processes.iter().filter(|(_, local)| local.is_alive());
                effects.extend(alive.map(|(process, _)| Effect::Signal {
                    process: *process,
                    signal,
                }));
            }
            JobMessage::EndProcesses { processes, grace_ms } => {
                self.end_processes(now_us, &processes, grace_ms, effects);
            }
            JobMessage::End { grace_ms } => self.begin_ending(now_us, grace_ms, effects),
            JobMessage::Close => {
                self.is_closed = true;
                match self.phase {
                    Phase::Emptied | Phase::Cleared => effects.push(Effect::Over),
                    _ => self.begin_ending(now_us, 0, effects),
                }
            }
            JobMessage::Barrier {
                world,
                generation,
                puts,
            } => {
                self.in_world(world, effects, |world| world.on_child(node, generation, puts));
            }
            JobMessage::BarrierGone { world } => self.in_world(world, effects, |world| world.on_child_gone(node)),
            JobMessage::BarrierDone {
                world,
                generation,
                puts,
            } => {
                self.in_world(world, effects, |world| world.on_done(generation, puts));
            }
            JobMessage::SpawnResult {
                process,
                number,
                result,
            } => {
                self.on_spawn_result(process, number, &result, effects);
            }
            _ => {}
        }
    }

    fn on_start(&mut self, order: &StartOrder, effects: &mut Vec<Effect>) {
        self.pass_on(order, effects);
        if !self.orders.insert(order.number) {
            effects.extend(self.started(order.number).map(|message| Effect::Send {
                node: self.coordinator.clone(),
                message,
            }));
            return;
        }
        if self.phase != Phase::Active {
            return;
        }
        for start in order.worlds.iter().filter(|world| world.nodes.contains(&self.own)) {
            let mut local = Vec::new();
            for (world_rank, (process, node)) in worlds::ranks_of(start).enumerate() {
                if start.nodes[node as usize] != self.own {
                    continue;
                }
                let world_rank = world_rank as u32;
                local.push((process, world_rank));
                let mut state = LocalState::Starting;
                if self.unwanted.remove(&process) {
                    let reason = "it was not wanted any more".to_owned();
                    state = LocalState::Refused {
                        code: pcm_proto::refusal::START_FAILED.to_owned(),
                        reason,
                    };
                } else {
                    effects.push(Effect::Start { process });
                }
                let order = order.number;
                self.processes.insert(
                    process,
                    Local {
                        world: start.world,
                        world_rank,
                        state,
                        order,
                        kill_at_us: None,
                    },
                );
            }
            let kvsname = format!("{}-{}-{}", self.kvs_prefix, self.job, start.world);
            self.worlds
                .insert(start.world, LocalWorld::new(&self.own, start.clone(), kvsname, local));
        }
    }

    fn pass_on(&self, order: &StartOrder, effects: &mut Vec<Effect>) {
        // The root sends to its children itself, whether or not it has ranks.
        let position = order
            .tree
            .iter()
            .position(|node| *node == self.own)
            .filter(|position| *position > 0);
        let Some(position) = position else { return };
        for child in &order.tree[tree::children(position, order.tree.len())] {
            let message = JobMessage::Start(Box::new(order.clone()));
            effects.push(Effect::Send {
                node: child.clone(),
                message,
            });
        }
    }

    /// The word that an order's processes run, once none of them is still being started.
    fn started(&self, order: u32) -> Option<JobMessage> {
        let mut processes = Vec::new();
        for (process, local) in self.processes.iter().filter(|(_, local)| local.order == order) {
            match local.state {
                LocalState::Starting => return None,
                LocalState::Running { pid } => processes.push((*process, pid)),
                LocalState::Ended(_) | LocalState::Refused { .. } => {}
            }
        }
        Some(JobMessage::Started { order, processes })
    }

    fn settle(&mut self, process: ProcessId, state: LocalState, effects: &mut Vec<Effect>) {
        let Some(local) = self.processes.get_mut(&process) else {
            return;
        };
        if local.state != LocalState::Starting {
            return;
        }
        let order = local.order;
        if let LocalState::Refused { code, reason } = &state {
            let (code, reason) = (code.clone(), reason.clone());
            let message = JobMessage::StartRefused {
                order,
                process,
                code,
                reason,
            };
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message,
            });
        }
        local.state = state;
        let started = self.started(order);
        effects.extend(started.map(|message| Effect::Send {
            node: self.coordinator.clone(),
            message,
        }));
    }

    fn on_exited(&mut self, process: ProcessId, status: ExitStatus, effects: &mut Vec<Effect>) {
        let Some(local) = self.processes.get(&process) else {
            return;
        };
        if !local.is_alive() {
            return;
        }
        let stage = self.worlds.get(&local.world).and_then(|world| world.stage(process));
        let stage = match stage {
            Some(pmi::world::Stage::Initialized) => MpiStage::Inside,
            Some(pmi::world::Stage::Finalized) => MpiStage::After,
            Some(pmi::world::Stage::Started) | None => MpiStage::Before,
        };
        let (end, order) = (ProcessEnd { process, status, stage }, local.order);
        let was_starting = local.state == LocalState::Starting;
        if let Some(local) = self.processes.get_mut(&process) {
            local.state = LocalState::Ended(end);
            local.kill_at_us = None;
        }
        let started = if was_starting { self.started(order) } else { None };
        for message in started.into_iter().chain([JobMessage::Exited(vec![end])]) {
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message,
            });
        }
        self.spawns.remove(&process);
        let processes = &self.processes;
        self.worlds.retain(|id, world| {
            world.has_children() || processes.values().any(|local| local.world == *id && local.is_alive())
        });
    }

    fn on_aborting(&mut self, process: ProcessId, code: i32, message: String, effects: &mut Vec<Effect>) {
        if self.processes.get(&process).is_some_and(Local::is_alive) {
            let message = JobMessage::Aborted { process, code, message };
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message,
            });
        }
    }

    fn on_pmi(&mut self, process: ProcessId, request: Request, effects: &mut Vec<Effect>) {
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        self.in_world(world, effects, |world| world.on_request(process, request));
    }

    fn on_answered(&mut self, process: ProcessId) {
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        if let Some(world) = self.worlds.get_mut(&world) {
            world.on_answered(process);
        }
    }

    fn on_job_cleared(&mut self, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Clearing {
            return;
        }
        for process in self.processes.keys().copied().collect::<Vec<_>>() {
            self.on_exited(process, ExitStatus::Signal(9), effects);
        }
        self.phase = Phase::Emptied;
        let message = JobMessage::Emptied;
        effects.push(Effect::Send {
            node: self.coordinator.clone(),
            message,
        });
        effects.push(if self.is_closed { Effect::Over } else { Effect::Emptied });
    }

    fn on_output_taken(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Emptied {
            self.phase = Phase::Cleared;
            let message = JobMessage::Cleared;
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message,
            });
        }
    }

    fn begin_ending(&mut self, now_us: u64, grace_ms: u32, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Active => {
                let alive = self.processes.iter().filter(|(_, local)| local.is_alive());
                effects.extend(alive.map(|(process, _)| Effect::Signal {
                    process: *process,
                    signal: 15,
                }));
                self.phase = Phase::Terminating {
                    kill_at_us: now_us + u64::from(grace_ms) * 1000,
                };
            }
            Phase::Terminating { kill_at_us } => {
                let sooner = kill_at_us.min(now_us + u64::from(grace_ms) * 1000);
                self.phase = Phase::Terminating { kill_at_us: sooner };
            }
            Phase::Clearing => effects.push(Effect::EndJob),
            Phase::Emptied | Phase::Cleared => {
                let message = if self.phase == Phase::Emptied {
                    JobMessage::Emptied
                } else {
                    JobMessage::Cleared
                };
                effects.push(Effect::Send {
                    node: self.coordinator.clone(),
                    message,
                });
            }
        }
    }

    fn end_processes(&mut self, now_us: u64, processes: &[ProcessId], grace_ms: u32, effects: &mut Vec<Effect>) {
        for process in processes {
            let Some(local) = self.processes.get_mut(process) else {
                self.unwanted.insert(*process);
                continue;
            };
            if local.is_alive() && local.kill_at_us.is_none() {
                local.kill_at_us = Some(now_us + u64::from(grace_ms) * 1000);
                effects.push(Effect::Signal {
                    process: *process,
                    signal: 15,
                });
            }
        }
    }

    fn on_time(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        for (process, local) in &mut self.processes {
            if local.kill_at_us.is_some_and(|at| now_us >= at) {
                local.kill_at_us = None;
                effects.push(Effect::Signal {
                    process: *process,
                    signal: 9,
                });
            }
        }
        if let Phase::Terminating { kill_at_us } = self.phase
            && (now_us >= kill_at_us || self.processes.values().all(|local| !local.is_alive()))
        {
            self.phase = Phase::Clearing;
            effects.push(Effect::EndJob);
        }
    }

    /// The node's processes of the job.
    pub fn processes(&self) -> &BTreeMap<ProcessId, Local> {
        &self.processes
    }

    /// The node whose daemon coordinates the job.
    pub fn coordinator(&self) -> &NodeName {
        &self.coordinator
    }

    /// What the job was asked to be.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// See [`StartOrder::is_crowded`].
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// The worlds with processes here.
    pub fn world(&self, world: WorldId) -> Option<&LocalWorld> {
        self.worlds.get(&world)
    }

    /// Whether no process is left here and none will come.
    pub fn is_emptied(&self) -> bool {
        matches!(self.phase, Phase::Emptied | Phase::Cleared)
    }
}
