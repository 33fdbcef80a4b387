//! What happens between this daemon and others, as tasks report it, and what follows for the rest of the daemon. Plain
//! data.

use super::path::PathChange;
use super::transports::Transport;
use crate::datagram::ExchangeError;
use crate::hybrid::Service;
use crate::sender::Sender;
use pcm_proto::envelope::Envelope;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::time::Duration;

/// One link to a daemon, counted from 1 in each life of this daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(pub(super) u64);

/// One datagram exchange, counted from 1 in each life of this daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExchangeId(pub(super) u64);

/// An event for [`Peers::handle`](super::Peers::handle).
#[derive(Debug)]
pub enum PeerEvent {
    /// A link to a daemon exists.
    Linked {
        link: LinkId,
        node: NodeName,
        sender: Sender,
    },
    /// A message arrived over a link.
    Received { node: NodeName, envelope: Envelope },
    /// A link ended.
    Lost { link: LinkId, node: NodeName },
    /// A daemon could not be reached.
    DialFailed {
        node: NodeName,
        /// Why, for the log.
        reason: String,
    },
    /// An address of an unknown daemon was dialled, with or without success.
    AddressDialled { address: String },
    /// A message arrived in a datagram.
    DatagramReceived {
        node: NodeName,
        /// The transport that carried it.
        transport: Transport,
        envelope: Envelope,
    },
    /// A datagram was confirmed or not.
    DatagramSent(Box<SentDatagram>),
}

/// The outcome of a datagram exchange.
#[derive(Debug)]
pub struct SentDatagram {
    pub(super) node: NodeName,
    pub(super) transport: Transport,
    pub(super) exchange: ExchangeId,
    /// The message, unless its sender kept it.
    pub(super) message: Option<Box<DaemonToDaemon>>,
    pub(super) outcome: Result<(), ExchangeError>,
    pub(super) took: Duration,
}

/// What an event means to the rest of the daemon.
#[derive(Debug)]
pub enum PeerFact {
    /// A new link to this node exists, or one that is left serves from now on: what was sent before may be lost.
    Linked(NodeName),
    /// The last link to this node ended.
    Unlinked(NodeName),
    /// This node could not be reached.
    Unreachable {
        node: NodeName,
        /// Why, for the log.
        reason: String,
    },
    /// A message of this node, in its order.
    Said { node: NodeName, message: DaemonToDaemon },
    /// This node confirmed a datagram.
    Confirmed {
        node: NodeName,
        /// The transport that carried it.
        transport: Transport,
        /// Time until the confirmation arrived.
        took: Duration,
    },
    /// Datagrams to this node arrive from now on, or no longer do.
    PathChanged {
        node: NodeName,
        /// The transport whose path changed.
        transport: Transport,
        change: PathChange,
        /// What carries small messages to the node now.
        carried_by: &'static str,
        /// Why, for a person; none where the change is as expected.
        reason: Option<&'static str>,
    },
}

/// Whether InfiniBand or RoCE leads to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaReach {
    /// No device is in use here or there.
    NoDevice,
    /// The node confirms nothing over its device.
    Silent,
    /// As far as is known.
    Reachable,
}

/// How one message to several nodes travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRoute {
    /// Bytes to each node.
    pub bytes: u64,
    /// Datagrams or connections.
    pub service: Service,
    /// Why, for a person.
    pub reason: String,
}
