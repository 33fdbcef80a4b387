//! Everything that can happen to the daemon. One event is handled at a time, to its end.

use super::boot::BootFact;
use super::images::ImageKey;
use super::logs::LogsAnswer;
use super::memory::Memory;
use super::together::CameTogether;
use crate::keeper_link::FromKeeper;
use crate::rank::{Output, RankEvent};
use pcm_core::node::methods::FileCosts;
use pcm_core::node::requester::LinkId;
use pcm_fabric::Sender;
use pcm_fabric::peers::PeerEvent;
use pcm_proto::agent::AgentToDaemon;
use pcm_proto::checkpoint::{BufferKey, PartTally};
use pcm_proto::control::ControlToDaemon;
use pcm_proto::ids::{CheckpointId, JobId};
use std::sync::Arc;
use tokio::sync::oneshot;

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
    /// The file of costs of methods was looked at; its content where it has changed.
    CostsRead(Option<FileCosts>),
    /// An order about logs was carried out.
    Logs(Box<LogsAnswer>),
    /// A rank says something.
    Rank(RankEvent),
    /// A rank printed something.
    Printed { job: JobId, output: Output },
    /// A rank took so much more of its standard input, or never will.
    StdinTaken { job: JobId, bytes: u64 },
    /// The checksums of a part of a checkpoint were taken or verified.
    Summed {
        key: BufferKey,
        id: CheckpointId,
        tally: std::io::Result<PartTally>,
    },
    /// Another daemon of this host wants to read an image.
    ImageWanted {
        key: ImageKey,
        lend: oneshot::Sender<Option<Arc<Memory>>>,
    },
    /// Another daemon of this host lends an image, or does not.
    ImageLent {
        key: ImageKey,
        attempt: u64,
        lent: std::io::Result<Memory>,
    },
    /// Memory for an image is on offer.
    ImageOffered {
        key: ImageKey,
        attempt: u64,
        region: [u8; 16],
    },
    /// Blocks of an image came all at once, or did not.
    ImageCame {
        key: ImageKey,
        attempt: u64,
        came: CameTogether,
    },
    /// An image was written into memory that another daemon offered, or was not.
    ImagePut { number: u64, outcome: Result<u64, String> },
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
