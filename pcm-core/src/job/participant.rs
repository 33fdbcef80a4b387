//! What one node does for a job: starts its share of the processes, serves their worlds' barriers, tells the
//! coordinator how they end, and ends them when told to, or when the coordinator is lost. Takes inputs, returns
//! effects; the same inputs always give the same state, so a daemon that was killed replays them from its journal.

use super::asking::Asked;
use super::local_world::LocalWorld;
use crate::pmi::spawn::SpawnCommand;
use crate::pmi::wire::Request;
use crate::pmi::world::Stage;
use pcm_proto::checkpoint::Restores;
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{
    CoordinatorToNode, EndedBy, JobMessage, NameRequest, NodeToCoordinator, ProcessEnd, StartOrder, WorldMessage,
    WorldStart,
};
use pcm_proto::registered::Registered;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What happens to a node's part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The coordinator gave an order.
    Ordered { node: NodeName, order: CoordinatorToNode },
    /// A neighbour in a world's tree said something.
    World { node: NodeName, message: WorldMessage },
    /// Another node leads the job.
    Led {
        node: NodeName,
        /// Counts the coordinators before it.
        reign: u32,
    },
    /// A reconfiguration starts a world; this node has some of its processes.
    StartWorld {
        start: WorldStart,
        /// Its processes with their ranks in the planned layout.
        places: Vec<(ProcessId, Rank)>,
        /// The planned layout's epoch.
        epoch: Epoch,
        size: u32,
        /// Whether the processes take parked data and run, or wait to be called to a meeting.
        is_restored: bool,
    },
    /// These processes were told to leave, so their end is no failure.
    Leaving { processes: Vec<ProcessId> },
    /// A process runs.
    Started {
        process: ProcessId,
        /// Its process id.
        pid: u32,
    },
    /// A process could not be started.
    Refused {
        process: ProcessId,
        /// A code of [`pcm_proto::refusal`].
        code: String,
        reason: String,
    },
    /// A process ended.
    Exited {
        process: ProcessId,
        status: ExitStatus,
        /// Whether a reconfiguration has its data already, so that its end is no loss.
        is_spent: bool,
    },
    /// Nothing of the job is left in this node's process table.
    JobCleared,
    /// A process asks its process manager for something.
    Pmi { process: ProcessId, request: Request },
    /// A process told by another way than PMI how far it came.
    Reached { process: ProcessId, stage: Stage },
    /// A process asks for others by another way than PMI: what to start, or what is wrong with the request.
    SpawnAsked {
        process: ProcessId,
        /// The number of its question, which is said again when the daemon was away.
        question: u64,
        commands: Result<Vec<SpawnCommand>, String>,
    },
    /// The last answer to a process was sent.
    Answered { process: ProcessId },
    /// A process called `MPI_Abort` with this code (as the library tells it, PMI may follow).
    Aborting { process: ProcessId, code: i32 },
    /// MPI in a process ended it by itself with this code.
    GaveUp { process: ProcessId, code: i32 },
    /// Rank 0 has registered this and begins.
    Registered(Registered),
    /// All output of the job on this node was taken, now that its processes have ended.
    OutputTaken,
    /// The coordinator is out of reach for too long.
    CoordinatorLost,
    /// A reconfiguration cannot go on with the job's ranks here: this one ends, which the coordinator does not expect.
    RankLost { process: ProcessId },
    /// The time passed that [`Participant::deadline`] names.
    Tick,
}

impl Input {
    pub(super) fn exited(process: ProcessId, status: ExitStatus, is_spent: bool) -> Self {
        Self::Exited {
            process,
            status,
            is_spent,
        }
    }

