//! Warm spares: processes of programs that the application spawned before, started and initialised in advance and held
//! where MPI asks for the parent, so that the next spawn of one child costs the hand-over and the meeting. Decides how
//! many there are, where, and which spawn takes which. Spares are no ranks: nothing of the job waits for them, and
//! their end is no failure. Never keeps more than the job allows, however fast they die.

use super::coordinator::{Coordinator, Effect};
use super::phase::Phase;
use super::process::{Process, ProcessState, Role};
use super::spare_pool::{Program, Spare};
use super::worlds::spare_world;
use crate::mpi_settings::is_of_open_mpi;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::job::{SPARES_MAX, SpareStatus};
use pcm_proto::peer::CoordinatorToNode;
use pcm_proto::spawn::{SpawnAsk, WorldCommand};
use std::collections::BTreeSet;

/// Programs (with arguments and directory) that spares are kept of: those spawned last. Most applications spawn one or
/// two.
const PROGRAMS_MAX: usize = 4;

/// Spares that are initialised at a time, for they take CPU time from the ranks: 40 ms each.
const STARTING_MAX: usize = 2;

/// A spawn that took a spare is often followed by another: what replaces it begins this long after.
const RENEW_AFTER_US: u64 = 100_000;

/// A spare that is not ready by then hangs and is ended.
const READY_US_MAX: u64 = 60_000_000;

/// After a spare that died the next one waits this long; twice as long after each that dies before one is ready.
const BACK_OFF_US: u64 = 500_000;

/// Longest back-off: a program that always dies costs a start in this time.
const BACK_OFF_US_MAX: u64 = 30_000_000;

/// Numbers of spares, as processes and as worlds, begin here. A reconfiguration reserves numbers from below when it
/// begins and may use more later on; spares come and go meanwhile.
const NUMBERS_FROM: u32 = 1 << 29;

/// Worlds that were spares, remembered for the event of their spawn; there are as many as spawns that are not answered.
const TAKEN_MAX: usize = 64;

impl Coordinator {
    /// Notes what is spawned, and finds a spare for it: the oldest that is ready, of the same program, arguments and
    /// directory, on a node that the application named if it named any.
    pub(super) fn spare_for(&mut self, now_us: u64, ask: &SpawnAsk) -> Option<WorldId> {
        let [asked] = ask.commands.as_deref().ok()? else {
            return None;
        };
        // What is asked for is the same program wherever it is to be.
        let command = &WorldCommand {
            hosts: Vec::new(),
            ..asked.clone()
        };
        // Open MPI looks for its parent's port in the environment, which is there from the start.
        if self.spec.spares == 0 || command.count != 1 || is_of_open_mpi(&self.spec) {
            return None;
        }
        match self
            .spares
            .programs
            .iter()
            .position(|program| program.command == *command)
        {
            Some(place) => self.spares.programs[..=place].rotate_right(1),
            None => {
                let program = Program {
                    command: command.clone(),
                    failures: 0,
                    not_before_us: now_us,
                };
                self.spares.programs.insert(0, program);
            }
        }
        let is_named = |node: &NodeName| asked.hosts.is_empty() || asked.hosts.iter().any(|host| host == node.as_str());
        let fits = |spare: &Spare| {
            let process = self.processes.get(&spare.process);
            spare.is_ready && spare.command == *command && process.is_some_and(|process| is_named(&process.node))
        };
        let found = self.spares.pool.iter().find(|(_, spare)| fits(spare));
        let world = found.map(|(world, _)| *world)?;
        if let Some(program) = self.spares.program_mut(command) {
            program.not_before_us = program.not_before_us.max(now_us + RENEW_AFTER_US);
        }
        Some(world)
    }

    /// A spare becomes the child of whoever asked.
    pub(super) fn adopt(&mut self, world: WorldId, ask: &SpawnAsk, effects: &mut Vec<Effect>) {
        let Some(spare) = self.spares.pool.remove(&world) else {
            return;
        };
        self.spares.taken.push_back(world);
        if self.spares.taken.len() > TAKEN_MAX {
            self.spares.taken.pop_front();
        }
        if let Some(process) = self.processes.get_mut(&spare.process) {
            process.role = Role::Guest;
            effects.push(adoption(process.node.clone(), world, ask));
            self.note_joining(1);
        }
    }

    /// Adoptions that a node may have missed.
    pub(super) fn adoptions_on(&self, node: &NodeName) -> Vec<Effect> {
        let is_there = |world: WorldId| {
            let mut of_world = self.processes.values().filter(|process| process.world == world);
            of_world.any(|process| process.node == *node)
        };
        let missed = self.spawning.adopting().filter(|(world, _)| is_there(*world));
        missed.map(|(world, ask)| adoption(node.clone(), world, ask)).collect()
    }

    pub(super) fn on_spare_ready(&mut self, world: WorldId) {
        let Some(spare) = self.spares.pool.get_mut(&world) else {
            return;
        };
        spare.is_ready = true;
        let command = spare.command.clone();
        if let Some(program) = self.spares.program_mut(&command) {
            program.failures = 0;
        }
    }

    /// A spare ended or was not started; nobody asked for that.
    pub(super) fn on_spare_lost(&mut self, now_us: u64, world: WorldId, reason: String, effects: &mut Vec<Effect>) {
        let Some(spare) = self.spares.pool.remove(&world) else {
            return;
        };
        if let Some(program) = self.spares.program_mut(&spare.command) {
            let back_off_us = BACK_OFF_US << program.failures.min(16);
            program.not_before_us = now_us + back_off_us.min(BACK_OFF_US_MAX);
            program.failures += 1;
        }
        if let Some(process) = self.processes.get(&spare.process)
            && self.phase == Phase::Running
        {
            let name = process.node.clone();
            effects.push(Effect::Note(EventKind::SpareLost { name, reason }));
        }
    }

