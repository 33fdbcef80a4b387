//! What tasks bring to the daemon's loop, with the sockets and files that come along.

use super::memory::MemoryEvent;
use crate::keeper_link::FromKeeper;
use crate::output_files::Written;
use crate::ranks::RankNews;
use pcm_core::node::event::BootFact;
use pcm_core::node::pmix::effect::{HelperId, PmixNews};
use pcm_core::node::requester::LinkId;
use pcm_fabric::Sender;
use pcm_fabric::hybrid::Tuning;
use pcm_fabric::peers::PeerEvent;
use pcm_proto::agent::AgentToDaemon;
use pcm_proto::control::ControlToDaemon;
use pcm_proto::ids::NodeName;
use pcm_proto::stack::RankStack;

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
    AgentEnded { life: u64, reason: String },
    /// What serves PMIx to the ranks of a job says something, or ended.
    Pmix { helper: HelperId, news: PmixNews },
    /// Background work with memory files has news.
    Memory(MemoryEvent),
    /// A rank says or does something.
    Rank(RankNews),
    /// SIGTERM: the node will be taken away.
    Notice,
    /// The boot tree has news.
    Boot(BootFact),
    /// The node's files have been looked at.
    Files(pcm_core::node::event::Event),
    /// The node's events before this daemon.
    Earlier(Vec<pcm_proto::event::Event>),
    /// Stacks of processes were read for a question of a node.
    Stacks {
        node: NodeName,
        ask: u64,
        stacks: Vec<RankStack>,
    },
    /// The costs of exchanges were measured.
    Tuning(Tuning),
    /// Output of a detached job was written to its files.
    Written(Written),
}

impl From<RankNews> for Event {
    fn from(news: RankNews) -> Self {
        Self::Rank(news)
    }
}

impl From<Written> for Event {
    fn from(written: Written) -> Self {
        Self::Written(written)
    }
}
