//! What the process hears from its parent and says to it: frames of `pcm_proto::frame` on standard input and standard
//! output, one message each.

use crate::{
    names::{Process, Status},
    rules::NodeMessage,
};
use pcm_proto::ids::NodeName;
use serde::{Deserialize, Serialize};

/// The first order.
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

    /// Its processes on a node.
    pub fn ranks_on(&self, node: &NodeName) -> &[u32] {
        let place = self.places.iter().find(|place| &place.node == node);
        place.map_or(&[], |place| &place.ranks)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    Serve(Serve),
    /// Answered by `Registered`. Before any of its processes starts, on every node whose processes meet them.
    Register(Namespace),
    /// All processes of a namespace are over.
    Forget {
        namespace: String,
    },
    /// A process of this node is over.
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
    /// The process of this kind on another node says something.
    FromNode {
        node: NodeName,
        message: NodeMessage,
    },
    /// The end; so is the end of standard input.
    Stop,
}

/// A program that a process wants started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnCommand {
    #[serde(with = "serde_bytes")]
    pub program: Vec<u8>,
    /// With the program's name as first.
    #[serde(with = "pcm_proto::byte_lists::strings")]
    pub arguments: Vec<Vec<u8>>,
    /// Variables as `NAME=value`, those that the request names as attributes included.
    #[serde(with = "pcm_proto::byte_lists::strings")]
    pub environment: Vec<Vec<u8>>,
    #[serde(with = "serde_bytes")]
    pub directory: Vec<u8>,
    pub processes: u32,
    /// Texts among the attributes, for example hosts.
    #[serde(with = "pcm_proto::byte_lists::pairs")]
    pub hints: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Variables of the environment of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub rank: u32,
    #[serde(with = "pcm_proto::byte_lists::pairs")]
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
    /// For the process of this kind on another node.
    ToNode { node: NodeName, message: NodeMessage },
    /// This process ends: why it cannot serve.
    Failed { reason: String },
}
