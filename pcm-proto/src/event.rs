//! Events: what happened, when, to which job and why. They are what `pcmctl events`, the dashboard and the report
//! are made of, so their JSON form is a public interface: every line has `time`, `job`, `epoch` and `kind`.

use crate::fabric::FabricReport;
use crate::ids::{Bytes, Epoch, Iteration, JobId, NodeName, ProcessId, Rank};
use crate::layout::Mode;
use crate::method::Method;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Microseconds since 1970.
    pub time_us: u64,
    /// The job it concerns, if any.
    pub job: Option<JobId>,
    /// The job's epoch at that time.
    pub epoch: Epoch,
    /// The node whose daemon noted it.
    pub node: NodeName,
    pub kind: EventKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// A node's daemon is part of the cluster.
    NodeUp { name: NodeName },
    /// A node does not answer.
    NodeSuspect { name: NodeName },
    /// A node ends soon, and its ranks leave it. Said by another node, where there is one.
    NodeEnds {
        name: NodeName,
        left_ms: u64,
        /// Whether there is a node that lasts longer.
        has_refuge: bool,
    },
    /// A node left or is taken for dead.
    NodeGone {
        name: NodeName,
        /// Whether it left on purpose.
        on_purpose: bool,
    },
    /// The daemon was started again and found its ranks.
    DaemonRestarted {
        /// How many processes it found.
        processes: u32,
    },
    /// The daemon's agent ended and is started again.
    AgentRestarted {
        /// How it ended.
        reason: String,
    },
    /// Events of this node cannot be written to their file, and are in memory only.
    FilesFail { error: String },
    /// Events are written to their file again.
    FilesBack {
        /// Events that are not in the file.
        lost: u64,
    },
    /// The daemon has begun and says what carries its messages.
    FabricChosen(FabricReport),
    /// Small messages to a node go another way from now on.
    FabricChanged {
        name: NodeName,
        /// `rdma`, `udp` or `connections`.
        by: String,
        reason: String,
    },
    /// Several nodes were told something at once.
    GroupTold {
        what: String,
        /// How many nodes.
        members: u32,
        /// Bytes to each.
        bytes: Bytes,
        /// `datagrams` or `connections`.
        by: String,
        /// The numbers behind the choice.
        reason: String,
    },
    /// A job was accepted and placed.
    JobAccepted {
        name: String,
        /// Its ranks' nodes in rank order.
        placement: Vec<NodeName>,
        /// What each node had when they were chosen, in words.
        why: String,
    },
    /// All ranks of the job run.
    JobStarted {
        /// Milliseconds from acceptance.
        start_ms: f64,
    },
    /// Ranks of the job cannot continue, as `pcmctl ps --stuck` judges.
    Hangs {
        /// Seconds without progress.
        silent_s: u64,
        /// The ranks that cannot continue, in words.
        ranks: String,
        /// What is wrong, and where the ranks are in their programs.
        lines: Vec<String>,
    },
    /// The application's `MPI_Comm_spawn` was answered with an error.
    SpawnRefused {
        /// The process that asked.
        process: ProcessId,
        reason: String,
    },
    /// The application's `MPI_Comm_spawn` was answered: its children are initialised and about to meet their parent.
    Spawned {
        children: u32,
        /// Their nodes in rank order.
        placement: Vec<NodeName>,
        /// Whether it took a spare.
        spare: bool,
        /// Milliseconds from the request until the children could meet their parent.
        spawn_ms: f64,
    },
    /// A process that waited for a spawn to take it ended, or could not be started; another is started after a while.
    SpareLost { name: NodeName, reason: String },
    /// A rank's process ended.
    RankEnded {
        rank: Rank,
        name: NodeName,
        /// The code a shell would report.
        code: i32,
    },
    /// The job ended.
    JobEnded {
        /// Its exit code.
        code: i32,
        /// Why, where it is not plain success.
        reason: String,
    },
    /// A checkpoint is complete.
    CheckpointComplete {
        /// The iteration that whoever restores it begins with.
        iteration: Iteration,
        /// Number of ranks.
        ranks: u32,
        /// Bytes of all ranks.
        bytes: Bytes,
        /// Longest time a rank's application was held for it.
        held_ms: f64,
    },
    /// Images of the job (parts of checkpoints to be copied, what restored ranks need) come another way from a node
    /// than before, or for the first time.
    CopyWayChanged {
        /// The node that has them.
        name: NodeName,
        /// `shared`: through memory that both daemons have; `rdma`: written over InfiniBand or RoCE; `bulk`: over a TCP
        /// connection for bulk transfers; `link`: block by block over their link.
        way: String,
        reason: String,
    },
    /// A rank or node died and the job is started again, or ends because it cannot be.
    Crashed {
        reason: String,
        /// The furthest iteration begun.
        reached: Iteration,
        /// What follows, in words.
        verdict: String,
    },
    /// The coordinator's node was lost; another leads the job.
    Inherited {
        /// The node that is lost.
        from: NodeName,
        /// The node that leads now.
        name: NodeName,
    },
    /// All ranks run again after a crash.
    Recovered(Box<Recovered>),
    /// A reconfiguration was committed.
    Reconfigured(Box<Reconfigured>),
    /// A reconfiguration was given up before it was committed.
    GivenUp {
        /// What it was doing.
        phase: String,
        reason: String,
        /// Whether it is begun once more, as a relaunch; else the job goes on as before.
        again: bool,
        /// Whether the job is at its end: no other change will be made.
        job_ends: bool,
    },
    /// The program requested a number of ranks (`pcm_request`), and it was refused.
    RequestRefused {
        /// The section of docs/errors.md.
        code: String,
        reason: String,
    },
    /// An agent decided to move something, or not to.
    Decision(Box<Decision>),
}

