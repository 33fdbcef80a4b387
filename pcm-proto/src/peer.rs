//! Messages between daemons.
//!
//! A link may break and a daemon may be killed at any moment, so every message about a job states a fact or an order
//! that may arrive twice: receivers recognise what they know already, and after each new link both sides say again
//! what the other may have missed. Nothing here waits for the delivery of one particular message.
//!
//! Two trees carry what concerns many nodes. A *start order* travels down the tree over [`StartOrder::tree`], rooted
//! at the coordinator. A world's *barriers* travel up and down the tree over [`WorldStart::nodes`], rooted at its first
//! node. Everything else goes straight between a node and the job's coordinator.

use crate::agent::AgentToAgent;
use crate::checkpoint::{CheckpointMessage, Restores};
use crate::control::{ControlToDaemon, DaemonToControl, NodeState, Stream};
use crate::event::Event;
use crate::fabric::FabricReport;
use crate::ids::{Bytes, Epoch, JobId, NodeName, ProcessId, WorldId};
use crate::image::{ImageMessage, ImageName};
use crate::job::{JobSpec, JobStatus, RankStatus};
use crate::keeper::{ExitStatus, Standby};
use crate::node_end::NodeEnd;
use crate::pmix::PmixMessage;
use crate::rank_snapshot::RankLook;
use crate::reconfiguration::ReconfigurationMessage;
use crate::registered::Registered;
use crate::spawn::{SpawnAsk, SpawnedWorld, WorldCommand, WorldMember};
use crate::stack::RankStack;
use crate::trace::TraceChunk;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Children of one node in a tree over nodes. With 4, a thousand nodes are five levels deep.
pub const TREE_FANOUT: usize = 4;

/// Unacknowledged output of one job on one node; above it the node stops reading the pipes of its ranks.
pub const OUTPUT_WINDOW_BYTES: u64 = 1024 * 1024;

/// What one daemon tells another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DaemonToDaemon {
    /// A packet of the failure detector; only `pcm-core::membership` looks inside.
    Membership(#[serde(with = "serde_bytes")] Vec<u8>),
    /// How the sender's node is: sent to a few peers every few seconds, and in answer to a question.
    Report(Box<NodeReport>),
    /// Something about a job.
    Job { job: JobId, message: Box<JobMessage> },
    /// A question; the asker waits for its answer until a deadline of its own.
    Ask {
        /// Number of the question among the asker's.
        ask: u64,
        /// What is asked.
        question: Box<Question>,
    },
    /// The answer to a question.
    Answer {
        /// Number of the question.
        ask: u64,
        /// What is answered.
        answer: Box<Answer>,
    },
    /// From the sender's agent, for the receiver's.
    Agent(Box<AgentToAgent>),
}

/// What a node is and how it is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    pub node: NodeName,
    /// Where its daemon listens, as `host:port`.
    pub address: String,
    pub site: String,
    /// The CPUs it may use.
    pub cpus: Vec<u32>,
    /// Whether it is up or being emptied.
    pub state: NodeState,
    /// Nodes with the same number can share memory among their processes.
    pub host: u64,
    /// What the host calls itself; empty when not yet heard.
    pub host_name: String,
    /// Its speed, relative to a fixed calibration loop; 0 when not yet measured.
    pub speed: f64,
    /// CPU time taken on its CPUs by others, in CPUs.
    pub load_by_others: f64,
    /// Ranks it runs now.
    pub ranks: u32,
    /// Free memory in bytes; 0 when not known.
    pub free_memory: u64,
    /// Process id of its daemon.
    pub daemon_pid: u32,
    /// The highest job number it has heard of.
    pub highest_job: JobId,
    /// When its keeper was started, in microseconds since 1970: another number means that everything it had is gone.
    pub keeper_since_us: u64,
    /// What carries its messages.
    pub fabric: FabricReport,
    /// When it ends, where it knows.
    pub ends: Option<NodeEnd>,
}

/// Consecutive ranks of a world on one node, whose processes have consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRun {
    /// Index of the node in [`WorldStart::nodes`].
    pub node: u32,
    /// Number of the first process.
    pub first: ProcessId,
    pub count: u32,
}

/// A set of processes that are started together and share an `MPI_COMM_WORLD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldStart {
    pub world: WorldId,
    /// Its nodes; barriers travel along the tree over them, rooted at the first.
    pub nodes: Vec<NodeName>,
    /// Its ranks from 0 on.
    pub runs: Vec<RankRun>,
    /// What MPI is told of which ranks share memory.
    pub process_mapping: String,
    /// Programs, where an application's `MPI_Comm_spawn` asks for them; empty means the job's program.
    pub commands: Vec<WorldCommand>,
    /// Keys its processes find from the beginning: with Open MPI variables of their environment.
    pub preset: Vec<(String, String)>,
    /// Whether the processes are told that they were spawned.
    pub spawned: bool,
    /// The process that asked for it with `MPI_Comm_spawn`; none for a spare, of which that is not known yet.
    pub parent: Option<WorldMember>,
    /// Whether they are spares: started before anybody asked, and held in `MPI_Init` until a spawn takes them.
    pub spare: bool,
}

