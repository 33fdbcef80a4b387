//! What processes here asked the coordinator to start, until they have its answers.

use super::participant::{Effect, Participant};
use crate::pmi::spawn::SpawnCommand;
use pcm_proto::ids::{ProcessId, WorldId};
use pcm_proto::peer::NodeToCoordinator;
use pcm_proto::spawn::{SpawnAsk, SpawnedWorld, WorldCommand, WorldMember};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Answers of a process of Open MPI that are kept: one that the daemon's end took on its way is said again.
const ANSWERS_KEPT: usize = 16;

/// The requests of one process, answered one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// Of the next request.
    next: u32,
    open: Option<SpawnAsk>,
    /// The question of what serves PMIx that the last request is.
    question: Option<u64>,
    /// Its questions that were answered, with what was started.
    answered: VecDeque<(u64, Option<WorldId>)>,
}

impl Asked {
    fn answer(&self, question: u64) -> Option<Option<WorldId>> {
        let mut known = self.answered.iter();
        known.find(|(number, _)| *number == question).map(|(_, world)| *world)
    }
}

impl Participant {
    /// A question of what serves PMIx is said again when its daemon was away: it is one request nonetheless.
    pub(super) fn on_spawn_question(
        &mut self,
        process: ProcessId,
        question: u64,
        commands: Result<Vec<SpawnCommand>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let asked = self.spawns.get(&process);
        if let Some(world) = asked.and_then(|asked| asked.answer(question)) {
            let answered = Effect::SpawnAnswered {
                process,
                question,
                world,
            };
            return effects.push(answered);
        }
        if asked.is_some_and(|asked| asked.open.is_some() && asked.question == Some(question)) {
            return;
        }
        self.on_spawn(process, commands, effects);
        if let Some(asked) = self.spawns.get_mut(&process) {
            asked.question = Some(question);
        }
    }

    pub(super) fn on_spawn(
        &mut self,
        process: ProcessId,
        commands: Result<Vec<SpawnCommand>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(local) = self.processes.get(&process) else {
            return;
        };
        let asker = WorldMember {
            world: local.world,
            rank: local.world_rank,
        };
        let asked = self.spawns.entry(process).or_default();
        let first = commands.as_ref().ok().and_then(|commands| commands.first());
        let ask = SpawnAsk {
            process,
            asker,
            number: asked.next,
            preset: first.map(|command| command.preputs.clone()).unwrap_or_default(),
            commands: commands.map(|commands| (0..).zip(&commands).map(world_command).collect()),
        };
        asked.next += 1;
        asked.open = Some(ask.clone());
        let message = NodeToCoordinator::Spawn(Box::new(ask));
        effects.push(Effect::Send {
            node: self.coordinator.clone(),
            message: message.into(),
        });
    }

    /// Requests that wait for the coordinator's answer.
    pub(super) fn spawn_asks(&self) -> impl Iterator<Item = Effect> + '_ {
        let open = self.spawns.values().filter_map(|asked| asked.open.as_ref());
        open.map(|ask| Effect::Send {
            node: self.coordinator.clone(),
            message: NodeToCoordinator::Spawn(Box::new(ask.clone())).into(),
        })
    }

    pub(super) fn on_spawn_result(
        &mut self,
        process: ProcessId,
        number: u32,
        result: &Result<SpawnedWorld, String>,
        effects: &mut Vec<Effect>,
    ) {
        let asked = self.spawns.get_mut(&process);
        let is_open = |asked: &&mut Asked| asked.open.as_ref().is_some_and(|ask| ask.number == number);
        let Some(asked) = asked.filter(is_open) else { return };
        asked.open = None;
        if let Some(question) = asked.question {
            let world = result.as_ref().ok().map(|made| made.world);
            asked.answered.truncate(ANSWERS_KEPT - 1);
            asked.answered.push_front((question, world));
            return effects.push(Effect::SpawnAnswered {
                process,
                question,
                world,
            });
        }
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        self.in_world(world, effects, |world| world.on_spawn_answer(process, result));
    }
}

fn world_command((number, command): (u32, &SpawnCommand)) -> WorldCommand {
    WorldCommand {
        count: command.processes,
        number,
        program: command.program.clone().into_bytes(),
        args: command.args.iter().map(|arg| arg.clone().into_bytes()).collect(),
        cwd: command.info("wdir").or_else(|| command.info("wd")).map(Into::into),
        search_path: command.info("path").map(|path| path.as_bytes().to_vec()),
        hosts: command.hosts(),
        environment: command.environment.iter().map(variable).collect(),
    }
}

fn variable((name, value): &(String, String)) -> (Vec<u8>, Vec<u8>) {
    (name.clone().into_bytes(), value.clone().into_bytes())
}
