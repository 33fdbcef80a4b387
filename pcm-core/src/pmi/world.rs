//! One world of processes as the daemon of one node sees it: what its local processes asked and what they are told.
//! Values stay here until a barrier carries them to the other nodes. Never does I/O; the same requests in the same
//! order give the same state, so that a daemon may keep either in its journal.
//!
//! A request stays in the process's socket until it is answered ([`super::wire`]). A daemon that starts again is
//! therefore asked again what its predecessor did not answer; every request here may come twice.

use super::gather::{PUTS_BYTES_MAX, Puts, bytes_of};
use super::likeness;
use super::spawn::SpawnCommand;
use super::wire::{Answer, Request};
use pcm_proto::app::environment::MPI_NAME_KEY;
use pcm_proto::ids::ProcessId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most values one world holds: MPICH puts two to four per process, and a world has at most 4,096 processes.
pub const VALUES_MAX: usize = 64 * 1024;

/// The key under which the root of a parent tells its children where to connect.
pub const PARENT_PORT_KEY: &str = "PARENT_ROOT_PORT_NAME";

/// What a world is at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldSpec {
    /// The name of its key-value space; unique on every host for all time (see [`super::segment`]).
    pub kvsname: String,
    /// Processes of the whole world.
    pub size: u32,
    /// Processes of this node, with their rank in the world.
    pub local: Vec<(ProcessId, u32)>,
    /// Values that are there from the start: `PMI_process_mapping`, and what a spawn brought.
    pub values: Vec<(String, String)>,
    /// The number of processes there could be.
    pub universe: Option<u32>,
    /// By the process's rank in the world: which command of a spawn it belongs to. Empty means 0 for all.
    pub app_numbers: Vec<u32>,
    /// Whether its processes are held where they ask for their parent, until one takes them ([`World::on_adopted`]).
    pub is_spare: bool,
}

/// How far a process came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// It has not spoken yet.
    Started,
    /// It began to initialise MPI.
    Initialized,
    /// It is done with MPI.
    Finalized,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Waiting {
    Nothing,
    /// In the present barrier.
    Barrier,
    /// Answered by `barrier_out`; whether it was sent is not known yet.
    BarrierAnswered,
    /// For the children of a spawn.
    Spawn,
    /// Answered by this `spawn_result`; whether it was sent is not known yet.
    SpawnAnswered {
        line: String,
    },
    /// For a parent: MPI is initialised but for the meeting with it.
    Parent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    rank: u32,
    stage: Stage,
    waiting: Waiting,
}

/// What the daemon has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this line to the process, then call [`World::on_answered`].
    Answer {
        process: ProcessId,
        /// The line, with its end.
        line: String,
    },
    /// All local processes are in the barrier: tell the tree ([`super::gather::Gather::on_own`]).
    BarrierUp {
        generation: u64,
        /// Values put here since the last one.
        puts: Puts,
    },
    /// All local processes finalized: no later barrier waits for them.
    AllFinalized,
    /// Its processes cannot make one world; a barrier in which that was found does not end.
    Unlike {
        /// Why, for people.
        reason: String,
    },
    /// The process is done with MPI; it may end with any code now.
    Finalized { process: ProcessId },
    /// The process ends the job. It expects no answer.
    Aborted {
        process: ProcessId,
        /// The job's exit code.
        code: i32,
        /// What it said.
        message: String,
    },
    /// The process wants more processes; answer with [`World::on_spawned`] or [`World::on_spawn_refused`].
    SpawnRequested {
        process: ProcessId,
        /// What to start, as one world, or what is wrong with the request.
        commands: Result<Vec<SpawnCommand>, String>,
    },
    /// A child of a spawn asked for its parent's port: the children are initialised and about to connect. Now the
    /// parent may be told ([`World::on_spawned`] of its world); before, its MPI would stand still for their start.
    ParentAsked,
    /// Every local process of a spare world waits for a parent.
    SpareReady,
    /// `MPI_Publish_name`, `MPI_Unpublish_name` or `MPI_Lookup_name`: answer with [`World::on_name_answer`].
    NameRequested {
        process: ProcessId,
        /// What it asked.
        request: Request,
    },
}