/// How a job came back after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// What had happened.
    pub cause: String,
    /// Counts the restarts of the job.
    pub restart: u32,
    /// The iteration it went on from.
    pub from: Iteration,
    /// Iterations that are computed a second time.
    pub rolled_back: u64,
    pub ranks: u32,
    /// What each node had when the ranks were placed, in words.
    pub placement: String,
    /// From the report of the death until the last rank had its data.
    pub total_ms: f64,
    /// Time by phase, in the order they were gone through.
    #[serde(with = "by_name")]
    pub phases_ms: Vec<(String, f64)>,
}

/// What an agent decided about a job, in numbers a person understands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The policy that decided.
    pub policy: String,
    /// What was chosen, in words; `None` when nothing changes.
    pub chosen: Option<String>,
    /// Seconds the best proposal was predicted to gain, its cost not yet taken off.
    pub predicted_gain_s: f64,
    /// Seconds it was predicted to cost.
    pub cost_s: f64,
    /// Seconds the last change has really gained so far; `None` while that is not known.
    pub achieved_gain_s: Option<f64>,
    /// What was considered besides, each with its predicted net gain in seconds.
    pub considered: Vec<(String, f64)>,
    pub reason: String,
}

/// What a committed reconfiguration did and cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reconfigured {
    /// `migrate`, `expand`, `shrink`, `rebalance` or `relaunch`.
    pub plan: String,
    /// Who or what asked for it.
    pub cause: String,
    pub ranks_before: u32,
    pub ranks_after: u32,
    /// Ranks whose process moved: rank, from, to.
    pub moved: Vec<Moved>,
    /// Bytes that went from one process to another, or were parked.
    pub bytes_moved: Bytes,
    /// Those of them that travelled ahead, while the ranks still iterated.
    pub bytes_ahead: Bytes,
    /// Longest time any rank's application code was held; of a relaunch, from the meeting point until all ranks run.
    pub pause_ms: f64,
    /// How it was carried out.
    pub mode: Mode,
    /// How processes and data were handled; of a relaunch, nothing of the kind.
    #[serde(default)]
    pub method: Option<Method>,
    /// Why by that method; absent where the daemon that knew is gone.
    #[serde(default)]
    pub method_reason: Option<String>,
    /// Why the ranks are where they are, by node; absent where no node was chosen, or the daemon that knew is gone.
    #[serde(default)]
    pub placement: Option<String>,
    /// From the request to the commit; of a relaunch, until the last rank runs.
    pub total_ms: f64,
    /// Time by phase, in the order they were gone through.
    #[serde(with = "by_name")]
    pub phases_ms: Vec<(String, f64)>,
}

/// A list of pairs as a map that keeps their order.
mod by_name {
    use serde::de::{Deserializer, MapAccess, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    /// A reconfiguration has seven phases; more than this is no list of phases.
    const PAIRS_MAX: usize = 64;

    pub(super) fn serialize<S: Serializer>(pairs: &[(String, f64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, f64)>, D::Error> {
        from.deserialize_map(Pairs)
    }

    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, f64)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from names to numbers")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                if pairs.len() == PAIRS_MAX {
                    return Err(serde::de::Error::custom("too many phases"));
                }
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
}

/// One rank that runs elsewhere after a reconfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub rank: Rank,
    /// Where it was.
    pub from: Option<NodeName>,
    /// Where it is.
    pub to: Option<NodeName>,
}
