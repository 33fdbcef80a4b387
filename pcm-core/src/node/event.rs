//! Everything that can happen to a node. The driver hands over one event at a time and carries out all effects before
//! the next.

use super::cost_file::FileCosts;
use super::memory::MemoryFile;
use super::pmix::effect::{HelperId, PmixNews};
use super::ranks::effect::{Attached, RankFact};
use super::reach::{Reach, Transport};
use super::requester::{LinkId, Requester};
use super::store::input::StoreInput;
use super::streams::effect::Filed;
use super::timer::Timer;
use crate::pmi::wire::Request;
use pcm_proto::agent::AgentToDaemon;
use pcm_proto::app::AppToDaemon;
use pcm_proto::boot::BootReport;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LogOf, Stream};
use pcm_proto::event;
use pcm_proto::fabric::FabricReport;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::keeper::{ExitStatus, ProcessKey, Standby};
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::DaemonToDaemon;
use pcm_proto::stack::RankStack;
use std::time::Duration;

/// See the file head.
#[derive(Debug)]
pub enum Event {
    /// A timer is due.
    Timer(Timer),
    Keeper(KeeperFact),
    /// The keeper is dead or does not speak our protocol.
    KeeperLost {
        reason: String,
    },
    Peer(PeerFact),
    Control(ControlFact),
    Agent(AgentNews),
    Rank(RankNews),
    /// An effect on ranks has something to report.
    RankFact(RankFact),
    /// Work on memory files has something to report.
    Store(StoreInput),
    /// The file of costs of methods was looked at; its content where it has changed.
    CostsRead(Option<FileCosts>),
    /// Something happened beside the node that people may want to know.
    Happened(event::EventKind),
    /// An effect on logs has something to report.
    Logs(Box<LogsAnswer>),
    /// The node's events were read for a question of a node.
    EventsRead {
        node: NodeName,
        ask: u64,
        events: Vec<event::Event>,
    },
    /// The stacks of a job's processes here were read for a question of a node.
    StacksRead {
        node: NodeName,
        ask: u64,
        stacks: Vec<RankStack>,
    },
    /// The node will be taken away (SIGTERM).
    Notice,
    Boot(BootFact),
    /// Output of a detached job was written to its files.
    Filed {
        job: JobId,
        pieces: Vec<Filed>,
    },
}

/// Report of the keeper.
#[derive(Debug)]
pub enum KeeperFact {
    /// A process runs.
    Started(Held),
    /// A process could not be started; nothing of it is left.
    StartRefused {
        key: ProcessKey,
        /// A code of [`pcm_proto::refusal`].
        code: String,
        reason: String,
    },
    /// A process ended; its last output may still be in its pipes.
    Exited { key: ProcessKey, status: ExitStatus },
    /// The processes of a job's program that wait for it to grow.
    StandbysHeld { job: JobId, standbys: Vec<Standby> },
    /// The keeper holds an image; without memory if its file cannot be used.
    Parked { key: ParkKey, memory: Option<MemoryFile> },
    /// The keeper holds a buffer of a checkpoint, or why not.
    Kept {
        key: BufferKey,
        outcome: Result<(), String>,
    },
    /// An image could not be made, or cannot be held.
    NotParked { key: ParkKey, reason: String },
    /// Nothing of a job is left on this node.
    JobCleared {
        job: JobId,
        /// Processes that had to be killed.
        killed: u32,
        /// Files of shared memory that had to be removed.
        segments: u32,
        /// Processes that did not end although killed.
        left: u32,
    },
}

/// A process that the keeper holds.
#[derive(Clone, Debug)]
pub struct Held {
    pub key: ProcessKey,
    pub pid: u32,
    /// How it ended, when it has.
    pub ended: Option<ExitStatus>,
    /// What the driver found on it, or why the driver cannot serve it.
    pub attached: Result<Attached, String>,
}

/// Report of the transport to other nodes.
#[derive(Debug)]
pub enum PeerFact {
    /// A new link to this node exists, or one that is left serves from now on: what was sent before may be lost.
    Linked(NodeName),
    /// The last link to this node ended.
    Unlinked(NodeName),
    /// This node could not be reached.
    Unreachable { node: NodeName, reason: String },
    /// A message of this node, in its order.
    Said { node: NodeName, message: DaemonToDaemon },
    /// This node confirmed a datagram.
    Confirmed {
        node: NodeName,
        transport: Transport,
        /// Time until the confirmation arrived.
        took: Duration,
    },
    /// Datagrams to this node arrive from now on, or no longer do.
    PathChanged {
        node: NodeName,
        transport: Transport,
        is_recovered: bool,
        /// What carries small messages to the node now.
        carried_by: String,
        /// Why, for a person; none where the change is as expected.
        reason: Option<String>,
    },
    /// From now on a node is reached like this.
    Reach { node: NodeName, reach: Reach },
    /// The transports in use now.
    Transports(Box<FabricReport>),
}

/// Report of the links of `pcmctl`.
#[derive(Debug)]
pub enum ControlFact {
    Linked {
        link: LinkId,
    },
    Said {
        link: LinkId,
        message: Box<ControlToDaemon>,
    },
    /// The link ended; `in_order` after a goodbye.
    Lost {
        link: LinkId,
        in_order: bool,
    },
}

/// Report of the agent and its process.
#[derive(Debug)]
pub enum AgentNews {
    Linked {
        link: LinkId,
    },
    Said {
        link: LinkId,
        message: AgentToDaemon,
    },
    /// The link ended; `nonsense` says why nothing more on it can be understood.
    Lost {
        link: LinkId,
        nonsense: Option<String>,
    },
    /// The process ended.
    Ended {
        life: u64,
        reason: String,
    },
}

/// What a rank says or does.
#[derive(Debug)]
pub enum RankNews {
    /// It asks its process manager.
    Pmi { key: ProcessKey, request: Request },
    /// Its library says something; with the memory file that came along, if that can be used.
    Said {
        key: ProcessKey,
        message: AppToDaemon,
        memory: Option<MemoryFile>,
    },
    /// Its library says nothing more; `nonsense` where the last message was not understood.
    Silent { key: ProcessKey, nonsense: Option<String> },
    /// It printed something.
    Printed {
        key: ProcessKey,
        stream: Stream,
        bytes: Vec<u8>,
    },
    /// One of its streams ended.
    OutputEnded { key: ProcessKey, stream: Stream },
    /// What serves PMIx to the ranks of a job says something, or ended.
    Pmix { helper: HelperId, news: PmixNews },
    /// A job's standard input was taken up to this offset, or never will be.
    StdinTaken { job: JobId, bytes: u64 },
}

impl RankNews {
    /// The job that it concerns.
    pub fn job(&self) -> JobId {
        match self {
            Self::Pmi { key, .. }
            | Self::Said { key, .. }
            | Self::Silent { key, .. }
            | Self::Printed { key, .. }
            | Self::OutputEnded { key, .. } => key.job,
            Self::Pmix { helper, .. } => helper.job,
            Self::StdinTaken { job, .. } => *job,
        }
    }
}

/// News of the boot tree.
#[derive(Debug)]
pub enum BootFact {
    /// What became of a node.
    Report(BootReport),
    /// One part of the own subtree has reported wholly.
    PartDone,
    /// The report that this node is up has no reader.
    Unheard,
}

/// What came of an effect on logs.
#[derive(Debug)]
pub struct LogsAnswer {
    pub from: Requester,
    pub answer: DaemonToControl,
    /// The levels of a log that are in force from now on.
    pub levels: Option<(LogOf, String)>,
}