/// One world on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    kvsname: String,
    size: u32,
    universe: Option<u32>,
    app_numbers: Vec<u32>,
    members: BTreeMap<ProcessId, Member>,
    values: BTreeMap<String, String>,
    fresh: Puts,
    generation: u64,
    is_up: bool,
    has_asked_parent: bool,
    is_spare: bool,
}

impl World {
    /// A world whose processes have not spoken yet.
    pub fn new(spec: WorldSpec) -> Self {
        let member = |rank| Member {
            rank,
            stage: Stage::Started,
            waiting: Waiting::Nothing,
        };
        Self {
            kvsname: spec.kvsname,
            size: spec.size,
            universe: spec.universe,
            app_numbers: spec.app_numbers,
            members: spec
                .local
                .into_iter()
                .map(|(process, rank)| (process, member(rank)))
                .collect(),
            values: spec.values.into_iter().collect(),
            fresh: Puts::new(),
            generation: 0,
            is_up: false,
            has_asked_parent: false,
            is_spare: spec.is_spare,
        }
    }

    /// The name of its key-value space.
    pub fn kvsname(&self) -> &str {
        &self.kvsname
    }

    /// Whether every local process has come to where a parent can take it.
    pub fn is_spare_ready(&self) -> bool {
        self.is_spare && self.members.values().all(|member| member.waiting == Waiting::Parent)
    }

    /// How far a process came; `None` for a stranger.
    pub fn stage(&self, process: ProcessId) -> Option<Stage> {
        self.members.get(&process).map(|member| member.stage)
    }

    /// Whether every local process began to initialise MPI.
    pub fn is_initialized(&self) -> bool {
        self.members.values().all(|member| member.stage >= Stage::Initialized)
    }

    /// The local processes.
    pub fn processes(&self) -> impl Iterator<Item = ProcessId> {
        self.members.keys().copied()
    }