/// Order to start worlds of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOrder {
    /// Counts the orders of a job from 0.
    pub number: u32,
    /// The node whose daemon coordinates the job.
    pub coordinator: NodeName,
    /// Nodes the order goes to, the coordinator first: entry `i` passes it on to the entries `4 i + 1 … 4 i + 4`.
    pub tree: Vec<NodeName>,
    pub spec: Box<JobSpec>,
    /// The epoch whose layout the new processes belong to.
    pub epoch: Epoch,
    /// Whether ranks outnumber CPUs somewhere, or may when the job grows; the same for all processes of a job, for MPI
    /// chooses its algorithms by it.
    pub is_crowded: bool,
    /// Ranks of that layout in order, for the information of the library; empty where they only come later.
    pub layout: Vec<(ProcessId, WorldId)>,
    /// What to start; nothing tells a node of a job that may come to it.
    pub worlds: Vec<WorldStart>,
    /// The first epoch since the job was started, or started again. A higher one replaces all that was of a lower one.
    pub life: Epoch,
    /// How often the job was started again after a crash.
    pub restarts: u32,
    /// Where the processes find their data, when they continue others from a checkpoint in memory.
    pub restores: Option<Restores>,
    /// Since when the keeper runs at the node that this goes to, as far as its sender knows; 0 where that is unknown.
    /// An order that waited for a node which came back as a new one is not for that one.
    pub keeper_since_us: u64,
}

/// How far a process came with MPI before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MpiStage {
    /// It never called `MPI_Init`.
    Before,
    /// It was between `MPI_Init` and the end of `MPI_Finalize`.
    Inside,
    /// It had finalized.
    After,
}

/// By what a process ended, as its node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndedBy {
    /// By itself, or by a signal that came from elsewhere.
    Itself,
    /// It was ordered to leave: its end is no failure of the job.
    Order,
    /// Its node, because the job could not go on there: the coordinator, or other nodes, did not answer.
    Loss,
}

/// The end of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    pub process: ProcessId,
    pub status: ExitStatus,
    /// In which stage.
    pub stage: MpiStage,
    pub by: EndedBy,
}

/// `MPI_Publish_name` and its kin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameRequest {
    /// Make a port known under a name.
    Publish { service: String, port: String },
    /// Withdraw a name.
    Unpublish { service: String },
    /// Find the port of a name.
    Lookup { service: String },
}

/// What is said about a job. The comment names the direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobMessage {
    /// Coordinator to node.
    ToNode(CoordinatorToNode),
    /// Node to coordinator.
    ToCoordinator(NodeToCoordinator),
    /// Between neighbours in a world's tree.
    World(WorldMessage),
    /// Coordinator to node: streams of processes.
    StreamToNode(StreamToNode),
    /// Node to coordinator: streams of processes.
    StreamToCoordinator(StreamToCoordinator),
    /// Between a coordinator and its heirs.
    Succession(SuccessionMessage),
    /// Any node of the job to any other: a reconfiguration or the job's lease.
    Reconfiguration(Box<ReconfigurationMessage>),
    /// A node that needs an image to one that has it, or the other way round.
    Image {
        name: ImageName,
        /// What is said of it.
        message: ImageMessage,
    },
    /// Between nodes that hold checkpoints of the job and its coordinator.
    Checkpoint(Box<CheckpointMessage>),
    /// Any node of the job to any other: between what serves PMIx to ranks of Open MPI.
    Pmix { life: Epoch, message: PmixMessage },
}

