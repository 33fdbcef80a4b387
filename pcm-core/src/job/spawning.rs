//! Worlds that the application asks for with `MPI_Comm_spawn`: from the request over placement and start to the
//! answer, which waits until the first new rank asks for its parent's port, or with Open MPI until all are connected to
//! PMIx. An earlier answer would make the parent wait inside MPI for the whole start of its children.

use super::coordinator::{Coordinator, Effect, SpawnWant};
use super::phase::Phase;
use super::placement::Share;
use super::process::{Process, ProcessState, Role};
use super::spawn_requests::{Asker, Request, State};
use super::worlds;
use crate::between_worlds;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::job::RANKS_MAX;
use pcm_proto::peer::{CoordinatorToNode, WorldStart};
use pcm_proto::spawn::{SpawnAsk, SpawnedWorld, WorldCommand};
use std::collections::BTreeMap;

/// Longest time from the request until the new world is ready to meet its parent.
pub(super) const SPAWN_US_MAX: u64 = 60_000_000;

impl Coordinator {
    pub(super) fn on_spawn(&mut self, now_us: u64, ask: SpawnAsk, effects: &mut Vec<Effect>) {
        let asker = (ask.process, ask.number);
        if !self.processes.contains_key(&ask.process) || !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        if let Some(request) = self.spawning.requests.get(&ask.process)
            && request.number >= ask.number
        {
            if let (State::Answered(result), true) = (&request.state, request.number == ask.number) {
                let result = result.clone();
                self.answer(asker, result, effects);
            }
            return;
        }
        let wants = ask.commands.as_deref().map(wants).map_err(Clone::clone);
        let alive = self.processes.values().filter(|process| process.counts()).count() as u32;
        let spare = self.spare_for(now_us, &ask);
        let spare = spare.filter(|_| alive < RANKS_MAX && self.has_room_for(1));
        if let Some(world) = spare {
            self.adopt(world, &ask, effects);
        }
        let ask = Box::new(ask);
        let request = Request {
            number: asker.1,
            expires_us: now_us + SPAWN_US_MAX,
            state: match spare {
                Some(world) => State::Adopting { world, ask },
                None => State::Placing(ask),
            },
        };
        self.spawning.requests.insert(asker.0, request);
        if spare.is_some() {
            return;
        }
        let wants = match wants {
            Ok(wants) => wants,
            Err(reason) => return self.refuse(asker, format!("the request cannot be carried out: {reason}"), effects),
        };
        let counts = wants.iter().map(|want| u64::from(want.count));
        let (count, room) = (counts.sum::<u64>(), RANKS_MAX.saturating_sub(alive));
        if count == 0 || count > u64::from(room) {
            let reason = format!("it asks for {count} processes; the job has room for 1 to {room} of {RANKS_MAX}");
            return self.refuse(asker, reason, effects);
        }
        if !self.has_room_for(count as u32) {
            let too_many = between_worlds::no_room(self.worlds_met, count as u32);
            let reason = format!("{too_many}: run the job with --between-worlds network");
            return self.refuse(asker, reason, effects);
        }
        effects.push(Effect::Place {
            process: asker.0,
            number: asker.1,
            wants,
        });
    }

    pub(super) fn on_spawn_placed(
        &mut self,
        now_us: u64,
        asker: Asker,
        shares: Result<Vec<Share>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(request) = self.spawning.requests.get_mut(&asker.0) else {
            return;
        };
        let State::Placing(ask) = &request.state else { return };
        let Ok(commands) = ask.commands.clone() else { return };
        if request.number != asker.1 || !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        let shares = match shares {
            Ok(shares) => shares,
            Err(reason) => return self.refuse(asker, reason, effects),
        };
        let world = WorldId(self.world_next);
        let first = self.process_next;
        let start = WorldStart {
            preset: ask.preset.clone(),
            parent: Some(ask.asker),
            ..worlds::spawned_world(world, &shares, ProcessId(first), commands)
        };
        let size = worlds::size_of(&start);
        request.state = State::Starting { world, size };
        self.note_joining(size);
        self.order_worlds(vec![start], Role::Guest, now_us, effects);
    }

    pub(super) fn on_spawn_ready(&mut self, now_us: u64, world: WorldId, effects: &mut Vec<Effect>) {
        let Some((asker, size)) = self.spawning.asker_of(world) else {
            return;
        };
        self.answer(asker, Ok(SpawnedWorld { world, size }), effects);
        let Some(request) = self.spawning.requests.get(&asker.0) else {
            return;
        };
        let since_us = request.expires_us.saturating_sub(SPAWN_US_MAX);
        let of_world = self.processes.values().filter(|process| process.world == world);
        effects.push(Effect::Note(EventKind::Spawned {
            children: size,
            placement: of_world.map(|process| process.node.clone()).collect(),
            spare: self.spares.has_been(world),
            spawn_ms: now_us.saturating_sub(since_us) as f64 / 1000.0,
        }));
    }