    /// Whether it decides something that a successor of the daemon has to know.
    pub fn decides(&self) -> bool {
        match self {
            Self::Pmi { request, .. } => request.changes_state(),
            _ => true,
        }
    }
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a message to a node, which may be the own one.
    Send { node: NodeName, message: JobMessage },
    /// Start a process, and answer with [`Input::Started`] or [`Input::Refused`].
    Start { process: ProcessId },
    /// Send a signal to a process.
    Signal {
        process: ProcessId,
        /// The signal's number.
        signal: i32,
    },
    /// Have the keeper end what is left of the job here, and answer with [`Input::JobCleared`].
    EndJob,
    /// A spawn took this process, which was a spare until now: what it printed is output of the job.
    Adopted { process: ProcessId },
    /// Send this line to a process's PMI socket, then come back with [`Input::Answered`].
    Answer { process: ProcessId, line: String },
    /// What a process of Open MPI asked for was started as this world, or nothing was.
    SpawnAnswered {
        process: ProcessId,
        question: u64,
        world: Option<WorldId>,
    },
    /// No process is left; answer with [`Input::OutputTaken`] once all output was.
    Emptied,
    /// The job is over here: forget it.
    Over(Closing),
}

/// Why a node's part of a job is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Closing {
    JobOver,
    /// It goes on elsewhere and may need the checkpoints that are held here.
    JobGoesOn,
}

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalState {
    /// The keeper was asked to start it.
    Starting,
    Running {
        /// Its process id.
        pid: u32,
    },
    Ended(ProcessEnd),
    /// It could not be started.
    Refused {
        /// A code of [`pcm_proto::refusal`].
        code: String,
        reason: String,
    },
}

/// What a process that a reconfiguration started is told of the planned layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    pub epoch: Epoch,
    /// The process's rank in it.
    pub rank: Rank,
    pub size: u32,
    /// Whether the process takes parked data and runs, or waits to be called to a meeting.
    pub is_restored: bool,
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
    /// Set when a reconfiguration started it.
    pub newcomer: Option<Newcomer>,
    /// How many worlds begin the job together with its own; 1 for all that comes later.
    pub worlds: u32,
    /// What its end will be put down to.
    pub(super) ends_by: EndedBy,
    pub(super) order: u32,
    pub(super) kill_at_us: Option<u64>,
    /// Whether it waits, or will, for a spawn to take it.
    pub is_spare: bool,
}