/// Orders of a job's coordinator to a node of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoordinatorToNode {
    /// Along the tree of the job's nodes: start worlds.
    Start(Box<StartOrder>),
    /// Before a change is prepared there: [`JobSpec::registered`] as it is known by now.
    Registered(Registered),
    /// Send a signal to all processes of the job there.
    Signal { signal: i32 },
    /// End these processes of a job that goes on.
    EndProcesses {
        processes: Vec<ProcessId>,
        /// Time between SIGTERM and SIGKILL.
        grace_ms: u32,
    },
    /// End all processes of the job.
    End {
        /// Time between SIGTERM and SIGKILL.
        grace_ms: u32,
    },
    /// The job is over (or not known), forget it; end what is left of it.
    Close,
    /// The job goes on without this node: end what is left of it here, but hold its checkpoints.
    Release,
    /// A spawn takes this spare world. Answered by `SpawnReady`.
    Adopt {
        world: WorldId,
        /// Keys that the spawn brings.
        values: Vec<(String, String)>,
    },
    /// Coordinator to the asker's node: the spawned world is ready, or why there is none.
    SpawnResult {
        /// The process that asked.
        process: ProcessId,
        /// The number of its request.
        number: u32,
        /// What was started, or the reason why nothing was.
        result: Result<SpawnedWorld, String>,
    },
    /// What became of that; `Err` when it could not be done.
    NameAnswer {
        /// The process that asked.
        process: ProcessId,
        /// What was asked.
        request: NameRequest,
        /// The port that was found, empty where none was asked for.
        result: Result<String, String>,
    },
    /// Coordinator to node, before a change is prepared there: the hosts of the nodes of the new layout. Every node
    /// makes the new worlds by itself, and one that has just joined may not have been heard of everywhere.
    Hosts(Vec<(NodeName, u64)>),
    /// The coordinator counts on ranks there. Answered by `NoPart` where nothing is known of the job.
    Confirm,
    /// The next ranks of the job will be placed there: keep so many processes of its program ready for them. Said again
    /// while that is so. Answered by `StandbysHeld`.
    Standbys { count: u32, spec: Box<JobSpec> },
    /// They will not.
    EndStandbys,
}

impl From<CoordinatorToNode> for JobMessage {
    fn from(message: CoordinatorToNode) -> Self {
        Self::ToNode(message)
    }
}

/// Reports of a node of a job to the job's coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeToCoordinator {
    /// These processes of an order run.
    Started {
        /// The order's number.
        order: u32,
        /// Processes with their process ids.
        processes: Vec<(ProcessId, u32)>,
    },
    /// Newcomers of a reconfiguration run; they are no part of the job's layout yet.
    NewcomersStarted {
        world: WorldId,
        /// Processes with their process ids.
        processes: Vec<(ProcessId, u32)>,
    },
    /// Processes of the job's program there that wait for it to grow. Counts as long as no other such word comes.
    StandbysHeld(Vec<Standby>),
    /// The job cannot go on, as the holder of its lease found.
    Lost { reason: String },
    /// The same, because of the end of this process.
    LostWith { process: ProcessId, reason: String },
    /// A process could not be started.
    StartRefused {
        /// The order's number.
        order: u32,
        process: ProcessId,
        /// A code of [`crate::refusal`].
        code: String,
        /// What happened, to what, and what to do next.
        reason: String,
    },
    /// These processes ended.
    Exited(Vec<ProcessEnd>),
    /// A process called `MPI_Abort` with this code.
    Aborted {
        process: ProcessId,
        code: i32,
        /// What MPI said.
        message: String,
    },
    /// MPI in a process ended it by itself with this code, as it does after an error that it cannot return.
    GaveUp { process: ProcessId, code: i32 },
    /// No process of the job is left here.
    Emptied,
    /// No process of the job is left here, and all its output was taken.
    Cleared,
    /// It knows of no process of the job.
    NoPart,
    /// A process asks for a world of its own.
    Spawn(Box<SpawnAsk>),
    /// The first rank of a spawned world asks for its parent's port, so it is ready to meet it.
    SpawnReady {
        /// The spawned world.
        world: WorldId,
    },
    /// The processes of this spare world are initialised and wait for a parent.
    SpareReady { world: WorldId },
    /// Rank 0 has begun and said this.
    Registered(Registered),
    /// A process publishes, withdraws or looks up a name of the job.
    Name {
        process: ProcessId,
        /// What it wants.
        request: NameRequest,
    },
}

impl From<NodeToCoordinator> for JobMessage {
    fn from(message: NodeToCoordinator) -> Self {
        Self::ToCoordinator(message)
    }
}

/// Messages between neighbours in a world's tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldMessage {
    /// To the parent: all ranks of the world below are in its present barrier.
    Barrier {
        world: WorldId,
        /// Counts the world's barriers from 0.
        generation: u64,
        /// Keys put since the barrier before.
        puts: BTreeMap<String, String>,
    },
    /// To the parent: no rank of the world below will be in a barrier again.
    BarrierGone { world: WorldId },
    /// To the children: the barrier is complete.
    BarrierDone {
        world: WorldId,
        generation: u64,
        /// Keys put by all since the barrier before.
        puts: BTreeMap<String, String>,
    },
}

impl From<WorldMessage> for JobMessage {
    fn from(message: WorldMessage) -> Self {
        Self::World(message)
    }
}

