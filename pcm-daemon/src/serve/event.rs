//! Everything that can happen to the daemon. One event is handled at a time, to its end.

use super::boot::BootFact;
use super::memory::MemoryEvent;
use crate::keeper_link::FromKeeper;
use crate::rank::{Output, RankEvent};
use pcm_core::node::requester::LinkId;
use pcm_fabric::Sender;
use pcm_fabric::peers::PeerEvent;
use pcm_proto::agent::AgentToDaemon;
use pcm_proto::control::ControlToDaemon;
use pcm_proto::ids::JobId;

#[derive(Debug)]
pub(super) enum Event {
    /// The keeper told a fact.
    Keeper(FromKeeper),
    /// The keeper is dead or cannot be understood.
    KeeperLost { reason: String },
    /// An event between this daemon and another one.
    Peer(PeerEvent),
    /// A `pcmctl` is linked.
    ControlLinked { link: LinkId, sender: Sender },
    /// It asks something.
    ControlSaid {
        link: LinkId,
        message: Box<ControlToDaemon>,
    },
    /// Its link ended; `in_order` when it said goodbye.
    ControlLost { link: LinkId, in_order: bool },
    /// The agent is linked.
    AgentLinked { link: LinkId, sender: Sender },
    /// It says something.
    AgentSaid { link: LinkId, message: AgentToDaemon },
    /// Its link ended; the reason where what came on it could not be understood.
    AgentLost { link: LinkId, nonsense: Option<String> },
    /// Its process ended.
    AgentEnded { reason: String },
    /// A rank says something.
    Rank(RankEvent),
    /// A rank printed something.
    Printed { job: JobId, output: Output },
    /// A rank took so much more of its standard input, or never will.
    StdinTaken { job: JobId, bytes: u64 },
    /// Background work with memory files has news.
    Memory(MemoryEvent),
    /// SIGTERM: the node will be taken away.
    Notice,
    /// The boot tree has news.
    Boot(BootFact),
    /// Output of a detached job was written to its files.
    Filed {
        job: JobId,
        pieces: Vec<super::output_files::Filed>,
    },
}
