//! Messages between `pcmctl` and a daemon. Every request is one message; its answer is one message, but for `Run`,
//! `Attach` and `Follow`, whose answers go on until `JobEnded` or the end of the link.

use crate::boot::NodeSpec;
use crate::checkpoint::IntoFiles;
use crate::event::{Event, Reconfigured};
use crate::fabric::FabricReport;
use crate::ids::{Bytes, Iteration, JobId, NodeName, ProcessId, Rank};
use crate::job::{JobEnd, JobSpec, JobStatus, RankStatus};
use crate::layout::ModeWanted;
use crate::link::LinkMeasured;
use crate::method::Method;
use crate::node_end::NodeEnd;
use crate::rank_snapshot::RankLook;
pub use crate::refusal::Refusal;
use crate::series::Series;
use crate::stack::RankStack;
use crate::trace::TraceChunk;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Largest piece of standard input or output in one message.
pub const STREAM_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Most standard input that may be on its way to rank 0: four chunks.
pub const STDIN_WINDOW_BYTES: u64 = 256 * 1024;

/// Most output of a job that may be on its way to `pcmctl`. Beyond it the daemon leaves the ranks' pipes unread, so a
/// paused reader slows the ranks and never stalls the link itself.
pub const OUTPUT_WINDOW_BYTES: u64 = 1024 * 1024;

/// A drain without a deadline is given up after this time; each job needs a second or two.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(300);

/// What `pcmctl` asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ControlToDaemon {
    /// Start a job and stay attached to it: `JobAccepted`, then `Output` …, then `JobEnded`.
    Run(Box<JobSpec>),
    /// More standard input for the attached job's rank 0; empty means its end. At most [`STDIN_WINDOW_BYTES`] may be
    /// on their way, see [`DaemonToControl::StdinTaken`].
    Stdin(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Be attached again to a running job whose link was lost: `JobAccepted`, then as after `Run`.
    Attach {
        job: JobId,
        /// Bytes of each stream that arrived before, so that none comes twice; what is not named counts as none.
        received: Vec<(ProcessId, Stream, u64)>,
    },
    /// So much output of this stream, summed from its beginning, was written out; as much more may come. At most
    /// [`OUTPUT_WINDOW_BYTES`] of all streams together may be on their way.
    OutputTaken {
        process: ProcessId,
        stream: Stream,
        /// All bytes taken so far.
        bytes: u64,
    },
    /// A signal for every rank of a job.
    Signal {
        job: JobId,
        /// The signal's number.
        signal: i32,
    },
    /// End a job: SIGTERM, then SIGKILL after a grace time.
    Kill { job: JobId },
    /// Change the job's layout now; answered by `Reconfigured` when it was carried out.
    Reconfigure {
        job: JobId,
        /// What to change.
        change: LayoutChange,
        mode: ModeWanted,
        /// Who or what asks, for the event.
        cause: String,
        /// How data moves; `None` leaves it to the job.
        method: Option<Method>,
    },
    /// Make a checkpoint of a job now; answered by `Checkpointed` when it is complete, in files where they are wanted.
    Checkpoint {
        job: JobId,
        /// In files, too.
        into: Option<IntoFiles>,
    },
    /// All nodes this daemon knows.
    Nodes,
    /// Jobs of the whole cluster, ended ones of the last hour included.
    Jobs,
    /// The jobs of this name in the whole cluster, ended ones of the last hour included; answered by `Jobs`.
    JobsNamed { name: String },
    /// The ranks of a job.
    Ps { job: JobId },
    /// What the ranks of a job do with each other.
    Look { job: JobId },
    /// Where the ranks of a job are in their programs, with source lines.
    Stacks {
        job: JobId,
        /// Only this one.
        rank: Option<Rank>,
    },
    /// How a job fared over time, ended ones of the last hour included.
    Series { job: JobId },
    /// Record the calls of a job's ranks for a few seconds more, and tell what was recorded since the last time.
    Trace {
        job: JobId,
        /// Where to go on, by process; of others what is recorded from now on is told the next time.
        after: Vec<(ProcessId, u64)>,
        /// Whether recording ends with this.
        is_last: bool,
    },
    /// Events of the whole cluster, oldest first.
    Events {
        /// Only this job's.
        job: Option<JobId>,
        /// Whether to go on with new ones as they come.
        follow: bool,
    },
    /// Answer at once; with a name, from that node.
    Ping {
        /// The node to ask; this daemon when absent.
        node: Option<NodeName>,
    },
    /// Boot one more node from this daemon and take it in.
    Join(NodeSpec),
    /// Move every rank off a node and let it take no new ones.
    Drain {
        node: NodeName,
        /// When it must be empty, from now.
        deadline_ms: Option<u64>,
    },
    /// End an empty node's daemon.
    Remove { node: NodeName },
    /// End all jobs and daemons.
    Down,
    /// The last lines of one of a node's logs.
    Logs {
        /// The node; this daemon's when absent.
        node: Option<NodeName>,
        of: LogOf,
        /// How many lines, newest last.
        lines: u32,
    },
    /// Write one of a node's logs with other levels from now on; answered by `Logs` with all levels.
    LogLevels {
        /// The node; this daemon's when absent.
        node: Option<NodeName>,
        of: LogOf,
        /// Levels by part, as `pcm_daemon::serve=debug`; `default` takes back what was said before.
        levels: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogOf {
    /// The daemon's, and its keeper's.
    Daemon,
    Agent,
}

/// What to change about a job's layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutChange {
    /// Ranks go on elsewhere.
    Migrate(Vec<(Rank, NodeName)>),
    /// The job grows.
    Expand {
        /// Ranks it is to have.
        to: u32,
        /// Nodes for the new ranks; empty leaves the choice to the daemon.
        nodes: Vec<NodeName>,
    },
    /// The job shrinks.
    Shrink {
        /// Ranks it is to have.
        to: u32,
    },
    /// These ranks leave; the others close up.
    Leave(Vec<Rank>),
    /// Ranks get shares of the data by the speed of their nodes.
    Rebalance,
    /// Ranks go on elsewhere, or all stay, and get these shares of the data.
    Arrange {
        /// Which rank goes where.
        moves: Vec<(Rank, NodeName)>,
        /// The share of each rank, in rank order.
        weights: Vec<u32>,
    },
    /// Every rank leaves this node.
    Evacuate { node: NodeName },
    /// The same layout, with fresh processes in one world.
    Relaunch,
}

/// Which stream of a rank a piece of output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// The state of a node as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    Up,
    /// It has not answered lately.
    Suspect,
    /// It takes no new ranks and is being emptied.
    Draining,
    /// It left or is taken for dead.
    Gone,
}