    /// A process asks. A stranger's request has no effect.
    pub fn on_request(&mut self, process: ProcessId, request: Request) -> Vec<Effect> {
        let Some(member) = self.members.get_mut(&process) else {
            return Vec::new();
        };
        let answer = |answer: Answer<'_>| {
            vec![Effect::Answer {
                process,
                line: answer.line(),
            }]
        };
        match request {
            Request::Init { version, .. } => {
                member.stage = member.stage.max(Stage::Initialized);
                answer(if version == 1 {
                    Answer::Init
                } else {
                    Answer::InitRefused
                })
            }
            Request::Maxes => answer(Answer::Maxes),
            Request::AppNumber => {
                let number = self.app_numbers.get(member.rank as usize);
                answer(Answer::AppNumber(number.copied().unwrap_or(0)))
            }
            Request::KvsName => answer(Answer::KvsName(&self.kvsname)),
            Request::UniverseSize => answer(Answer::UniverseSize(self.universe)),
            Request::Put { key, value } => {
                // Ranks on one node may wait for each other before they come to a barrier.
                let names_mpi = key.starts_with(MPI_NAME_KEY);
                let mut effects = answer(self.put(key, value));
                let difference = names_mpi.then(|| likeness::difference(&self.values)).flatten();
                effects.extend(difference.map(|reason| Effect::Unlike { reason }));
                effects
            }
            Request::Get { key } => self.on_lookup(process, &key),
            Request::BarrierIn => self.on_barrier(process),
            Request::Finalize => self.on_finalize(process),
            Request::Abort { code, message } => vec![Effect::Aborted { process, code, message }],
            Request::Spawn { commands } => self.on_spawn(process, Ok(commands)),
            Request::Unfit { command, reason } if command == "spawn" => self.on_spawn(process, Err(reason)),
            Request::Unfit { command, .. } => answer(Answer::to_unfit(&command)),
            request @ (Request::Publish { .. } | Request::Unpublish { .. } | Request::Lookup { .. }) => {
                vec![Effect::NameRequested { process, request }]
            }
            Request::Unknown { command } => answer(Answer::Unknown(&command)),
        }
    }

    /// The tree released a barrier, with the new values of all nodes. A late or double release has no effect.
    pub fn on_release(&mut self, generation: u64, puts: Puts) -> Vec<Effect> {
        if generation != self.generation {
            return Vec::new();
        }
        if let Some(reason) = likeness::difference(&puts) {
            return vec![Effect::Unlike { reason }];
        }
        self.values.extend(puts);
        self.fresh.clear();
        self.generation += 1;
        self.is_up = false;
        let mut effects = Vec::new();
        for (process, member) in &mut self.members {
            if member.waiting == Waiting::Barrier {
                member.waiting = Waiting::BarrierAnswered;
                effects.push(Effect::Answer {
                    process: *process,
                    line: Answer::BarrierOut.line(),
                });
            }
        }
        effects
    }

    /// The children of this process's spawn are ready: one error code for each, 0 for good.
    pub fn on_spawned(&mut self, process: ProcessId, codes: &[i32]) -> Vec<Effect> {
        self.spawn_answer(process, Answer::Spawned(codes).line())
    }

    /// The process's spawn did not happen; nothing of it is left.
    pub fn on_spawn_refused(&mut self, process: ProcessId) -> Vec<Effect> {
        self.spawn_answer(process, Answer::SpawnRefused.line())
    }

    /// A parent takes a spare world: these are the values that its spawn brings. Said again, it changes nothing, but
    /// whether the children asked for their parent is told again.
    pub fn on_adopted(&mut self, values: &[(String, String)]) -> Vec<Effect> {
        let was_spare = std::mem::replace(&mut self.is_spare, false);
        if !was_spare {
            return self
                .has_asked_parent
                .then_some(Effect::ParentAsked)
                .into_iter()
                .collect();
        }
        self.values.extend(values.iter().cloned());
        let mut effects = Vec::new();
        for (process, member) in &mut self.members {
            if member.waiting == Waiting::Parent {
                member.waiting = Waiting::Nothing;
                let value = self.values.get(PARENT_PORT_KEY).map(String::as_str);
                effects.push(Effect::Answer {
                    process: *process,
                    line: Answer::Value(value).line(),
                });
            }
        }
        if !effects.is_empty() {
            self.has_asked_parent = true;
            effects.push(Effect::ParentAsked);
        }
        effects
    }

    /// The answer to a `NameRequested`.
    pub fn on_name_answer(&mut self, process: ProcessId, answer: &Answer<'_>) -> Vec<Effect> {
        vec![Effect::Answer {
            process,
            line: answer.line(),
        }]
    }

    /// The last answer to the process was sent and its request taken out of the socket.
    pub fn on_answered(&mut self, process: ProcessId) {
        if let Some(member) = self.members.get_mut(&process)
            && matches!(member.waiting, Waiting::BarrierAnswered | Waiting::SpawnAnswered { .. })
        {
            member.waiting = Waiting::Nothing;
        }
    }

    /// The daemon started again with this world from its journal. `unanswered` are the processes whose request still
    /// stands in the socket; it will be seen as if it came anew. Answers to all others had been sent.
    pub fn on_restored(&mut self, unanswered: &BTreeSet<ProcessId>) -> Vec<Effect> {
        for (process, member) in &mut self.members {
            if !unanswered.contains(process)
                && matches!(member.waiting, Waiting::BarrierAnswered | Waiting::SpawnAnswered { .. })
            {
                member.waiting = Waiting::Nothing;
            }
        }
        if self.is_up {
            vec![self.barrier_up()]
        } else {
            Vec::new()
        }
    }

    fn put(&mut self, key: String, value: String) -> Answer<'static> {
        let is_new = !self.values.contains_key(&key);
        let bytes = bytes_of(&self.values) + key.len() + value.len();
        if bytes > PUTS_BYTES_MAX || is_new && self.values.len() >= VALUES_MAX {
            return Answer::PutRefused;
        }
        self.values.insert(key.clone(), value.clone());
        self.fresh.insert(key, value);
        Answer::Put
    }

    fn on_lookup(&mut self, process: ProcessId, key: &str) -> Vec<Effect> {
        if self.is_spare && key == PARENT_PORT_KEY {
            return self.hold(process);
        }
        let value = self.values.get(key).map(String::as_str);
        let mut effects = vec![Effect::Answer {
            process,
            line: Answer::Value(value).line(),
        }];
        if key == PARENT_PORT_KEY && value.is_some() && !self.has_asked_parent {
            self.has_asked_parent = true;
            effects.push(Effect::ParentAsked);
        }
        effects
    }

    /// The process is not answered before a parent takes it.
    fn hold(&mut self, process: ProcessId) -> Vec<Effect> {
        let was_ready = self.is_spare_ready();
        if let Some(member) = self.members.get_mut(&process) {
            member.waiting = Waiting::Parent;
        }
        let is_ready = self.is_spare_ready() && !was_ready;
        is_ready.then_some(Effect::SpareReady).into_iter().collect()
    }

    fn on_barrier(&mut self, process: ProcessId) -> Vec<Effect> {
        if let Some(member) = self.members.get_mut(&process) {
            match member.waiting {
                Waiting::BarrierAnswered => {
                    return vec![Effect::Answer {
                        process,
                        line: Answer::BarrierOut.line(),
                    }];
                }
                Waiting::Barrier => return Vec::new(),
                _ => member.waiting = Waiting::Barrier,
            }
        }
        self.barrier_complete()
    }

    fn barrier_complete(&mut self) -> Vec<Effect> {
        let mut members = self.members.values();
        let all_in = members.all(|member| member.waiting == Waiting::Barrier || member.stage == Stage::Finalized);
        let somebody = self.members.values().any(|member| member.waiting == Waiting::Barrier);
        if self.is_up || !all_in || !somebody {
            return Vec::new();
        }
        if self.members.len() == self.size as usize {
            let puts = std::mem::take(&mut self.fresh);
            return self.on_release(self.generation, puts);
        }
        self.is_up = true;
        vec![self.barrier_up()]
    }

    /// Values stay fresh until the release that contains them, so that the word upwards can be said again.
    fn barrier_up(&self) -> Effect {
        Effect::BarrierUp {
            generation: self.generation,
            puts: self.fresh.clone(),
        }
    }

    fn on_finalize(&mut self, process: ProcessId) -> Vec<Effect> {
        let mut effects = vec![Effect::Answer {
            process,
            line: Answer::FinalizeAck.line(),
        }];
        effects.extend(self.on_reached(process, Stage::Finalized));
        effects
    }

    /// A process came so far; one that does not speak PMI says so by another way.
    pub fn on_reached(&mut self, process: ProcessId, stage: Stage) -> Vec<Effect> {
        let mut effects = Vec::new();
        if stage != Stage::Finalized {
            if let Some(member) = self.members.get_mut(&process) {
                member.stage = member.stage.max(stage);
            }
            return effects;
        }
        if let Some(member) = self.members.get_mut(&process)
            && member.stage != Stage::Finalized
        {
            member.stage = Stage::Finalized;
            effects.push(Effect::Finalized { process });
            effects.extend(self.barrier_complete());
            if self.members.values().all(|member| member.stage == Stage::Finalized) {
                effects.push(Effect::AllFinalized);
            }
        }
        effects
    }

    fn on_spawn(&mut self, process: ProcessId, commands: Result<Vec<SpawnCommand>, String>) -> Vec<Effect> {
        let Some(member) = self.members.get_mut(&process) else {
            return Vec::new();
        };
        match &member.waiting {
            Waiting::SpawnAnswered { line } => vec![Effect::Answer {
                process,
                line: line.clone(),
            }],
            Waiting::Spawn => Vec::new(),
            _ => {
                member.waiting = Waiting::Spawn;
                vec![Effect::SpawnRequested { process, commands }]
            }
        }
    }

    fn spawn_answer(&mut self, process: ProcessId, line: String) -> Vec<Effect> {
        match self.members.get_mut(&process) {
            Some(member) if member.waiting == Waiting::Spawn => {
                member.waiting = Waiting::SpawnAnswered { line: line.clone() };
                vec![Effect::Answer { process, line }]
            }
            _ => Vec::new(),
        }
    }
}
