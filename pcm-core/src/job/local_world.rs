//! One world of a job on one node: its processes' PMI requests, and the node's place in the world's barrier tree.
//! Joins [`crate::pmi`] with the messages between nodes.

use super::participant::{Effect, Participant};
use super::worlds;
use crate::pmi::gather::{Gather, GatherEffect, PUTS_BYTES_MAX, Puts};
use crate::pmi::segment;
use crate::pmi::spawn::SpawnCommand;
use crate::pmi::wire::{Answer, Request};
use crate::pmi::world::{self, Stage, World, WorldSpec};
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::peer::{NameRequest, NodeToCoordinator, WorldMessage, WorldStart};
use pcm_proto::spawn::{SpawnedWorld, WorldCommand};
use pcm_proto::tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A world as one of its nodes holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalWorld {
    start: WorldStart,
    world: World,
    gather: Gather<NodeName>,
    parent: Option<NodeName>,
    /// The own processes and children that may still take part in a barrier.
    taking_part: BTreeSet<NodeName>,
    /// The last release, for children that missed it.
    released: Option<(u64, Puts)>,
    own: NodeName,
    /// Its processes speak PMIx: they say how far they came, and their barriers are none of this node's.
    speaks_pmix: bool,
}

/// What a request means outside the world.
pub(super) enum Outward {
    /// Carry this out.
    Do(Effect),
    /// Ask the coordinator for more processes.
    Spawn {
        process: ProcessId,
        commands: Result<Vec<SpawnCommand>, String>,
    },
    /// Tell the coordinator that this world is ready to meet its parent.
    Ready(WorldId),
    /// Tell the coordinator that this world waits for a parent.
    SpareReady(WorldId),
    /// Ask the coordinator about a name.
    Name { process: ProcessId, request: NameRequest },
    /// Tell the coordinator that a process aborts.
    Abort {
        process: ProcessId,
        code: i32,
        message: String,
    },
    /// Tell the coordinator that the job cannot go on.
    Lost { reason: String },
}

impl LocalWorld {
    pub(super) fn new(
        own: &NodeName,
        start: WorldStart,
        (kvsname, speaks_pmix): (String, bool),
        local: Vec<(ProcessId, u32)>,
    ) -> Self {
        let position = start.nodes.iter().position(|node| node == own).unwrap_or(0);
        let children: Vec<NodeName> = start.nodes[tree::children(position, start.nodes.len())].to_vec();
        let parent = tree::parent(position).map(|parent| start.nodes[parent].clone());
        let mut values = start.preset.clone();
        if !start.process_mapping.is_empty() {
            values.push(("PMI_process_mapping".to_owned(), start.process_mapping.clone()));
        }
        let commands = start.commands.iter();
        let app_numbers = commands.flat_map(|command| std::iter::repeat_n(command.number, command.count as usize));
        let spec = WorldSpec {
            kvsname,
            size: worlds::size_of(&start),
            local,
            values,
            universe: None,
            app_numbers: app_numbers.collect(),
            is_spare: start.spare,
        };
        Self {
            world: World::new(spec),
            gather: Gather::new(parent.is_none(), children.iter().cloned()),
            taking_part: children.into_iter().chain([own.clone()]).collect(),
            parent,
            released: None,
            own: own.clone(),
            speaks_pmix,
            start,
        }
    }

    /// How the world was ordered.
    pub fn start(&self) -> &WorldStart {
        &self.start
    }

    /// The program of a rank, where it is not the job's.
    pub fn command(&self, world_rank: u32) -> Option<&WorldCommand> {
        let mut first = 0;
        self.start.commands.iter().find(|command| {
            first += command.count;
            world_rank < first
        })
    }

    /// The beginning of the names of the shared memory that MPI makes for this world.
    pub fn segment_prefix(&self) -> String {
        segment::segment_prefix(self.world.kvsname())
    }

    /// How many ranks the world has.
    pub fn size(&self) -> u32 {
        worlds::size_of(&self.start)
    }

    pub(super) fn is_spare_ready(&self) -> bool {
        self.world.is_spare_ready()
    }

    pub(super) fn on_adopted(&mut self, values: &[(String, String)]) -> Vec<Outward> {
        let effects = self.world.on_adopted(values);
        self.carry(effects)
    }

    pub(super) fn is_neighbour(&self, node: &NodeName) -> bool {
        self.parent.as_ref() == Some(node) || self.gather.children().any(|child| child == node)
    }

    pub(super) fn stage(&self, process: ProcessId) -> Option<Stage> {
        self.world.stage(process)
    }

    pub(super) fn has_children(&self) -> bool {
        self.gather.children().next().is_some() && self.taking_part.iter().any(|node| *node != self.own)
    }

    pub(super) fn on_request(&mut self, process: ProcessId, request: Request) -> Vec<Outward> {
        let effects = self.world.on_request(process, request);
        self.carry(effects)
    }

    pub(super) fn on_reached(&mut self, process: ProcessId, stage: Stage) -> Vec<Outward> {
        let effects = self.world.on_reached(process, stage);
        let mut outward = self.carry(effects);
        if self.start.spawned && self.world.is_initialized() {
            outward.extend(self.all_here_initialized());
        }
        outward
    }

