//! What a daemon and the helper process that serves PMIx to its ranks say to each other: frames of [`crate::frame`],
//! one message each, on a connection to the socket that the helper has as its standard input. The helper outlives a
//! daemon that is killed, and the next one connects to it. Both belong to one installation.

use crate::ids::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// In place of a rank: all of a namespace (`PMIX_RANK_WILDCARD`).
pub const RANKS_ALL: u32 = u32::MAX - 1;

/// A process by its namespace, which is a world of a job, and its number in that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    pub namespace: String,
    pub rank: u32,
}

impl Process {
    pub fn new(namespace: impl Into<String>, rank: u32) -> Self {
        Self {
            namespace: namespace.into(),
            rank,
        }
    }

    /// All processes of a namespace.
    pub fn all_of(namespace: impl Into<String>) -> Self {
        Self::new(namespace, RANKS_ALL)
    }

    /// Whether it is that process, or means all of its namespace.
    pub fn includes(&self, other: &Self) -> bool {
        self.namespace == other.namespace && (self.rank == other.rank || self.rank == RANKS_ALL)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == RANKS_ALL {
            return write!(f, "{}.*", self.namespace);
        }
        write!(f, "{}.{}", self.namespace, self.rank)
    }
}

/// How something went, as PMIx numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Status(pub i32);

impl Status {
    pub const SUCCESS: Self = Self(0);

    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

/// The first order of each connection. A helper that serves already says again what it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serve {
    /// The libpmix of the job's Open MPI.
    #[serde(with = "serde_bytes")]
    pub library: Vec<u8>,
    /// The node whose ranks are served.
    pub node: NodeName,
    /// What ranks see as the name of its host: each node has its own, also where several are on one machine.
    pub host: String,
    /// A directory of this process alone, for its sockets and the files of libpmix and Open MPI. A socket's path has at
    /// most 107 bytes.
    #[serde(with = "serde_bytes")]
    pub folder: Vec<u8>,
    /// The node that keeps what processes publish.
    pub directory: NodeName,
    /// The first of 2^32 numbers for communicators that no other process of this kind gets.
    pub first_context: u64,
}

/// Where some processes of a namespace are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub node: NodeName,
    pub host: String,
    /// Their numbers, ascending.
    pub ranks: Vec<u32>,
}

/// A world of processes that start together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub name: String,
    /// All its processes, those of other nodes too.
    pub places: Vec<Place>,
    /// Processes that the job may have one day, these included.
    pub universe: u32,
    /// The process that asked for it with `MPI_Comm_spawn`.
    pub parent: Option<Process>,
    /// Its programs in the order of their processes; none where all run the same.
    pub programs: Vec<Program>,
}

/// Processes of a namespace that run the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// What MPI calls `MPI_APPNUM`.
    pub number: u32,
    pub processes: u32,
}

impl Namespace {
    /// Number of its processes.
    pub fn size(&self) -> u32 {
        let count: usize = self.places.iter().map(|place| place.ranks.len()).sum();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The node of one of its processes.
    pub fn node_of(&self, rank: u32) -> Option<&NodeName> {
        let place = self.places.iter().find(|place| place.ranks.contains(&rank))?;
        Some(&place.node)
    }

    /// Number of its programs, those included that none of its processes runs.
    pub fn programs(&self) -> u32 {
        let last = self.programs.iter().map(|program| program.number).max();
        last.unwrap_or(0).saturating_add(1)
    }

    /// The number of a process's program, and the process's number among those that run it.
    pub fn program_of(&self, rank: u32) -> (u32, u32) {
        let mut beyond = rank;
        let mut before: BTreeMap<u32, u32> = BTreeMap::new();
        for Program { number, processes } in &self.programs {
            let of_program = before.entry(*number).or_default();
            if beyond < *processes {
                return (*number, of_program.saturating_add(beyond));
            }
            *of_program = of_program.saturating_add(*processes);
            beyond -= processes;
        }
        (0, rank)
    }

    /// Its processes on a node.
    pub fn ranks_on(&self, node: &NodeName) -> &[u32] {
        let place = self.places.iter().find(|place| &place.node == node);
        place.map_or(&[], |place| &place.ranks)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    Serve(Serve),
    /// Answered by `Registered`, also when it is known already. Before any of its processes starts.
    Register(Namespace),
    /// All processes of a namespace are over.
    Forget {
        namespace: String,
    },
    /// A process of this node is over. Answered by `Over`.
    Ended {
        process: Process,
    },
    /// A node is lost, with its processes.
    NodeLost {
        node: NodeName,
    },
    /// How a spawn went: the namespace of the children, or why there are none.
    SpawnAnswer {
        number: u64,
        outcome: Result<String, Status>,
    },
    /// The process of this kind on another node says something. Answered by `Heard`, unless others before it are lost.
    FromNode {
        node: NodeName,
        /// Counts what that node says to this one from 1.
        number: u64,
        #[serde(with = "serde_bytes")]
        message: Vec<u8>,
    },
    /// Another node has heard what was said to it up to this number.
    Heard {
        node: NodeName,
        number: u64,
    },
    /// A node is linked (again): it may have missed what it has not heard.
    Linked {
        node: NodeName,
    },
    /// The end; so is a link that stays closed.
    Stop,
}

/// A program that a process wants started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnCommand {
    #[serde(with = "serde_bytes")]
    pub program: Vec<u8>,
    /// With the program's name as first.
    #[serde(with = "crate::byte_lists::strings")]
    pub arguments: Vec<Vec<u8>>,
    /// Variables as `NAME=value`, those that the request names as attributes included.
    #[serde(with = "crate::byte_lists::strings")]
    pub environment: Vec<Vec<u8>>,
    #[serde(with = "serde_bytes")]
    pub directory: Vec<u8>,
    pub processes: u32,
    /// Texts among the attributes, for example hosts.
    #[serde(with = "crate::byte_lists::pairs")]
    pub hints: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Variables of the environment of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub rank: u32,
    #[serde(with = "crate::byte_lists::pairs")]
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Ranks can be served; what libpmix says of its version.
    Ready { version: String },
    /// What each process of this node needs in its environment.
    Registered {
        namespace: String,
        environments: Vec<Environment>,
    },
    /// An order that was not carried out, and why.
    Refused { order: String, reason: String },
    /// A process initialised PMIx.
    Connected { process: Process },
    /// A process is done with MPI; any end is a good end now.
    Finalized { process: Process },
    /// `MPI_Abort`. The processes to end; none means all of its namespace.
    Aborted {
        process: Process,
        status: i32,
        message: String,
        victims: Vec<Process>,
    },
    /// A process wants others started; answered by `SpawnAnswer`.
    SpawnAsked {
        number: u64,
        process: Process,
        commands: Vec<SpawnCommand>,
    },
    /// An `Ended` was taken in: nothing more is heard of that process.
    Over { process: Process },
    /// For the process of this kind on another node.
    ToNode {
        node: NodeName,
        number: u64,
        #[serde(with = "serde_bytes")]
        message: Vec<u8>,
    },
    /// What another node said up to this number was heard.
    Heard { node: NodeName, number: u64 },
    /// This process ends: why it cannot serve.
    Failed { reason: String },
}

/// What daemons say to each other for helpers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PmixMessage {
    /// For the helper; only that looks inside.
    Letter {
        /// Counts the letters to a node from 1.
        number: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Letters up to this one have come.
    Heard { number: u64 },
}