    /// Starts what is missing and may be started now, and ends what hangs or is of no use any more.
    pub(super) fn renew_spares(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        if !self.keeps_spares() {
            return;
        }
        self.spares.programs.truncate(PROGRAMS_MAX);
        self.end_useless_spares(now_us, effects);
        // One round for each that may be started at a time.
        for _ in 0..STARTING_MAX {
            let due = self.next_spare().filter(|(_, not_before_us)| *not_before_us <= now_us);
            let Some((command, _)) = due else { return };
            let Some(node) = self.node_for_spare() else { return };
            let number = NUMBERS_FROM.saturating_add(self.spares.count);
            self.spares.count += 1;
            let (world, process) = (WorldId(number), ProcessId(number));
            let start = spare_world(world, node, process, command.clone());
            let spare = Spare {
                process,
                command,
                since_us: now_us,
                is_ready: false,
            };
            self.spares.pool.insert(world, spare);
            self.order_worlds(vec![start], Role::Spare, now_us, effects);
        }
    }

    /// When [`Coordinator::renew_spares`] has something to do.
    pub(super) fn spares_deadline(&self) -> Option<u64> {
        if !self.keeps_spares() {
            return None;
        }
        let unready = self.spares.pool.values().filter(|spare| !spare.is_ready);
        let hang = unready.map(|spare| spare.since_us + READY_US_MAX);
        let next = self.next_spare().map(|(_, not_before_us)| not_before_us);
        hang.chain(next.filter(|_| self.node_for_spare().is_some())).min()
    }

    /// What `ps` shows.
    pub(super) fn spare_rows(&self) -> Vec<SpareStatus> {
        let row = |spare: &Spare| {
            let Process { node, state, .. } = self.processes.get(&spare.process)?;
            Some(SpareStatus {
                process: Some(spare.process),
                node: node.clone(),
                pid: match state {
                    ProcessState::Running { pid } => *pid,
                    _ => 0,
                },
                program: String::from_utf8_lossy(&spare.command.program).into_owned(),
                ready: spare.is_ready,
            })
        };
        self.spares.pool.values().filter_map(row).collect()
    }

    fn keeps_spares(&self) -> bool {
        self.spec.spares > 0 && self.phase == Phase::Running && self.failure.is_none()
    }

    /// The program that the next spare runs, and when it may start. Nothing is started while a spawn is under way: the
    /// two would take the CPU from each other.
    fn next_spare(&self) -> Option<(WorldCommand, u64)> {
        if self.spawning.is_busy() || self.spares.unready() >= STARTING_MAX {
            return None;
        }
        let wanted = self.spec.spares.min(SPARES_MAX) as usize;
        let of = |program: &Program| {
            let spares = self.spares.pool.values();
            spares.filter(|spare| spare.command == program.command).count()
        };
        let missing = self.spares.programs.iter().filter(|program| of(program) < wanted);
        let next = missing.min_by_key(|program| program.not_before_us)?;
        Some((next.command.clone(), next.not_before_us))
    }

    /// Among the nodes with ranks, the one with the fewest spares.
    fn node_for_spare(&self) -> Option<NodeName> {
        let rows = self.spare_rows();
        let mut seen = BTreeSet::new();
        let nodes = self.rank_nodes().into_iter().filter(|node| seen.insert(node.clone()));
        nodes.min_by_key(|node| rows.iter().filter(|row| row.node == *node).count())
    }

    /// Ends spares that hang, or whose program was not spawned for long, and forgets those of nodes that are gone.
    fn end_useless_spares(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let is_late = |spare: &Spare| !spare.is_ready && now_us >= spare.since_us + READY_US_MAX;
        let is_wanted = |spare: &Spare| {
            self.spares
                .programs
                .iter()
                .any(|program| program.command == spare.command)
        };
        let is_there = |spare: &Spare| {
            let process = self.processes.get(&spare.process);
            process.is_some_and(|process| self.active_nodes().any(|node| *node == process.node))
        };
        let is_useless = |spare: &Spare| is_late(spare) || !is_wanted(spare) || !is_there(spare);
        let useless = self.spares.pool.iter().filter(|(_, spare)| is_useless(spare));
        let useless: Vec<(WorldId, Spare)> = useless.map(|(world, spare)| (*world, spare.clone())).collect();
        for (world, spare) in useless {
            let Some(node) = self.processes.get(&spare.process).map(|process| process.node.clone()) else {
                self.spares.pool.remove(&world);
                continue;
            };
            if is_late(&spare) {
                let reason = format!("it did not call MPI_Init within {} s", READY_US_MAX / 1_000_000);
                self.on_spare_lost(now_us, world, reason, effects);
            }
            self.spares.pool.remove(&world);
            let message = CoordinatorToNode::EndProcesses {
                processes: vec![spare.process],
                grace_ms: 0,
            };
            effects.push(Effect::Send { node, message });
        }
    }
}

fn adoption(node: NodeName, world: WorldId, ask: &SpawnAsk) -> Effect {
    let values = ask.preset.clone();
    let message = CoordinatorToNode::Adopt { world, values };
    Effect::Send { node, message }
}
