//! How a node's part of a job ends: one process by itself, some on order, or all of them by SIGTERM, SIGKILL and the
//! keeper's last look, until nothing runs and all output was taken.

use super::participant::{Closing, Effect, Local, LocalState, Participant, Phase};
use crate::pmi;
use pcm_proto::ids::ProcessId;
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{EndedBy, MpiStage, NodeToCoordinator, ProcessEnd};

/// What ranks of a lost job get to end by themselves.
const LOST_GRACE_MS: u32 = 500;

impl Local {
    fn terminate(&mut self, process: ProcessId, now_us: u64, grace_ms: u32, effects: &mut Vec<Effect>) {
        if self.is_alive() && self.kill_at_us.is_none() {
            self.kill_at_us = Some(now_us + u64::from(grace_ms) * 1000);
            effects.push(Effect::Signal { process, signal: 15 });
        }
    }
}

impl Participant {
    pub(super) fn on_exited(
        &mut self,
        process: ProcessId,
        status: ExitStatus,
        is_spent: bool,
        effects: &mut Vec<Effect>,
    ) {
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
        let by = if is_spent { EndedBy::Order } else { local.ends_by };
        let end = ProcessEnd {
            process,
            status,
            stage,
            by,
        };
        let order = local.order;
        let was_starting = local.state == LocalState::Starting;
        if let Some(local) = self.processes.get_mut(&process) {
            local.state = LocalState::Ended(end);
            local.kill_at_us = None;
        }
        let started = if was_starting {
            self.all_started(process, order)
        } else {
            None
        };
        for message in started.into_iter().chain([NodeToCoordinator::Exited(vec![end])]) {
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message: message.into(),
            });
        }
        self.spawns.remove(&process);
        self.names.remove(&process);
        let processes = &self.processes;
        self.worlds.retain(|id, world| {
            world.has_children() || processes.values().any(|local| local.world == *id && local.is_alive())
        });
    }

    /// Whether a process that ended had finalized MPI and returned.
    pub(super) fn has_finished(&self, process: ProcessId, status: ExitStatus) -> bool {
        let stage = self.processes.get(&process).and_then(|local| match &local.state {
            LocalState::Ended(end) => Some(end.stage),
            _ => None,
        });
        status == ExitStatus::Code(0) && stage != Some(MpiStage::Inside)
    }

    pub(super) fn on_aborting(&self, process: ProcessId, code: i32, effects: &mut Vec<Effect>) {
        let message = String::new();
        self.say_of(process, NodeToCoordinator::Aborted { process, code, message }, effects);
    }

    pub(super) fn on_gave_up(&self, process: ProcessId, code: i32, effects: &mut Vec<Effect>) {
        self.say_of(process, NodeToCoordinator::GaveUp { process, code }, effects);
    }

    /// Says something of a process that lives.
    fn say_of(&self, process: ProcessId, message: NodeToCoordinator, effects: &mut Vec<Effect>) {
        if self.processes.get(&process).is_some_and(Local::is_alive) {
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message: message.into(),
            });
        }
    }

    pub(super) fn on_job_cleared(&mut self, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Clearing {
            return;
        }
        for process in self.processes.keys().copied().collect::<Vec<_>>() {
            self.on_exited(process, ExitStatus::Signal(9), false, effects);
        }
        self.phase = Phase::Emptied;
        // A part that is not wanted any more says nothing after this; the coordinator may have taken it back meanwhile.
        let message = match self.closing {
            Some(_) => NodeToCoordinator::Cleared,
            None => NodeToCoordinator::Emptied,
        };
        effects.push(Effect::Send {
            node: self.coordinator.clone(),
            message: message.into(),
        });
        effects.push(self.closing.map_or(Effect::Emptied, Effect::Over));
    }

    /// The coordinator wants nothing of this part any more.
    pub(super) fn close(&mut self, closing: Closing, now_us: u64, effects: &mut Vec<Effect>) {
        self.closing = Some(closing);
        match self.phase {
            Phase::Emptied | Phase::Cleared => effects.push(Effect::Over(closing)),
            _ => self.begin_ending(now_us, 0, effects),
        }
    }

    pub(super) fn on_output_taken(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Emptied {
            self.phase = Phase::Cleared;
            let message = NodeToCoordinator::Cleared;
            effects.push(Effect::Send {
                node: self.coordinator.clone(),
                message: message.into(),
            });
        }
    }

    pub(super) fn on_coordinator_lost(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Active {
            for local in self.processes.values_mut().filter(|local| local.is_needed()) {
                local.ends_by = EndedBy::Loss;
            }
        }
        self.begin_ending(now_us, super::ending::GRACE_MS, effects);
    }

    pub(super) fn begin_ending(&mut self, now_us: u64, grace_ms: u32, effects: &mut Vec<Effect>) {
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
                    NodeToCoordinator::Emptied
                } else {
                    NodeToCoordinator::Cleared
                };
                effects.push(Effect::Send {
                    node: self.coordinator.clone(),
                    message: message.into(),
                });
            }
        }
    }

    pub(super) fn end_processes(
        &mut self,
        now_us: u64,
        processes: &[ProcessId],
        grace_ms: u32,
        effects: &mut Vec<Effect>,
    ) {
        for process in processes {
            let Some(local) = self.processes.get_mut(process) else {
                self.unwanted.insert(*process);
                continue;
            };
            local.ends_by = EndedBy::Order;
            local.terminate(*process, now_us, grace_ms, effects);
        }
    }

    pub(super) fn end_lost(&mut self, now_us: u64, process: ProcessId, effects: &mut Vec<Effect>) {
        match self.processes.get_mut(&process) {
            Some(local) => {
                local.ends_by = EndedBy::Loss;
                local.terminate(process, now_us, LOST_GRACE_MS, effects);
            }
            None => _ = self.unwanted.insert(process),
        }
    }

    pub(super) fn on_time(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
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
}