    /// The barrier tree carries the word that all processes of a spawned world are initialised but for the meeting with
    /// their parent: that is its first barrier.
    fn all_here_initialized(&mut self) -> Vec<Outward> {
        let effect = self.gather.on_own(0, Puts::new());
        self.gathered(effect)
    }

    pub(super) fn on_answered(&mut self, process: ProcessId) {
        self.world.on_answered(process);
    }

    pub(super) fn on_child(&mut self, child: &NodeName, generation: u64, puts: Puts) -> Vec<Outward> {
        if let Some((released, puts)) = &self.released
            && *released == generation
        {
            return vec![self.done_to(child.clone(), generation, puts.clone())];
        }
        let effect = self.gather.on_child(child, generation, puts);
        self.gathered(effect)
    }

    pub(super) fn on_child_gone(&mut self, child: &NodeName) -> Vec<Outward> {
        let effect = self.gather.on_child_gone(child);
        let mut outward = self.gathered(effect);
        outward.extend(self.leave(&child.clone()));
        outward
    }

    pub(super) fn on_done(&mut self, generation: u64, puts: Puts) -> Vec<Outward> {
        self.release(generation, puts)
    }

    pub(super) fn on_spawn_answer(
        &mut self,
        process: ProcessId,
        result: &Result<SpawnedWorld, String>,
    ) -> Vec<Outward> {
        let effects = match result {
            Ok(made) => self.world.on_spawned(process, &vec![0; made.size as usize]),
            Err(_) => self.world.on_spawn_refused(process),
        };
        self.carry(effects)
    }

    pub(super) fn on_name_answer(&mut self, process: ProcessId, answer: &Answer<'_>) -> Vec<Outward> {
        let effects = self.world.on_name_answer(process, answer);
        self.carry(effects)
    }

    /// The barrier word to the parent, if `node` is that and waits for it.
    pub(super) fn said_to(&self, node: &NodeName) -> Vec<Effect> {
        if self.parent.as_ref() != Some(node) {
            return Vec::new();
        }
        let world = self.start.world;
        let message = match self.gather.again() {
            Some(GatherEffect::TellParent { generation, puts }) => WorldMessage::Barrier {
                world,
                generation,
                puts,
            },
            _ if self.taking_part.is_empty() => WorldMessage::BarrierGone { world },
            _ => return Vec::new(),
        };
        vec![Effect::Send {
            node: node.clone(),
            message: message.into(),
        }]
    }

    pub(super) fn on_restored(&mut self, unanswered: &BTreeSet<ProcessId>) -> Vec<Effect> {
        let effects = self.world.on_restored(unanswered);
        let outward = self.carry(effects);
        outward
            .into_iter()
            .filter_map(|outward| match outward {
                Outward::Do(effect) => Some(effect),
                _ => None,
            })
            .collect()
    }

    fn carry(&mut self, effects: Vec<world::Effect>) -> Vec<Outward> {
        let mut outward = Vec::new();
        for effect in effects {
            match effect {
                world::Effect::Answer { process, line } => outward.push(Outward::Do(Effect::Answer { process, line })),
                world::Effect::BarrierUp { generation, puts } => {
                    let effect = self.gather.on_own(generation, puts);
                    outward.extend(self.gathered(effect));
                }
                world::Effect::AllFinalized => {
                    let effect = self.gather.on_own_gone();
                    outward.extend(self.gathered(effect));
                    outward.extend(self.leave(&self.own.clone()));
                }
                world::Effect::Unlike { reason } => outward.push(Outward::Lost { reason }),
                world::Effect::Finalized { .. } => {}
                world::Effect::Aborted { process, code, message } => {
                    outward.push(Outward::Abort { process, code, message });
                }
                world::Effect::SpawnRequested { process, commands } => {
                    outward.push(Outward::Spawn { process, commands });
                }
                world::Effect::ParentAsked => outward.push(Outward::Ready(self.start.world)),
                world::Effect::SpareReady => outward.push(Outward::SpareReady(self.start.world)),
                world::Effect::NameRequested { process, request } => {
                    outward.extend(name_request(request).map(|request| Outward::Name { process, request }));
                }
            }
        }
        outward
    }

    fn gathered(&mut self, effect: Option<GatherEffect>) -> Vec<Outward> {
        match (effect, &self.parent) {
            (None, _) => Vec::new(),
            (Some(GatherEffect::TellParent { generation, puts }), Some(parent)) => {
                let message = WorldMessage::Barrier {
                    world: self.start.world,
                    generation,
                    puts,
                };
                vec![Outward::Do(Effect::Send {
                    node: parent.clone(),
                    message: message.into(),
                })]
            }
            (Some(GatherEffect::TooLarge { bytes }), _) => vec![Outward::Lost {
                reason: format!(
                    "its MPI put {bytes} bytes of values before one barrier of PMI, and {PUTS_BYTES_MAX} are the most: \
                     start fewer ranks, or put long data in a file"
                ),
            }],
            (Some(GatherEffect::TellParent { .. }), None) => unreachable!("a root has nobody to tell"),
            (Some(GatherEffect::Release { generation, puts }), _) => self.release(generation, puts),
        }
    }