impl Local {
    /// Whether the keeper has it, or may have.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, LocalState::Starting | LocalState::Running { .. })
    }

    /// Whether it was told to end.
    pub fn is_leaving(&self) -> bool {
        self.ends_by != EndedBy::Itself
    }

    /// Whether it was started for a reconfiguration, and was not told to end.
    pub(super) fn is_joining(&self) -> bool {
        self.newcomer.is_some() && !self.is_leaving()
    }

    /// Whether its end is nothing that the job expects.
    pub fn is_needed(&self) -> bool {
        self.is_alive() && !self.is_leaving() && self.kill_at_us.is_none() && !self.is_spare
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
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
    pub(super) is_crowded: bool,
    pub(super) kvs_prefix: String,
    pub(super) orders: BTreeSet<u32>,
    pub(super) processes: BTreeMap<ProcessId, Local>,
    pub(super) worlds: BTreeMap<WorldId, LocalWorld>,
    pub(super) spawns: BTreeMap<ProcessId, Asked>,
    /// Requests about names that wait for the coordinator's answer.
    pub(super) names: BTreeMap<ProcessId, NameRequest>,
    pub(super) unwanted: BTreeSet<ProcessId>,
    /// Words about worlds whose order has not come yet: they overtook it on another way.
    pub(super) early: Vec<(NodeName, WorldMessage)>,
    /// Worlds with this number or higher were not ordered yet, as far as this node knows.
    pub(super) world_next: u32,
    pub(super) phase: Phase,
    pub(super) closing: Option<Closing>,
    pub(super) life: Epoch,
    restarts: u32,
    pub(super) restores: Option<Restores>,
    /// Of the coordinator, as far as it was said.
    pub(super) reign: u32,
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
            names: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            early: Vec::new(),
            world_next: 0,
            phase: Phase::Active,
            closing: None,
            life: order.life,
            restarts: order.restarts,
            restores: order.restores.clone(),
            reign: 0,
        }
    }

    /// A coordinator of a lower reign does not lead the job any more.
    pub(super) fn know_reign(&mut self, reign: u32) {
        self.reign = reign;
    }

    /// Takes one input; on return the state is changed and the effects are to be carried out.
    pub fn handle(&mut self, now_us: u64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Ordered { node, order } => self.on_order(now_us, &node, order, &mut effects),
            Input::World { node, message } => self.on_world_message(&node, message, &mut effects),
            Input::Led { node, reign } => self.on_led(now_us, &node, reign, &mut effects),
            Input::StartWorld {
                start,
                places,
                epoch,
                size,
                is_restored,
            } => {
                let newcomer = |rank| Newcomer {
                    epoch,
                    rank,
                    size,
                    is_restored,
                };
                self.start_newcomers(&start, &places, newcomer, &mut effects);
            }
            Input::Leaving { processes } => self.mark_leaving(&processes),
            Input::Started { process, pid } => {
                self.settle(process, LocalState::Running { pid }, &mut effects);
            }
            Input::Refused { process, code, reason } => {
                self.settle(process, LocalState::Refused { code, reason }, &mut effects);
            }
            Input::Exited {
                process,
                status,
                is_spent,
            } => self.on_exited(process, status, is_spent, &mut effects),
            Input::JobCleared => self.on_job_cleared(&mut effects),
            Input::Pmi { process, request } => self.on_pmi(process, request, &mut effects),
            Input::Reached { process, stage } => self.on_reached(process, stage, &mut effects),
            Input::SpawnAsked {
                process,
                question,
                commands,
            } => self.on_spawn_question(process, question, commands, &mut effects),
            Input::Answered { process } => self.on_answered(process),
            Input::Aborting { process, code } => self.on_aborting(process, code, &mut effects),
            Input::GaveUp { process, code } => self.on_gave_up(process, code, &mut effects),
            Input::Registered(registered) if !registered.is_sound() => {}
            Input::Registered(registered) => {
                self.spec.registered = registered;
                effects.extend(self.registered_told());
            }
            Input::OutputTaken => self.on_output_taken(&mut effects),
            Input::CoordinatorLost => self.on_coordinator_lost(now_us, &mut effects),
            Input::RankLost { process } => self.end_lost(now_us, process, &mut effects),
            Input::Tick => {}
        }
        self.on_time(now_us, &mut effects);
        effects
    }

    /// What rank 0 registered, for the coordinator; it does no harm to say it again.
    pub(super) fn registered_told(&self) -> Option<Effect> {
        let registered = self.spec.registered.clone();
        (!registered.is_empty()).then(|| Effect::Send {
            node: self.coordinator.clone(),
            message: NodeToCoordinator::Registered(registered).into(),
        })
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

    fn on_order(&mut self, now_us: u64, node: &NodeName, order: CoordinatorToNode, effects: &mut Vec<Effect>) {
        if is_command(&order) && *node != self.coordinator && *node != self.own {
            // That node led the job before, and has not heard that another does.
            return;
        }
        match order {
            CoordinatorToNode::Start(order) => {
                self.on_start(&order, effects);
                for (node, message) in std::mem::take(&mut self.early) {
                    self.on_world_message(&node, message, effects);
                }
            }
            CoordinatorToNode::Signal { signal } => {
                // A spare has not come to where its program would catch it.
                effects.extend(self.alive().map(|process| Effect::Signal { process, signal }));
            }
            CoordinatorToNode::EndProcesses { processes, grace_ms } => {
                self.end_processes(now_us, &processes, grace_ms, effects);
            }
            CoordinatorToNode::End { grace_ms } => self.begin_ending(now_us, grace_ms, effects),
            CoordinatorToNode::Close => self.close(Closing::JobOver, now_us, effects),
            CoordinatorToNode::Release => self.close(Closing::JobGoesOn, now_us, effects),
            CoordinatorToNode::NameAnswer {
                process,
                request,
                result,
            } => {
                self.on_name_answer(process, &request, &result, effects);
            }
            CoordinatorToNode::Adopt { world, values } => self.on_adopt(world, &values, effects),
            CoordinatorToNode::SpawnResult {
                process,
                number,
                result,
            } => {
                self.on_spawn_result(process, number, &result, effects);
            }
            CoordinatorToNode::Registered(registered) => self.spec.registered = registered,
            // The node's, whatever jobs it has.
            CoordinatorToNode::Hosts(_) | CoordinatorToNode::Standbys { .. } | CoordinatorToNode::EndStandbys => {}
            // There is one.
            CoordinatorToNode::Confirm => {}
        }
    }

    /// Another node leads the job, which goes on from a checkpoint: what runs here belongs to the past.
    fn on_led(&mut self, now_us: u64, node: &NodeName, reign: u32, effects: &mut Vec<Effect>) {
        if reign <= self.reign {
            return;
        }
        self.reign = reign;
        if self.coordinator != *node {
            self.coordinator = node.clone();
            // The job that the node before closed goes on.
            self.closing = None;
            effects.extend(self.on_linked(node));
            self.begin_ending(now_us, 0, effects);
        }
    }

    fn on_pmi(&mut self, process: ProcessId, request: Request, effects: &mut Vec<Effect>) {
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        self.in_world(world, effects, |world| world.on_request(process, request));
    }

    fn on_reached(&mut self, process: ProcessId, stage: Stage, effects: &mut Vec<Effect>) {
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        self.in_world(world, effects, |world| world.on_reached(process, stage));
    }

    fn on_answered(&mut self, process: ProcessId) {
        let Some(world) = self.processes.get(&process).map(|local| local.world) else {
            return;
        };
        if let Some(world) = self.worlds.get_mut(&world) {
            world.on_answered(process);
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

    /// Whether a node coordinates the job or is a neighbour in the barriers of a world here.
    pub fn has_part_with(&self, node: &NodeName) -> bool {
        self.coordinator == *node || self.worlds.values().any(|world| world.is_neighbour(node))
    }

    /// What the job was asked to be.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// How often the job had been started again when this part began.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The first epoch since the job was started, or started again.
    pub fn life(&self) -> Epoch {
        self.life
    }

    /// Where the first processes of this part find their data.
    pub fn restores(&self) -> Option<&Restores> {
        self.restores.as_ref()
    }

    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// The beginnings of the names of the shared memory of all its worlds.
    pub fn segment_prefixes(&self) -> Vec<String> {
        self.worlds.values().map(LocalWorld::segment_prefix).collect()
    }

    /// The worlds with processes here.
    pub fn world(&self, world: WorldId) -> Option<&LocalWorld> {
        self.worlds.get(&world)
    }

    /// Whether a process waits, or will, for a spawn to take it.
    pub fn is_spare(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|local| local.is_spare)
    }

    /// The processes of the job that run, or may, and are no spares.
    pub fn alive(&self) -> impl Iterator<Item = ProcessId> + '_ {
        let alive = self
            .processes
            .iter()
            .filter(|(_, local)| local.is_alive() && !local.is_spare);
        alive.map(|(process, _)| *process)
    }

    /// The spares that run, or may.
    pub fn spares(&self) -> impl Iterator<Item = ProcessId> + '_ {
        let spares = self
            .processes
            .iter()
            .filter(|(_, local)| local.is_alive() && local.is_spare);
        spares.map(|(process, _)| *process)
    }

    /// Whether the job is being ended here, or has.
    pub fn is_ending(&self) -> bool {
        self.phase != Phase::Active
    }

    /// Whether no process is left here and none will come.
    pub fn is_emptied(&self) -> bool {
        matches!(self.phase, Phase::Emptied | Phase::Cleared)
    }
}

/// What only the job's coordinator may say.
fn is_command(message: &CoordinatorToNode) -> bool {
    matches!(
        message,
        CoordinatorToNode::Signal { .. }
            | CoordinatorToNode::EndProcesses { .. }
            | CoordinatorToNode::End { .. }
            | CoordinatorToNode::Close
            | CoordinatorToNode::Release
            | CoordinatorToNode::Adopt { .. }
    )
}
