//! What the machine takes in and gives out, and what machines of several nodes say to each other.

use crate::names::{Process, Published, Status, Value};
use pcm_proto::ids::NodeName;
use pcm_proto::pmix::{Namespace, Report, SpawnCommand};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A call of libpmix that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What processes do together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// A group of this name, with a number for its communicators.
    Construct(String),
    Destruct(String),
}

/// All participants of this node called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    pub kind: Kind,
    pub members: Vec<Process>,
    /// What they have for the others; opaque.
    pub data: Vec<u8>,
    pub timeout: Option<Duration>,
    /// What libpmix says of the participants here: a failure, if one of them is lost.
    pub local: Status,
    /// Other nodes take no part, whatever the members say.
    pub is_local: bool,
}

/// What a process asked libpmix for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upcall {
    Connected(Process),
    Finalized(Process),
    Aborted {
        process: Process,
        status: i32,
        message: String,
        victims: Vec<Process>,
    },
    Collective(CollectiveCall),
    /// What a process of another node has published for those that connect to it.
    Modex {
        process: Process,
        timeout: Option<Duration>,
    },
    Publish {
        publisher: Process,
        values: Vec<(String, Value)>,
        /// Each value is gone once it was read.
        is_read_once: bool,
    },
    Lookup {
        keys: Vec<String>,
        /// Until all are there.
        waits: bool,
        timeout: Option<Duration>,
    },
    Unpublish {
        publisher: Process,
        keys: Vec<String>,
    },
    Spawn {
        process: Process,
        commands: Vec<SpawnCommand>,
        timeout: Option<Duration>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Called {
        ticket: Ticket,
        upcall: Upcall,
    },
    Registered(Namespace),
    Forgotten {
        namespace: String,
    },
    /// A process of this node is over.
    Ended {
        process: Process,
    },
    NodeLost {
        node: NodeName,
    },
    SpawnAnswer {
        number: u64,
        outcome: Result<String, Status>,
    },
    /// libpmix says what a process of this node has published.
    Fetched {
        number: u64,
        outcome: Result<Vec<u8>, Status>,
    },
    FromNode {
        node: NodeName,
        message: NodeMessage,
    },
    /// It is later.
    Later,
}

/// What participants of a collective operation get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// What all nodes gave, one after the other.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
    /// Of a group that was constructed.
    pub group: Option<Group>,
}

/// What the members of a group know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Tells its communicators from those of other groups.
    pub context: u64,
    /// In one order for all.
    pub members: Vec<Process>,
}

/// What a call of libpmix is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done(Status),
    Collected(Collected),
    Data(Vec<u8>),
    Found(Vec<Published>),
    Spawned(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Answer {
        ticket: Ticket,
        answer: Answer,
    },
    Report(Report),
    /// The machine of another node hears this.
    Tell {
        node: NodeName,
        message: NodeMessage,
    },
    /// Processes of this node learn that one is lost.
    Announce {
        lost: Process,
    },
    /// libpmix is to know a namespace without processes here.
    Learn(Namespace),
    /// libpmix is asked what a process of this node has published; answered by `Event::Fetched`.
    Fetch {
        number: u64,
        process: Process,
    },
}

/// What the machine of one node asks another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Publish {
        publisher: Process,
        values: Vec<(String, Value)>,
        is_read_once: bool,
    },
    Lookup {
        keys: Vec<String>,
        waits: bool,
        timeout_seconds: Option<u64>,
    },
    Unpublish {
        publisher: Process,
        keys: Vec<String>,
    },
    Modex {
        process: Process,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done(Status),
    Found(Vec<Published>),
    Data(#[serde(with = "serde_bytes")] Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeMessage {
    /// To the leader: the participants of a node are in.
    In {
        kind: Kind,
        members: Vec<Process>,
        round: u64,
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
        local: Status,
    },
    /// From the leader: how it went.
    Out {
        kind: Kind,
        members: Vec<Process>,
        round: u64,
        outcome: Result<Collected, Status>,
    },
    Asked {
        number: u64,
        request: Request,
    },
    Replied {
        number: u64,
        reply: Reply,
    },
    Lost {
        process: Process,
    },
    /// A namespace that the sender knows. The keeper says it to nodes that have none of its processes.
    Known(Namespace),
}