/// One line of `nodes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub name: NodeName,
    /// Where its daemon listens, as `host:port`.
    pub address: String,
    pub site: String,
    pub cpus: Vec<u32>,
    pub state: NodeState,
    /// Its speed, relative to a fixed calibration loop; 0 when not yet measured.
    pub speed: f64,
    /// CPU time taken on its CPUs by others, in CPUs.
    pub load_by_others: f64,
    /// Ranks it runs now.
    pub ranks: u32,
    /// Free memory in bytes; 0 when not known.
    pub free_memory: u64,
    /// Process id of its daemon; 0 when not known.
    pub daemon_pid: u32,
    /// What carries its messages.
    pub fabric: FabricReport,
    /// What was measured of the link between it and `node`, the daemon that was asked; nothing on one host.
    pub link: Option<LinkMeasured>,
    /// When it ends; nothing where it does not know.
    pub ends: Option<NodeEnd>,
}

/// What a daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DaemonToControl {
    /// The job has a number and its processes are being started.
    JobAccepted { job: JobId },
    /// All ranks of the job run.
    JobStarted { job: JobId },
    /// Whole lines of one rank (or the rest of its stream at its end).
    Output {
        rank: Rank,
        /// Its process, by which the stream is known when ranks change.
        process: ProcessId,
        /// From which stream.
        stream: Stream,
        /// Where these bytes stand in the stream.
        offset: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Something about the attached job that a person should read now.
    Notice { job: JobId, text: String },
    /// Answer to `Checkpoint`.
    Checkpointed {
        /// The iteration that whoever restores it begins with.
        iteration: Iteration,
        /// Number of ranks.
        ranks: u32,
        /// Bytes of all ranks.
        bytes: Bytes,
        /// Longest time a rank's application was held for it.
        held_ms: f64,
        /// Where it is in files, if those were wanted: bytes of a path.
        directory: Option<Vec<u8>>,
    },
    /// The attached job has another coordinator: attach there.
    LedBy { node: NodeName },
    /// This daemon, which the job is attached to, lost sight of most of the cluster: another may lead the job by now.
    /// Comes again while that is so.
    CutOff,
    /// So much standard input, summed from its beginning, was taken; as much more may be sent.
    StdinTaken {
        /// All bytes taken so far.
        bytes: u64,
    },
    /// The job ended and nothing of it is left.
    JobEnded(JobEnd),
    /// The request was carried out; nothing more to say.
    Done,
    /// Answer to `Nodes`.
    Nodes(Vec<NodeStatus>),
    /// Answer to `Jobs`.
    Jobs(Vec<JobStatus>),
    /// Answer to `Ps`.
    Ps {
        status: JobStatus,
        /// Its ranks in order.
        ranks: Vec<RankStatus>,
    },
    /// Answer to `Look`.
    Look {
        status: JobStatus,
        /// Its ranks in order; one whose node did not answer is missing.
        ranks: Vec<RankLook>,
    },
    /// Answer to `Stacks`.
    Stacks {
        status: JobStatus,
        /// Its ranks in order; one whose node did not answer has a note instead of frames.
        ranks: Vec<RankStack>,
    },
    /// Answer to `Series`.
    Series {
        status: JobStatus,
        /// Empty where the coordinator was started again since.
        series: Box<Series>,
    },
    /// Answer to `Trace`, by process; one whose node did not answer is missing.
    Trace(Vec<TraceChunk>),
    /// Answer to `Events`; more follow when following.
    Events(Vec<Event>),
    /// Answer to `Ping`.
    Pong {
        node: NodeName,
        /// Round trip from the asked daemon to that node; 0 for itself.
        round_trip_us: u64,
        version: String,
    },
    /// Answer to `Reconfigure`.
    Reconfigured(Box<Reconfigured>),
    /// Answer to `Join`.
    Joined(NodeStatus),
    /// Answer to `Logs`.
    Logs(String),
    /// The request was refused and changed nothing.
    Refused(Refusal),
}
