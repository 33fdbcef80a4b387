//! What the coordinator of a job knows and decides: which processes there are and where, when the job runs, when and
//! why it ends. Takes inputs, returns effects; the same inputs always give the same state, so a daemon that was killed
//! replays them from its journal. Never sends, waits or reads a clock.

use super::phase::{Failure, NodeStage, Phase};
use super::placement::{Placed, Share};
use super::process::{Process, ProcessState, Role};
use super::recovery::{Recovery, Restarted};
use super::spare_pool::Spares;
use super::spawn_requests::Spawning;
use super::worlds;
use crate::checkpoint::Fault;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, Iteration, JobId, NodeName, ProcessId, WorldId};
use pcm_proto::job::{JobEnd, JobSpec};
use pcm_proto::layout::Layout;
use pcm_proto::peer::{CoordinatorToNode, NodeToCoordinator, StartOrder, WorldStart};
use pcm_proto::tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest time until every process of an order runs; a node under full load starts a hundred in less than a second.
pub const START_US_MAX: u64 = 30_000_000;

/// An order that was not answered for so long is sent again, straight to the node: some node on the way was restarted.
pub const RESEND_US: u64 = 1_000_000;

/// What happens to a job from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// A node said something about the job.
    Said { node: NodeName, message: NodeToCoordinator },
    /// A holder of checkpoints of the job said something that concerns its ranks.
    CheckpointSaid(CheckpointMessage),
    /// A node is taken for dead.
    NodeGone { node: NodeName },
    /// A node does not answer, and is taken for dead by that time unless it does; without a time it answers again.
    Silent { node: NodeName, gone_by_us: Option<u64> },
    /// The job must end.
    End {
        /// The code it ends with.
        code: i32,
        reason: String,
    },
    /// The world an application asked for was placed, or could not be.
    SpawnPlaced {
        /// The process that asked.
        process: ProcessId,
        /// Number of its request.
        number: u32,
        /// Where, or why not.
        shares: Result<Vec<Share>, String>,
    },
    /// A reconfiguration may bring ranks to this node: tell it of the job.
    Enlist { node: NodeName },
    /// A reconfiguration was committed.
    LayoutCommitted {
        /// The layout that counts from now on.
        layout: Layout,
    },
    /// Another checkpoint is the newest that counts, or none is left.
    Checkpoint {
        /// The iteration it goes on from.
        iteration: Option<Iteration>,
    },
    /// Whether this coordinator may be cut off, so that another may lead the job.
    Doubt { is_in_doubt: bool },
    /// What [`Effect::Restart`] asks for, or why it cannot be had now.
    Restarted(Result<Restarted, String>),
    /// Numbers below these were used by reconfigurations.
    NumbersUsed {
        /// Lowest process number never used.
        process_next: u32,
        /// Lowest world number never used.
        world_next: u32,
    },
    /// The time passed that [`Coordinator::deadline`] names.
    Tick,
}

/// Ranks of a spawn that are placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnWant {
    pub count: u32,
    /// Hosts or nodes the application named; empty leaves the choice to us.
    pub hosts: Vec<String>,
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a message to a node, which may be the own one.
    Send { node: NodeName, message: CoordinatorToNode },
    /// Note that something happened.
    Note(EventKind),
    /// Find a place for a world an application asked for, and answer with [`Input::SpawnPlaced`].
    Place {
        /// The process that asked.
        process: ProcessId,
        /// Number of its request.
        number: u32,
        wants: Vec<SpawnWant>,
    },
    /// Find places and a checkpoint for the ranks of a job that crashed, and answer with [`Input::Restarted`]. Comes
    /// again while there are none.
    Restart {
        /// How many ranks.
        count: u32,
    },
    /// The job has ended; send [`CoordinatorToNode::Close`] to these nodes once its output is delivered.
    Ended {
        end: JobEnd,
        /// Its nodes that still answer.
        nodes: Vec<NodeName>,
    },
}

/// A start order that was not wholly answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenOrder {
    pub(super) order: StartOrder,
    pub(super) since_us: u64,
    pub(super) sent_us: u64,
}

