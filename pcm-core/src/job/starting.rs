//! How a node's part of a job begins and goes on: orders are passed down the tree and carried out, and after a broken
//! link or a restart of the daemon everything is said and done again that may have been missed.

use super::local_world::LocalWorld;
use super::participant::{Effect, Local, LocalState, Newcomer, Participant, Phase};
use super::worlds;
use crate::mpi_settings::is_of_open_mpi;
use pcm_proto::ids::{NodeName, ProcessId, Rank, WorldId};
use pcm_proto::job::Command;
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{CoordinatorToNode, EndedBy, NodeToCoordinator, StartOrder, WorldStart};
use pcm_proto::spawn::WorldCommand;
use pcm_proto::tree;
use std::collections::{BTreeMap, BTreeSet};

/// Processes that no order of the coordinator started, but a reconfiguration.
const NO_ORDER: u32 = u32::MAX;

impl Participant {
    /// What a node that was out of reach may have missed. Changes nothing.
    pub fn on_linked(&self, node: &NodeName) -> Vec<Effect> {
        let mut effects = Vec::new();
        for world in self.worlds.values() {
            effects.extend(world.said_to(node));
        }
        if *node != self.coordinator {
            return effects;
        }
        let mut send = |message: NodeToCoordinator| {
            effects.push(Effect::Send {
                node: node.clone(),
                message: message.into(),
            })
        };
        for order in &self.orders {
            if let Some(message) = self.started(*order) {
                send(message);
            }
        }
        for message in self.newcomers_started() {
            send(message);
        }
        let mut ends = Vec::new();
        for (process, local) in &self.processes {
            match &local.state {
                LocalState::Ended(end) => ends.push(*end),
                LocalState::Refused { code, reason } if local.newcomer.is_none() => {
                    let (code, reason) = (code.clone(), reason.clone());
                    send(NodeToCoordinator::StartRefused {
                        order: local.order,
                        process: *process,
                        code,
                        reason,
                    });
                }
                LocalState::Starting | LocalState::Running { .. } | LocalState::Refused { .. } => {}
            }
        }
        if !ends.is_empty() {
            send(NodeToCoordinator::Exited(ends));
        }
        match self.phase {
            Phase::Emptied => send(NodeToCoordinator::Emptied),
            Phase::Cleared => send(NodeToCoordinator::Cleared),
            _ => {}
        }
        effects.extend(self.spawn_asks());
        effects.extend(self.registered_told());
        effects.extend(self.name_asks());
        let ready = self.worlds.iter().filter(|(_, world)| world.is_spare_ready());
        effects.extend(ready.map(|(world, _)| Effect::Send {
            node: node.clone(),
            message: NodeToCoordinator::SpareReady { world: *world }.into(),
        }));
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
                    LocalState::Running { .. } => self.on_exited(process, ExitStatus::Signal(9), false, &mut effects),
                    LocalState::Ended(_) | LocalState::Refused { .. } => {}
                }
                continue;
            };
            self.settle(process, LocalState::Running { pid: *pid }, &mut effects);
            if let Some(status) = ended {
                self.on_exited(process, *status, false, &mut effects);
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

    pub(super) fn on_start(&mut self, order: &StartOrder, effects: &mut Vec<Effect>) {
        if order.life != self.life {
            return;
        }
        self.pass_on(order, effects);
        if !self.orders.insert(order.number) {
            effects.extend(self.started(order.number).map(|message| Effect::Send {
                node: self.coordinator.clone(),
                message: message.into(),
            }));
            return;
        }
        if self.phase != Phase::Active {
            return;
        }
        // Only the first order begins the job; later ones carry what the application itself asked for.
        let worlds = if order.number == 0 {
            order.worlds.len() as u32
        } else {
            1
        };
        for start in &order.worlds {
            if !start.nodes.contains(&self.own) {
                continue;
            }
            let rank = |process| {
                let at = order.layout.iter().position(|(known, _)| *known == process)?;
                u32::try_from(at).ok().map(Rank)
            };
            let start = self.with_programs(start, rank);
            self.take_in(start, (order.number, worlds), |_| None, effects);
        }
        let started = self.started(order.number);
        effects.extend(started.map(|message| Effect::Send {
            node: self.coordinator.clone(),
            message: message.into(),
        }));
    }

    /// A reconfiguration starts a world of its own. Told again, it changes nothing.
    pub(super) fn start_newcomers(
        &mut self,
        start: &WorldStart,
        places: &[(ProcessId, Rank)],
        newcomer: impl Fn(Rank) -> Newcomer,
        effects: &mut Vec<Effect>,
    ) {
        if self.phase != Phase::Active || self.worlds.contains_key(&start.world) {
            return;
        }
        let place = |process| {
            places
                .iter()
                .find(|(known, _)| *known == process)
                .map(|(_, rank)| newcomer(*rank))
        };
        let rank = |process| {
            places
                .iter()
                .find(|(known, _)| *known == process)
                .map(|(_, rank)| *rank)
        };
        let start = self.with_programs(start, rank);
        self.take_in(start, (NO_ORDER, 1), place, effects);
    }

    /// The world with the programs of its ranks, where the job has several.
    fn with_programs(&self, start: &WorldStart, rank: impl Fn(ProcessId) -> Option<Rank>) -> WorldStart {
        let mut start = start.clone();
        if self.spec.commands.is_empty() || start.spawned {
            return start;
        }
        let ranks = worlds::ranks_of(&start).filter_map(|(process, _)| rank(process));
        let mut commands: Vec<WorldCommand> = Vec::new();
        for (number, Command { program, args, .. }) in ranks.filter_map(|rank| self.spec.command_of(rank)) {
            match commands.last_mut() {
                Some(last) if last.number == number => last.count += 1,
                _ => commands.push(WorldCommand {
                    count: 1,
                    number,
                    program: program.clone(),
                    args: args.clone(),
                    cwd: None,
                    search_path: None,
                    hosts: Vec::new(),
                    environment: Vec::new(),
                }),
            }
        }
        start.commands = commands;
        start
    }

    /// Starts this node's processes of a world, one of so many that an order begins together.
    fn take_in(
        &mut self,
        start: WorldStart,
        (order, worlds): (u32, u32),
        place: impl Fn(ProcessId) -> Option<Newcomer>,
        effects: &mut Vec<Effect>,
    ) {
        let mut here = Vec::new();
        for (world_rank, (process, node)) in worlds::ranks_of(&start).enumerate() {
            if start.nodes[node as usize] != self.own || self.processes.contains_key(&process) {
                continue;
            }
            let world_rank = world_rank as u32;
            here.push((process, world_rank));
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
            let (world, newcomer) = (start.world, place(process));
            let local = Local {
                world,
                world_rank,
                state,
                newcomer,
                worlds,
                ends_by: EndedBy::Itself,
                order,
                kill_at_us: None,
                is_spare: start.spare,
            };
            self.processes.insert(process, local);
        }
        let speaks_pmix = is_of_open_mpi(&self.spec);
        let kvsname = format!("{}-{}-{}", self.kvs_prefix, self.job, start.world);
        // Spares have numbers of their own.
        if !start.spare {
            self.world_next = self.world_next.max(start.world.0 + 1);
        }
        self.worlds.insert(
            start.world,
            LocalWorld::new(&self.own, start, (kvsname, speaks_pmix), here),
        );
    }

    pub(super) fn mark_leaving(&mut self, processes: &[ProcessId]) {
        for process in processes {
            if let Some(local) = self.processes.get_mut(process) {
                local.ends_by = EndedBy::Order;
            }
        }
    }

    /// The word that the processes which started together with this one run, once none is still being started.
    pub(super) fn all_started(&self, process: ProcessId, order: u32) -> Option<NodeToCoordinator> {
        match self.processes.get(&process) {
            Some(Local {
                newcomer: Some(_),
                world,
                ..
            }) => self.world_started(*world),
            _ => self.started(order),
        }
    }

    fn world_started(&self, world: WorldId) -> Option<NodeToCoordinator> {
        let of_world = self
            .processes
            .iter()
            .filter(|(_, local)| local.world == world && local.newcomer.is_some());
        let mut processes = Vec::new();
        for (process, local) in of_world {
            match local.state {
                LocalState::Starting => return None,
                LocalState::Running { pid } => processes.push((*process, pid)),
                LocalState::Ended(_) | LocalState::Refused { .. } => {}
            }
        }
        (!processes.is_empty()).then_some(NodeToCoordinator::NewcomersStarted { world, processes })
    }

    fn newcomers_started(&self) -> Vec<NodeToCoordinator> {
        let newcomers = self
            .processes
            .values()
            .filter(|local| local.newcomer.is_some() && local.is_alive());
        let worlds: BTreeSet<WorldId> = newcomers.map(|local| local.world).collect();
        worlds
            .into_iter()
            .filter_map(|world| self.world_started(world))
            .collect()
    }

    pub(super) fn pass_on(&self, order: &StartOrder, effects: &mut Vec<Effect>) {
        // The root sends to its children itself, whether or not it has ranks.
        let position = order
            .tree
            .iter()
            .position(|node| *node == self.own)
            .filter(|position| *position > 0);
        let Some(position) = position else { return };
        for child in &order.tree[tree::children(position, order.tree.len())] {
            let message = CoordinatorToNode::Start(Box::new(order.clone()));
            effects.push(Effect::Send {
                node: child.clone(),
                message: message.into(),
            });
        }
    }

    /// The word that an order's processes run, once none of them is still being started.
    pub(super) fn started(&self, order: u32) -> Option<NodeToCoordinator> {
        let mut processes = Vec::new();
        for (process, local) in self.processes.iter().filter(|(_, local)| local.order == order) {
            match local.state {
                LocalState::Starting => return None,
                LocalState::Running { pid } => processes.push((*process, pid)),
                LocalState::Ended(_) | LocalState::Refused { .. } => {}
            }
        }
        Some(NodeToCoordinator::Started { order, processes })
    }

    pub(super) fn settle(&mut self, process: ProcessId, state: LocalState, effects: &mut Vec<Effect>) {
        let Some(local) = self.processes.get_mut(&process) else {
            return;
        };
        if local.state != LocalState::Starting {
            return;
        }
        let (order, is_newcomer) = (local.order, local.newcomer.is_some());
        if let LocalState::Refused { code, reason } = &state
            && !is_newcomer
        {
            let (code, reason) = (code.clone(), reason.clone());
            let message = NodeToCoordinator::StartRefused {
                order,
                process,
                code,
                reason,
            };
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message: message.into(),
            });
        }
        local.state = state;
        let started = self.all_started(process, order);
        effects.extend(started.map(|message| Effect::Send {
            node: self.coordinator.clone(),
            message: message.into(),
        }));
    }
}
