//! What one look at a rank's page shows of what it does with its mates, for `messages` and `ps --stuck`.

use crate::ids::{Bytes, NodeName, ProcessId, Rank};
use serde::{Deserialize, Serialize};

/// Most peers a look names; those with the most messages are kept. Ranks of most programs talk to few.
pub const PEERS_SHOWN_MAX: usize = 256;

/// Most rows by communicator and peer a look has; those with the most messages are kept.
pub const APART_SHOWN_MAX: usize = 256;

/// How far a rank is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not yet through `MPI_Init`.
    Starting,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
    /// In `MPI_Finalize` or after it: it sends nothing any more.
    Finished,
}

/// One look at one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankLook {
    /// Rank in the current communicator.
    pub rank: Rank,
    /// The process behind it.
    pub process: ProcessId,
    pub node: NodeName,
    /// How far it is.
    pub stage: Stage,
    /// MPI calls begun so far.
    pub calls: u64,
    /// The call it is in, if any.
    pub call: Option<CallLook>,
    /// Its last collective operations, oldest first.
    pub collectives: Vec<CollectiveLook>,
    /// Its last messages, oldest first.
    pub sends: Vec<SendLook>,
    /// Of its communicators made last, but for the job's own: the one it is in a call with, and those whose lowest rank
    /// it is, so that each is named once.
    pub communicators: Vec<CommunicatorLook>,
    /// Receives it posted that take a message from anybody.
    pub from_anybody: u64,
    /// Its traffic with other ranks of the job.
    pub peers: Vec<PeerLook>,
    /// Peers beyond [`PEERS_SHOWN_MAX`].
    pub peers_left_out: u32,
    /// That part of its traffic that was not on the job's own communicator.
    pub apart: Vec<ApartLook>,
    /// Messages and receives of that part that are not in it.
    pub apart_left_out: u64,
}

/// A call in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallLook {
    /// Its MPI name, without `MPI_`.
    pub function: String,
    /// Rank it sends to or receives from, or the root; -1 for anybody.
    pub peer: Option<i32>,
    /// Its tag; -1 for any.
    pub tag: Option<i32>,
    /// Bytes it was given to carry.
    pub bytes: Bytes,
    /// Identity of its communicator, see [`crate::record`]; 0 where it is not known.
    pub communicator: u64,
    /// For how long it lasts.
    pub since_ms: f64,
}

/// A collective operation that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveLook {
    /// Identity of its communicator.
    pub communicator: u64,
    /// Its number on that communicator, from 1.
    pub sequence: u64,
    /// Its MPI name, without `MPI_`.
    pub function: String,
    /// Its root's rank in the job.
    pub root: Option<i32>,
    /// Bytes this rank was to give or take.
    pub bytes: Bytes,
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendLook {
    /// Identity of its communicator.
    pub communicator: u64,
    /// Rank it goes to.
    pub peer: i32,
    pub tag: i32,
    pub bytes: Bytes,
}

/// The ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorLook {
    pub identity: u64,
    /// Its ranks in the job.
    pub ranks: Vec<u32>,
}

/// Traffic with one rank on one communicator, see [`crate::other_communicators`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApartLook {
    /// The communicator's identity, [`crate::other_communicators::ENDED`] or [`crate::other_communicators::UNKNOWN`].
    pub communicator: u64,
    /// The other rank, or [`crate::page::ANY`] for receives that take from anybody.
    pub peer: i32,
    /// Messages sent to it.
    pub messages_sent: u64,
    /// Bytes sent to it.
    pub bytes_sent: u64,
    /// Receives posted for it.
    pub receives_posted: u64,
}

/// Traffic with one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerLook {
    /// The other rank.
    pub peer: u32,
    /// Messages sent to it.
    pub messages_sent: u64,
    /// Bytes sent to it.
    pub bytes_sent: u64,
    /// Receives posted that name it.
    pub receives_posted: u64,
}