    fn release(&mut self, generation: u64, puts: Puts) -> Vec<Outward> {
        if !self.gather.on_release(generation) {
            return Vec::new();
        }
        let effects = self.world.on_release(generation, puts.clone());
        if effects
            .iter()
            .any(|effect| matches!(effect, world::Effect::Unlike { .. }))
        {
            return self.carry(effects);
        }
        let children = self.gather.children().cloned();
        let mut outward: Vec<Outward> = children
            .map(|child| self.done_to(child, generation, puts.clone()))
            .collect();
        self.released = Some((generation, puts));
        outward.extend(self.carry(effects));
        let is_ready = self.speaks_pmix && self.start.spawned && self.parent.is_none() && generation == 0;
        outward.extend(is_ready.then_some(Outward::Ready(self.start.world)));
        outward
    }

    fn done_to(&self, child: NodeName, generation: u64, puts: Puts) -> Outward {
        let message = WorldMessage::BarrierDone {
            world: self.start.world,
            generation,
            puts,
        };
        Outward::Do(Effect::Send {
            node: child,
            message: message.into(),
        })
    }

    fn leave(&mut self, node: &NodeName) -> Option<Outward> {
        if !self.taking_part.remove(node) || !self.taking_part.is_empty() {
            return None;
        }
        let parent = self.parent.clone()?;
        let message = WorldMessage::BarrierGone {
            world: self.start.world,
        };
        Some(Outward::Do(Effect::Send {
            node: parent,
            message: message.into(),
        }))
    }
}

impl Participant {
    pub(super) fn in_world(
        &mut self,
        world: WorldId,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut LocalWorld) -> Vec<Outward>,
    ) {
        let Some(local) = self.worlds.get_mut(&world) else {
            return;
        };
        for outward in act(local) {
            match outward {
                Outward::Do(effect) => effects.push(effect),
                Outward::Ready(world) => {
                    let message = NodeToCoordinator::SpawnReady { world };
                    effects.push(Effect::Send {
                        node: self.coordinator.clone(),
                        message: message.into(),
                    });
                }
                Outward::SpareReady(world) => effects.push(Effect::Send {
                    node: self.coordinator.clone(),
                    message: NodeToCoordinator::SpareReady { world }.into(),
                }),
                Outward::Abort { process, code, message } => {
                    let message = NodeToCoordinator::Aborted { process, code, message };
                    effects.push(Effect::Send {
                        node: self.coordinator.clone(),
                        message: message.into(),
                    });
                }
                Outward::Lost { reason } => effects.push(Effect::Send {
                    node: self.coordinator.clone(),
                    message: NodeToCoordinator::Lost { reason }.into(),
                }),
                Outward::Name { process, request } => {
                    self.names.insert(process, request);
                    effects.extend(self.name_asks());
                }
                Outward::Spawn { process, commands } => self.on_spawn(process, commands, effects),
            }
        }
    }

    /// A spawn takes a spare world. Whoever holds back what its processes printed lets it go before they run on.
    pub(super) fn on_adopt(&mut self, world: WorldId, values: &[(String, String)], effects: &mut Vec<Effect>) {
        for (process, local) in &mut self.processes {
            if local.world == world && std::mem::replace(&mut local.is_spare, false) {
                effects.push(Effect::Adopted { process: *process });
            }
        }
        self.in_world(world, effects, |world| world.on_adopted(values));
    }

    /// Requests about names that wait for the coordinator's answer; asking twice does no harm.
    pub(super) fn name_asks(&self) -> Vec<Effect> {
        let ask = |(process, request): (&ProcessId, &NameRequest)| Effect::Send {
            node: self.coordinator.clone(),
            message: NodeToCoordinator::Name {
                process: *process,
                request: request.clone(),
            }
            .into(),
        };
        self.names.iter().map(ask).collect()
    }

    pub(super) fn on_name_answer(
        &mut self,
        process: ProcessId,
        request: &NameRequest,
        result: &Result<String, String>,
        effects: &mut Vec<Effect>,
    ) {
        if self.names.get(&process) != Some(request) {
            return;
        }
        self.names.remove(&process);
        let answer = match request {
            NameRequest::Publish { .. } => Answer::Published(result.is_ok()),
            NameRequest::Unpublish { .. } => Answer::Unpublished(result.is_ok()),
            NameRequest::Lookup { .. } => Answer::Found(result.as_deref().ok()),
        };
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        self.in_world(world, effects, |world| world.on_name_answer(process, &answer));
    }
}

fn name_request(request: Request) -> Option<NameRequest> {
    match request {
        Request::Publish { service, port } => Some(NameRequest::Publish { service, port }),
        Request::Unpublish { service } => Some(NameRequest::Unpublish { service }),
        Request::Lookup { service } => Some(NameRequest::Lookup { service }),
        _ => None,
    }
}
