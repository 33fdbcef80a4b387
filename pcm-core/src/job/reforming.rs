//! What the coordinator of a job keeps of its reconfigurations: which nodes have heard of the job, which processes
//! came, which layout counts. How a reconfiguration goes is decided in [`crate::reconfiguration`].

use super::coordinator::{Coordinator, Effect, RESEND_US};
use super::phase::Phase;
use super::process::{Process, ProcessState, Role};
use super::worlds;
use crate::between_worlds::{self, is_shared_memory};
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::layout::Layout;
use pcm_proto::peer::{CoordinatorToNode, StartOrder, WorldStart};
use std::collections::BTreeSet;

impl Coordinator {
    /// Tells a node of the job, unless it knows.
    pub(super) fn on_enlist(&mut self, now_us: u64, node: NodeName, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Starting | Phase::Running) || self.is_enlisted(&node) {
            return;
        }
        self.engage(&node);
        self.enlisting.insert(node.clone(), (self.order_next, now_us));
        self.order_next += 1;
        self.send_enlistment(&node, effects);
    }

    pub(super) fn send_enlistment(&self, node: &NodeName, effects: &mut Vec<Effect>) {
        let Some((number, _)) = self.enlisting.get(node) else {
            return;
        };
        let order = StartOrder {
            number: *number,
            coordinator: self.own.clone(),
            tree: vec![self.own.clone(), node.clone()],
            spec: Box::new(self.spec.clone()),
            epoch: self.epoch,
            is_crowded: self.is_crowded,
            layout: Vec::new(),
            worlds: Vec::new(),
            life: self.recovery.life,
            restarts: self.recovery.restarts,
            restores: None,
            keeper_since_us: 0,
        };
        effects.push(Effect::Send {
            node: node.clone(),
            message: CoordinatorToNode::Start(Box::new(order)),
        });
    }

    pub(super) fn resend_enlistments(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let is_due = |sent_us: u64| now_us >= sent_us + RESEND_US;
        let due = self.enlisting.iter().filter(|(_, (_, sent_us))| is_due(*sent_us));
        for node in due.map(|(node, _)| node.clone()).collect::<Vec<_>>() {
            self.send_enlistment(&node, effects);
            if let Some((_, sent_us)) = self.enlisting.get_mut(&node) {
                *sent_us = now_us;
            }
        }
    }

    pub(super) fn on_newcomers(&mut self, node: &NodeName, world: WorldId, started: &[(ProcessId, u32)]) {
        let first = self.processes.keys().next().copied();
        for (process, pid) in started {
            if first.is_some_and(|first| *process < first) {
                // Said late: the job was started again since, and nobody would say that this one has ended.
                continue;
            }
            let state = ProcessState::Running { pid: *pid };
            let known = self.processes.entry(*process).or_insert_with(|| Process {
                node: node.clone(),
                world,
                role: Role::Newcomer,
                state: state.clone(),
            });
            if !known.is_over() {
                known.state = state;
            }
            self.process_next = self.process_next.max(process.0 + 1);
        }
        self.world_next = self.world_next.max(world.0 + 1);
    }

    pub(super) fn on_layout_committed(&mut self, now_us: u64, layout: Layout, effects: &mut Vec<Effect>) {
        if layout.epoch <= self.epoch {
            return;
        }
        let before: BTreeSet<WorldId> = self
            .layout
            .iter()
            .filter_map(|p| Some(self.processes.get(p)?.world))
            .collect();
        let after: BTreeSet<WorldId> = layout.members.iter().map(|member| member.world).collect();
        let is_all_new = before.is_disjoint(&after);
        self.worlds_met = match (is_shared_memory(&self.spec), is_all_new) {
            (true, true) => layout.members.len() as u32,
            // Those who join were counted when they were planned.
            (true, false) => self.worlds_met,
            (false, true) => after.len() as u32,
            (false, false) => self.worlds_met + after.difference(&before).count() as u32,
        };
        self.epoch = layout.epoch;
        self.layout = layout.members.iter().map(|member| member.process).collect();
        for process in self
            .processes
            .values_mut()
            .filter(|process| process.role == Role::Member)
        {
            process.role = Role::Leaver;
        }
        let mut ended = Vec::new();
        for member in layout.members {
            let known = self.processes.entry(member.process).or_insert_with(|| Process {
                node: member.node,
                world: member.world,
                role: Role::Member,
                state: ProcessState::Running { pid: 0 },
            });
            known.role = Role::Member;
            if let ProcessState::Ended(end) = known.state {
                ended.push((end, known.node.clone()));
            }
        }
        for (end, node) in ended {
            self.judge(now_us, end, &node, effects);
        }
    }

    /// The lowest process number nothing in the job has used.
    pub fn process_next(&self) -> ProcessId {
        ProcessId(self.process_next)
    }

    /// The lowest world number nothing in the job has used.
    pub fn world_next(&self) -> WorldId {
        WorldId(self.world_next)
    }

    /// The most worlds any process of the present layout has met in its life; processes where these share memory.
    pub fn worlds_met(&self) -> u32 {
        self.worlds_met
    }

    /// What the processes of worlds that begin together have met.
    pub(super) fn met_at_start(&self, worlds: &[WorldStart]) -> u32 {
        match is_shared_memory(&self.spec) {
            true => worlds.iter().map(worlds::size_of).sum(),
            false => worlds.len() as u32,
        }
    }

    /// Whether those there are can meet so many more.
    pub(super) fn has_room_for(&self, processes: u32) -> bool {
        !is_shared_memory(&self.spec) || between_worlds::has_room(self.worlds_met, processes)
    }

    /// So many processes may join those there are: each has a place in the memory of each, for good.
    pub(super) fn note_joining(&mut self, processes: u32) {
        if is_shared_memory(&self.spec) {
            self.worlds_met = self.worlds_met.saturating_add(processes);
        }
    }

    /// The nodes of the present ranks in order.
    pub fn rank_nodes(&self) -> Vec<NodeName> {
        self.layout
            .iter()
            .filter_map(|process| Some(self.processes.get(process)?.node.clone()))
            .collect()
    }

    /// Whether its ranks run and may be reconfigured.
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }
}