/// What the reader of a job's output, at its coordinator, says to a node with processes of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamToNode {
    /// So much of a stream reached its reader; with `bytes` the sum since its beginning.
    OutputTaken {
        process: ProcessId,
        stream: Stream,
        /// All bytes taken so far.
        bytes: u64,
    },
    /// Send every stream again from these places on, and those not named from the beginning, as
    /// far as they are not taken. Sent when a reader is there (again); a coordinator without one keeps no output.
    OutputFrom(Vec<(ProcessId, Stream, u64)>),
    /// Coordinator to the node of the first process: standard input; empty means its end.
    Stdin {
        /// Where these bytes stand in the stream.
        offset: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
}

impl From<StreamToNode> for JobMessage {
    fn from(message: StreamToNode) -> Self {
        Self::StreamToNode(message)
    }
}

/// Output of processes for its reader at the job's coordinator, and what became of standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamToCoordinator {
    /// Output of a process.
    Output(OutputPiece),
    /// So much standard input was written or will never be.
    StdinTaken {
        /// All bytes taken so far.
        bytes: u64,
    },
}

impl From<StreamToCoordinator> for JobMessage {
    fn from(message: StreamToCoordinator) -> Self {
        Self::StreamToCoordinator(message)
    }
}

/// A node that may inherit a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    pub node: NodeName,
    /// Which start of its daemon was left the will: a later one knows nothing of it.
    pub boot: u64,
}

/// Messages between a job's coordinator and its heirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuccessionMessage {
    /// Coordinator to its heirs: what the first of them that lives needs to lead the job when the coordinator's node is
    /// lost. Replaces what it said before.
    Will {
        /// The heirs in order.
        heirs: Vec<Heir>,
        /// Only `pcm-core::job` looks inside.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Coordinator to a node that is no heir any more, or whose job is over.
    WillVoid,
    /// Heir to coordinator, on a new link: is the will still good?
    WillHeld,
    /// New coordinator to all nodes: it leads the job in place of one whose node was lost. What runs of the job is
    /// ended, and what is held for it is reported here.
    Led {
        /// Counts the coordinators the job has had before this one; the higher one is right.
        reign: u32,
    },
}

impl From<SuccessionMessage> for JobMessage {
    fn from(message: SuccessionMessage) -> Self {
        Self::Succession(message)
    }
}

/// Whole lines of one stream of a process, or the rest of the stream at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPiece {
    pub process: ProcessId,
    pub stream: Stream,
    /// Where these bytes stand in the stream.
    pub offset: u64,
    /// The earliest place from which the node could send this stream again; what lies before and was not taken is
    /// lost with a daemon that was killed.
    pub available_from: u64,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// What a daemon asks another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// Is anybody there.
    Ping,
    /// How the node is.
    Report,
    /// A number for a new job; only the first node of the cluster that is up gives one.
    JobNumber,
    /// The jobs this daemon coordinates, ended ones of the last hour included.
    Jobs,
    /// The jobs of this name that this daemon coordinates, ended ones of the last hour included.
    JobsNamed { name: String },
    /// What the pages of the job's ranks on this node show.
    Ranks { job: JobId },
    /// The job's processes on this node that have begun to iterate.
    Begun { job: JobId },
    /// What the job's ranks on this node do with their mates.
    Look { job: JobId },
    /// Where the job's ranks on this node are in their programs.
    Stacks {
        job: JobId,
        /// Only this one.
        process: Option<ProcessId>,
    },
    /// What the job's ranks on this node recorded of their calls; see [`ControlToDaemon::Trace`].
    Trace {
        job: JobId,
        /// Where to go on, by process.
        after: Vec<(ProcessId, u64)>,
        /// Whether recording ends with this.
        is_last: bool,
        /// Entries the answer may have.
        entries_max: u32,
    },
    /// This node's own events, oldest first, beginning after `since_us`.
    Events {
        /// Only this job's.
        job: Option<JobId>,
        /// Microseconds since 1970.
        since_us: u64,
    },
    /// A request of `pcmctl` with one answer that this daemon is the right one for.
    Control(Box<ControlToDaemon>),
    /// End every job you coordinate, then every process you have.
    EndJobs,
    /// Leave the cluster and end, with your keeper.
    Quit,
}

/// Processes of a job on one node that have begun to iterate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanksBegun {
    pub processes: Vec<ProcessId>,
    /// Bytes of data that they registered, all together.
    pub registered: Bytes,
    /// The constant ones of them.
    pub constant: Bytes,
}

/// What a daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Pong {
        /// The version of the answering daemon.
        version: String,
    },
    Report(Box<NodeReport>),
    /// None where the node does not know that it numbers the jobs.
    JobNumber(Option<JobId>),
    Jobs(Vec<JobStatus>),
    Ranks(Vec<RankStatus>),
    Begun(RanksBegun),
    Look(Vec<RankLook>),
    Stacks(Vec<RankStack>),
    Trace(Vec<TraceChunk>),
    Events(Vec<Event>),
    Control(Box<DaemonToControl>),
    /// To `EndJobs` and `Quit`.
    Done,
}