/// The coordinator of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinator {
    pub(super) job: JobId,
    pub(super) own: NodeName,
    pub(super) spec: JobSpec,
    pub(super) accepted_us: u64,
    pub(super) is_crowded: bool,
    pub(super) epoch: Epoch,
    /// Ranks of the present layout in order.
    pub(super) layout: Vec<ProcessId>,
    pub(super) processes: BTreeMap<ProcessId, Process>,
    pub(super) nodes: BTreeMap<NodeName, NodeStage>,
    pub(super) phase: Phase,
    pub(super) failure: Option<Failure>,
    pub(super) orders: BTreeMap<u32, OpenOrder>,
    pub(super) order_next: u32,
    pub(super) process_next: u32,
    pub(super) world_next: u32,
    /// Worlds that some process of the present layout has met in its life, at most; of a job over shared memory
    /// ([`crate::between_worlds`]) processes, itself among them.
    pub(super) worlds_met: u32,
    /// Nodes that were told of the job and have not confirmed it: the number of their order, and when it was sent.
    pub(super) enlisting: BTreeMap<NodeName, (u32, u64)>,
    pub(super) spawning: Spawning,
    pub(super) names: BTreeMap<String, String>,
    pub(super) recovery: Recovery,
    /// Counts the coordinators before this one, whose nodes were lost.
    pub(super) reign: u32,
    /// Since when it may be cut off.
    pub(super) doubts_since_us: Option<u64>,
    pub(super) spares: Spares,
}

impl Coordinator {
    /// Accepts a job whose ranks were placed, and orders their start.
    pub fn accept(job: JobId, own: NodeName, spec: JobSpec, placed: &Placed, now_us: u64) -> (Self, Vec<Effect>) {
        let mut coordinator = Self {
            job,
            own,
            accepted_us: now_us,
            is_crowded: placed.is_crowded,
            epoch: Epoch(0),
            layout: Vec::new(),
            processes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            phase: Phase::Starting,
            failure: None,
            orders: BTreeMap::new(),
            order_next: 0,
            process_next: 0,
            world_next: 0,
            worlds_met: 0,
            enlisting: BTreeMap::new(),
            spawning: Spawning::default(),
            names: BTreeMap::new(),
            recovery: Recovery::new(&spec),
            reign: 0,
            doubts_since_us: None,
            spares: Spares::default(),
            spec,
        };
        let worlds = worlds::worlds(coordinator.spec.world, &placed.shares, ProcessId(0), WorldId(0));
        for world in &worlds {
            coordinator
                .layout
                .extend(worlds::ranks_of(world).map(|(process, _)| process));
        }
        coordinator.worlds_met = coordinator.met_at_start(&worlds);
        coordinator.nodes.insert(coordinator.own.clone(), NodeStage::Active);
        let placement = placed
            .shares
            .iter()
            .flat_map(|share| std::iter::repeat_n(share.node.clone(), share.count as usize));
        let mut effects = vec![Effect::Note(EventKind::JobAccepted {
            name: coordinator.spec.name.clone(),
            placement: placement.collect(),
            why: placed.why.clone(),
        })];
        coordinator.order_worlds(worlds, Role::Member, now_us, &mut effects);
        (coordinator, effects)
    }