    pub(super) fn on_guest_exited(&mut self, world: WorldId, effects: &mut Vec<Effect>) {
        let is_over = self
            .processes
            .values()
            .filter(|process| process.world == world)
            .all(Process::is_over);
        if is_over && let Some((asker, _)) = self.spawning.asker_of(world) {
            let reason = "the processes ended before they called MPI_Init".to_owned();
            self.refuse(asker, reason, effects);
        }
    }

    /// The spare that was to answer a spawn died before it could: the spawn goes the usual way.
    pub(super) fn place_instead_of(&mut self, world: WorldId, effects: &mut Vec<Effect>) -> bool {
        let requests = &mut self.spawning.requests;
        let of_world =
            |request: &&mut Request| matches!(&request.state, State::Adopting { world: other, .. } if *other == world);
        let Some(request) = requests.values_mut().find(of_world) else {
            return false;
        };
        let State::Adopting { ask, .. } = &request.state else {
            return false;
        };
        let ask = ask.clone();
        effects.push(Effect::Place {
            process: ask.process,
            number: ask.number,
            wants: ask.commands.as_deref().map(wants).unwrap_or_default(),
        });
        request.state = State::Placing(ask);
        true
    }

    /// A spawned world that cannot start wholly is ended; the job goes on and the asker gets an error.
    pub(super) fn on_guest_refused(&mut self, world: WorldId, reason: &str, effects: &mut Vec<Effect>) {
        self.give_up_world(world, effects);
        if let Some((asker, _)) = self.spawning.asker_of(world) {
            self.refuse(asker, reason.to_owned(), effects);
        }
    }

    pub(super) fn spawning_expired(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let is_due = |request: &Request| now_us >= request.expires_us && !matches!(request.state, State::Answered(_));
        let due: Vec<Asker> = self
            .spawning
            .requests
            .iter()
            .filter(|(_, request)| is_due(request))
            .map(|(process, request)| (*process, request.number))
            .collect();
        for asker in due {
            if let State::Starting { world, .. } | State::Adopting { world, .. } =
                self.spawning.requests[&asker.0].state
            {
                self.give_up_world(world, effects);
            }
            let seconds = SPAWN_US_MAX / 1_000_000;
            let reason = format!("the processes did not call MPI_Init within {seconds} s");
            self.refuse(asker, reason, effects);
        }
    }

    fn give_up_world(&mut self, world: WorldId, effects: &mut Vec<Effect>) {
        let mut by_node: BTreeMap<NodeName, Vec<ProcessId>> = BTreeMap::new();
        for (id, process) in &mut self.processes {
            if process.world == world && !process.is_over() {
                process.role = Role::Leaver;
                by_node.entry(process.node.clone()).or_default().push(*id);
            }
        }
        for (node, processes) in by_node {
            let message = CoordinatorToNode::EndProcesses { processes, grace_ms: 0 };
            effects.push(Effect::Send { node, message });
        }
    }

    fn refuse(&mut self, asker: Asker, reason: String, effects: &mut Vec<Effect>) {
        let process = asker.0;
        self.answer(asker, Err(reason.clone()), effects);
        effects.push(Effect::Note(EventKind::SpawnRefused { process, reason }));
    }

    fn answer(&mut self, asker: Asker, result: Result<SpawnedWorld, String>, effects: &mut Vec<Effect>) {
        let (process, number) = asker;
        if let Some(request) = self.spawning.requests.get_mut(&process)
            && request.number == number
        {
            request.state = State::Answered(result.clone());
        }
        if let Some(known) = self.processes.get(&process)
            && known.state != ProcessState::Refused
        {
            let message = CoordinatorToNode::SpawnResult {
                process,
                number,
                result,
            };
            effects.push(Effect::Send {
                node: known.node.clone(),
                message,
            });
        }
    }
}

/// The processes of a spawn, those together that may go to the same hosts.
fn wants(commands: &[WorldCommand]) -> Vec<SpawnWant> {
    let mut wants: Vec<SpawnWant> = Vec::new();
    for WorldCommand { count, hosts, .. } in commands {
        match wants.last_mut() {
            Some(last) if last.hosts == *hosts => last.count = last.count.saturating_add(*count),
            _ => wants.push(SpawnWant {
                count: *count,
                hosts: hosts.clone(),
            }),
        }
    }
    wants
}