    /// Takes one input; on return the state is changed and the effects are to be carried out.
    pub fn handle(&mut self, now_us: u64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Said { node, message } => self.on_said(now_us, node, message, &mut effects),
            Input::CheckpointSaid(message) => self.on_checkpoint_said(now_us, &message, &mut effects),
            Input::NodeGone { node } => self.on_node_gone(now_us, &node, &mut effects),
            Input::Silent { node, gone_by_us } => self.on_silent(now_us, node, gone_by_us),
            Input::End { code, reason } => {
                let grace_ms = self.spec_grace_ms();
                self.begin_ending(now_us, JobEnd { code, reason }, grace_ms, &mut effects);
            }
            Input::SpawnPlaced {
                process,
                number,
                shares,
            } => {
                self.on_spawn_placed(now_us, (process, number), shares, &mut effects);
            }
            Input::Enlist { node } => self.on_enlist(now_us, node, &mut effects),
            Input::LayoutCommitted { layout } => self.on_layout_committed(now_us, layout, &mut effects),
            Input::Checkpoint { iteration } => self.on_checkpoint(iteration),
            Input::Doubt { is_in_doubt } => self.on_doubt(now_us, is_in_doubt),
            Input::Restarted(restarted) => self.on_restarted(now_us, restarted, &mut effects),
            Input::NumbersUsed {
                process_next,
                world_next,
            } => {
                self.note_joining(process_next.saturating_sub(self.process_next));
                self.process_next = self.process_next.max(process_next);
                self.world_next = self.world_next.max(world_next);
            }
            Input::Tick => {}
        }
        self.on_time(now_us, &mut effects);
        effects
    }

    /// When [`Input::Tick`] is due, in microseconds since 1970; ticks that come too early do no harm.
    pub fn deadline(&self) -> Option<u64> {
        let enlisting = self.enlisting.values().map(|(_, sent_us)| sent_us + RESEND_US);
        let orders = self
            .orders
            .values()
            .map(|open| open.sent_us + RESEND_US)
            .chain(enlisting);
        orders
            .chain(self.ending_deadline())
            .chain(self.spawning.deadline())
            .chain(self.recovering_deadline())
            .chain(self.hearsay_deadline())
            .chain(self.spares_deadline())
            .min()
    }

    /// What this node's own part of the job may have missed when its daemon died. Changes nothing.
    pub fn own_order(&self) -> Option<Effect> {
        let open = self.orders.get(&0)?;
        let tree = vec![self.own.clone()];
        let order = StartOrder {
            tree,
            ..open.order.clone()
        };
        Some(Effect::Send {
            node: self.own.clone(),
            message: CoordinatorToNode::Start(Box::new(order)),
        })
    }

    /// What a node that was out of reach may have missed. Changes nothing.
    pub fn on_linked(&self, node: &NodeName) -> Vec<Effect> {
        let mut effects = Vec::new();
        let send = |message| Effect::Send {
            node: node.clone(),
            message,
        };
        match (&self.phase, self.nodes.get(node)) {
            (Phase::Ended(_), _) => effects.push(send(CoordinatorToNode::Close)),
            (_, None | Some(NodeStage::Gone)) => effects.push(send(CoordinatorToNode::Release)),
            (Phase::Ending(_) | Phase::Recovering(_), Some(NodeStage::Active)) => {
                effects.push(send(CoordinatorToNode::End { grace_ms: 0 }));
            }
            (Phase::Ending(_) | Phase::Recovering(_), Some(_)) => {}
            (Phase::Starting | Phase::Running, Some(_)) => {
                let missing = self
                    .orders
                    .values()
                    .filter(|open| self.is_waiting_for(&open.order, node));
                effects.extend(missing.map(|open| send(self.direct(&open.order, node))));
                effects.extend(self.spawning.results_for(node, &self.processes).into_iter().map(send));
                effects.extend(self.adoptions_on(node));
                self.send_enlistment(node, &mut effects);
            }
        }
        effects
    }

    fn on_said(&mut self, now_us: u64, node: NodeName, message: NodeToCoordinator, effects: &mut Vec<Effect>) {
        match message {
            NodeToCoordinator::Started { order, processes } => {
                self.enlisting.remove(&node);
                self.on_started(now_us, order, &processes, effects);
            }
            NodeToCoordinator::NewcomersStarted { world, processes } => self.on_newcomers(&node, world, &processes),
            // The leader's, which looks after them.
            NodeToCoordinator::StandbysHeld(_) => {}
            // A failure that waits for the codes of its mates ends the job by itself, and knows better why.
            NodeToCoordinator::Lost { .. } | NodeToCoordinator::LostWith { .. } if self.failure.is_some() => {}
            // What made MPI give up in it is heard of in a moment.
            NodeToCoordinator::LostWith { process, .. } if self.is_hearsay(process) => {}
            NodeToCoordinator::Lost { reason } | NodeToCoordinator::LostWith { reason, .. } => {
                let end = JobEnd {
                    code: 1,
                    reason: reason.clone(),
                };
                self.crash(now_us, reason, (end, Fault::Node), effects);
            }
            NodeToCoordinator::StartRefused {
                process, code, reason, ..
            } => {
                self.on_refused(now_us, process, &code, &reason, effects);
            }
            NodeToCoordinator::Exited(ends) => {
                for end in ends {
                    self.on_exited(now_us, end, effects);
                }
            }
            NodeToCoordinator::Aborted { process, code, message } => {
                self.on_aborted(now_us, process, code, &message, effects);
            }
            NodeToCoordinator::GaveUp { process, code } => self.on_gave_up(now_us, process, code, ""),
            NodeToCoordinator::Emptied => self.on_node_stage(&node, NodeStage::Emptied, effects),
            NodeToCoordinator::Cleared => self.on_node_stage(&node, NodeStage::Cleared, effects),
            NodeToCoordinator::NoPart => self.on_no_part(now_us, &node, effects),
            NodeToCoordinator::Spawn(ask) => self.on_spawn(now_us, *ask, effects),
            NodeToCoordinator::Name { process, request } => self.on_name(process, request, effects),
            NodeToCoordinator::SpawnReady { world } => self.on_spawn_ready(now_us, world, effects),
            NodeToCoordinator::SpareReady { world } => self.on_spare_ready(world),
            NodeToCoordinator::Registered(registered) => self.spec.registered = registered,
        }
    }

    /// Orders worlds to be started; their processes exist from now on.
    pub(super) fn order_worlds(&mut self, worlds: Vec<WorldStart>, role: Role, now_us: u64, effects: &mut Vec<Effect>) {
        let mut tree = vec![self.own.clone()];
        for world in &worlds {
            for node in &world.nodes {
                self.engage(node);
                if !tree.contains(node) {
                    tree.push(node.clone());
                }
            }
            for (process, node) in worlds::ranks_of(world) {
                let node = world.nodes[node as usize].clone();
                if role != Role::Spare {
                    self.process_next = self.process_next.max(process.0 + 1);
                }
                let state = ProcessState::Ordered;
                self.processes.insert(
                    process,
                    Process {
                        node,
                        world: world.world,
                        role,
                        state,
                    },
                );
            }
            if role != Role::Spare {
                self.world_next = self.world_next.max(world.world.0 + 1);
            }
        }
        let layout = self
            .layout
            .iter()
            .map(|process| (*process, self.processes[process].world));
        let order = StartOrder {
            number: self.order_next,
            coordinator: self.own.clone(),
            spec: Box::new(self.spec.clone()),
            epoch: self.epoch,
            is_crowded: self.is_crowded,
            layout: layout.collect(),
            worlds,
            life: self.recovery.life,
            restarts: self.recovery.restarts,
            restores: self.recovery.restores.clone().filter(|_| self.order_next == 0),
            tree,
            keeper_since_us: 0,
        };
        self.order_next += 1;
        // The coordinator takes part in the reconfigurations of its job, with ranks or without.
        let is_ours = order.number == 0 || order.worlds.iter().any(|world| world.nodes.contains(&self.own));
        let own = is_ours.then_some(&self.own);
        for node in own.into_iter().chain(&order.tree[tree::children(0, order.tree.len())]) {
            let message = CoordinatorToNode::Start(Box::new(order.clone()));
            effects.push(Effect::Send {
                node: node.clone(),
                message,
            });
        }
        self.orders.insert(
            order.number,
            OpenOrder {
                order,
                since_us: now_us,
                sent_us: now_us,
            },
        );
    }

    pub(super) fn on_started(
        &mut self,
        now_us: u64,
        order: u32,
        started: &[(ProcessId, u32)],
        effects: &mut Vec<Effect>,
    ) {
        for (process, pid) in started {
            if let Some(known) = self.processes.get_mut(process)
                && known.state == ProcessState::Ordered
            {
                known.state = ProcessState::Running { pid: *pid };
            }
        }
        self.close_order(order);
        if self.phase == Phase::Starting && self.orders.is_empty() && self.failure.is_none() {
            self.phase = Phase::Running;
            if self.recovery.restarts > 0 {
                return self.on_restart_started(now_us, effects);
            }
            let start_ms = now_us.saturating_sub(self.accepted_us) as f64 / 1000.0;
            effects.push(Effect::Note(EventKind::JobStarted { start_ms }));
        }
    }

    /// Forgets an order when each of its processes was started, refused or has ended.
    pub(super) fn close_order(&mut self, number: u32) {
        let Some(open) = self.orders.get(&number) else { return };
        let is_waiting = |process: &ProcessId| self.processes[process].state == ProcessState::Ordered;
        if !processes_of(&open.order).any(|process| is_waiting(&process)) {
            self.orders.remove(&number);
        }
    }

    pub(super) fn is_waiting_for(&self, order: &StartOrder, node: &NodeName) -> bool {
        processes_of(order).any(|process| {
            let process = &self.processes[&process];
            process.node == *node && process.state == ProcessState::Ordered
        })
    }

    /// The order as one node gets it that shall not pass it on.
    pub(super) fn direct(&self, order: &StartOrder, node: &NodeName) -> CoordinatorToNode {
        let tree = vec![self.own.clone(), node.clone()];
        CoordinatorToNode::Start(Box::new(StartOrder { tree, ..order.clone() }))
    }
}

pub(super) fn processes_of(order: &StartOrder) -> impl Iterator<Item = ProcessId> + '_ {
    order
        .worlds
        .iter()
        .flat_map(|world| worlds::ranks_of(world).map(|(process, _)| process))
}
