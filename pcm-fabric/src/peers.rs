//! Messages between daemons: `Peers::send(node, message)` chooses how each travels. Unordered messages go as
//! datagrams. Ordered messages go over links, which are dialled when there is something to send and accepted when
//! others dial; until the link exists the first of them go as datagrams, one after another. Protocol:
//! `peers/README.md`. Never knows what a message means and never retries a message that a broken link lost: its sender
//! does.

mod connections;
mod datagrams;
mod delivery;
#[cfg(test)]
mod dice;
mod event;
#[cfg(test)]
mod faulty;
mod path;
mod peer;
mod sequence;
#[cfg(test)]
mod tests;
mod transports;

pub use event::{GroupRoute, LinkId, PeerEvent, PeerFact, RdmaReach, SentDatagram};
pub use path::PathChange;
pub use transports::{Transport, TransportError};

use crate::accept::Listener;
use crate::endpoint::Endpoint;
use crate::hybrid::{Service, Tuning};
use crate::infiniband::UdAddress;
use crate::key::ClusterKey;
use crate::link::Link;
use crate::sender::Sender;
use connections::Connections;
use datagrams::{Datagrams, change_reason};
use delivery::{Delivery, group_size};
use pcm_proto::envelope::{Envelope, EnvelopeRef, encode_datagram};
use pcm_proto::fabric::{FabricReport, FabricWish};
use pcm_proto::frame::PAYLOAD_LENGTH_MAX;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use peer::Peer;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Events that wait to be handled; tasks that report more wait, and so the daemons they read from.
const EVENTS_MAX: usize = 1024;

/// The own daemon among its peers.
#[derive(Debug)]
pub struct LocalDaemon<'a> {
    pub node: NodeName,
    /// Its life: greater than that of every earlier daemon of the node.
    pub boot: u64,
    /// The endpoint it dials from.
    pub endpoint: Endpoint,
    /// Where it listens for links; the UDP port has the same number.
    pub port: SocketAddr,
    /// The key of its cluster.
    pub key: &'a ClusterKey,
    /// The transports its owner wants.
    pub wish: FabricWish,
}

/// All other daemons.
#[derive(Debug)]
pub struct Peers {
    own: NodeName,
    boot: u64,
    connections: Connections,
    datagrams: Datagrams,
    peers: BTreeMap<NodeName, Peer>,
    /// Addresses of unknown daemons that are being dialled.
    unknown: BTreeSet<String>,
    events: mpsc::Receiver<PeerEvent>,
}

impl Peers {
    /// Opens the datagram transports. Fails where the owner insists on one that cannot be used.
    pub async fn open(local: LocalDaemon<'_>) -> Result<Self, TransportError> {
        let (reporter, events) = mpsc::channel(EVENTS_MAX);
        let beside = (local.key, local.port);
        let own = local.node.clone();
        let datagrams = Datagrams::open(own, local.wish, beside, reporter.clone()).await?;
        Ok(Self {
            own: local.node,
            boot: local.boot,
            connections: Connections::new(local.endpoint, reporter),
            datagrams,
            peers: BTreeMap::new(),
            unknown: BTreeSet::new(),
            events,
        })
    }

    /// Starts to accept links. Those of other processes than daemons go to `others`.
    pub fn accept(&self, listener: Listener, others: impl FnMut(Link) + Send + 'static) -> JoinHandle<()> {
        tokio::spawn(self.connections.clone().accept(listener, others))
    }

    /// Waits for the next event, which [`handle`](Self::handle) takes. Cancelling it loses nothing.
    pub async fn next_event(&mut self) -> PeerEvent {
        match self.events.recv().await {
            Some(event) => event,
            // `connections` holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Handles an event. Returns what follows for the rest of the daemon, in order.
    pub fn handle(&mut self, event: PeerEvent, now: Instant) -> Vec<PeerFact> {
        match event {
            PeerEvent::Linked { link, node, sender } => {
                self.peer(&node).on_linked(link, sender);
                self.send_waiting(&node, now);
                vec![PeerFact::Linked(node)]
            }
            PeerEvent::Lost { link, node } => {
                let peer = self.peer(&node);
                peer.on_lost(link);
                vec![match peer.is_linked() {
                    // Both sides say again over another link what may be lost with this one.
                    true => PeerFact::Linked(node),
                    false => PeerFact::Unlinked(node),
                }]
            }
            PeerEvent::DialFailed { node, reason } => {
                self.peer(&node).on_dial_failed();
                vec![PeerFact::Unreachable { node, reason }]
            }
            PeerEvent::AddressDialled { address } => {
                self.unknown.remove(&address);
                Vec::new()
            }
            PeerEvent::Received { node, envelope } => self.on_received(&node, envelope, now),
            PeerEvent::DatagramReceived {
                node,
                transport,
                envelope,
            } => {
                self.restore_link(&node);
                self.datagrams.on_received(&node, transport);
                self.on_received(&node, envelope, now)
            }
            PeerEvent::DatagramSent(sent) => self.on_datagram_sent(*sent, now),
        }
    }

    /// What exchanges cost on this fabric, from now on.
    pub fn use_tuning(&mut self, tuning: Tuning) {
        self.datagrams.use_tuning(tuning);
    }

    /// To be called once a second: new keys, and messages that waited in vain for those before them.
    pub fn on_tick(&mut self, now: Instant) -> Vec<PeerFact> {
        self.datagrams.on_tick();
        let late = self
            .peers
            .iter_mut()
            .map(|(node, peer)| said(node, peer.on_time(node, now)));
        late.flatten().collect()
    }

    /// Sends a message: as a datagram where its delivery allows that and it costs less, else over a link, a new one if
    /// there is none. A message to a node out of reach waits for the link and is dropped when the dial fails.
    pub fn send(&mut self, node: &NodeName, message: DaemonToDaemon, now: Instant) {
        if Delivery::of(&message) != Delivery::Unordered {
            return self.send_over_link(node, message, now);
        }
        let peer = self.peers.get(node);
        let place = (peer.and_then(Peer::address), peer.is_some_and(Peer::is_linked));
        let sent = self.datagrams.send_unordered(node, place, message, now);
        if let Err(message) = sent {
            self.send_over_link(node, message, now);
        }
    }

    /// Sends an unordered message to the daemon at this address, over a link of its own if the daemon is unknown.
    pub fn send_to_address(&mut self, address: String, message: DaemonToDaemon, now: Instant) {
        let known = self
            .peers
            .iter()
            .find(|(_, peer)| peer.address() == Some(address.as_str()));
        if let Some(node) = known.map(|(node, _)| node.clone()) {
            return self.send(&node, message, now);
        }
        if self.unknown.insert(address.clone()) {
            self.connections.dial_address(address, message);
        }
    }

    /// Makes a link unless there is one or one is being made.
    pub fn dial(&mut self, node: &NodeName) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        if let Some(address) = peer.begin_dial() {
            self.connections.dial(node.clone(), address);
        }
    }

    /// Sets the address of a node.
    pub fn set_address(&mut self, node: &NodeName, address: &str) {
        self.peer(node).set_address(address);
    }

    /// Sets the address of a node over InfiniBand or RoCE.
    pub fn set_rdma_address(&mut self, node: &NodeName, address: Option<UdAddress>) {
        self.datagrams.set_ud(node, address);
    }
    pub fn address(&self, node: &NodeName) -> Option<&str> {
        self.peers.get(node)?.address()
    }

    /// The address of this daemon over InfiniBand or RoCE.
    pub fn own_rdma_address(&self) -> Option<UdAddress> {
        self.datagrams.ud_address()
    }

    /// Whether there is a link to a node.
    pub fn is_linked(&self, node: &NodeName) -> bool {
        self.peers.get(node).is_some_and(Peer::is_linked)
    }

    /// Whether datagrams to a node are known to arrive.
    pub fn confirms_datagrams(&self, node: &NodeName) -> bool {
        self.datagrams.is_proven(node)
    }

    /// Whether InfiniBand or RoCE leads to a node.
    pub fn rdma_reach(&self, node: &NodeName) -> RdmaReach {
        self.datagrams.rdma_reach(node)
    }

    /// The transports in use, and why better ones are not.
    pub fn report(&self) -> FabricReport {
        self.datagrams.report()
    }

    /// How a message to several nodes travels, and why.
    pub fn group_route(&self, nodes: &[NodeName], message: &DaemonToDaemon) -> GroupRoute {
        let envelope = EnvelopeRef { ordinal: None, message };
        let bytes = encode_datagram(&self.own, envelope, PAYLOAD_LENGTH_MAX).map_or(0, |bytes| bytes.len());
        let count = |is: &dyn Fn(&&NodeName) -> bool| nodes.iter().filter(is).count();
        let linked = count(&|node| self.is_linked(node));
        let proven = count(&|node| self.confirms_datagrams(node));
        let (service, reason) = if linked == nodes.len() {
            (Service::Connection, "connections to all of them are there".to_owned())
        } else if proven < nodes.len() - linked {
            let unproven = nodes.len() - linked - proven;
            (
                Service::Connection,
                format!("no datagram to {unproven} of them was confirmed so far"),
            )
        } else {
            let choice = self.datagrams.choose(nodes.len(), bytes);
            (choice.service, choice.to_string())
        };
        GroupRoute {
            bytes: bytes as u64,
            service,
            reason,
        }
    }

    /// Drops the links and messages to a node that is taken for dead.
    pub fn forget(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.drop_links();
        }
        self.datagrams.forget(node);
    }

    /// The sending halves of all links, for an orderly end.
    pub fn take_senders(&mut self) -> Vec<Sender> {
        self.peers.values_mut().flat_map(Peer::take_senders).collect()
    }

    fn peer(&mut self, node: &NodeName) -> &mut Peer {
        let boot = self.boot;
        self.peers.entry(node.clone()).or_insert_with(|| Peer::new(boot))
    }

    fn send_over_link(&mut self, node: &NodeName, message: DaemonToDaemon, now: Instant) {
        self.peer(node).enqueue(message);
        self.send_waiting(node, now);
    }

    /// Sends the waiting messages: over a link if there is one, else the first as a datagram while a link is made.
    fn send_waiting(&mut self, node: &NodeName, now: Instant) {
        let peer = self.peer(node);
        peer.send_over_links(node);
        if !peer.is_linked() && peer.has_waiting() {
            self.send_first_as_datagram(node, now);
            self.dial(node);
        }
    }

    fn send_first_as_datagram(&mut self, node: &NodeName, now: Instant) {
        if !self.datagrams.is_proven(node) {
            return;
        }
        let Some(peer) = self.peers.get_mut(node) else { return };
        let (Some((ordinal, message)), Some(address)) = (peer.next_for_datagram(), peer.address()) else {
            return;
        };
        let envelope = EnvelopeRef {
            ordinal: Some(ordinal),
            message,
        };
        let members = group_size(message, &self.own);
        if let Some(exchange) = self.datagrams.send_ordered(node, address, (envelope, members), now) {
            peer.on_sent_as_datagram(exchange);
        }
    }

    /// A message that was not confirmed goes over a link.
    fn on_datagram_sent(&mut self, sent: SentDatagram, now: Instant) -> Vec<PeerFact> {
        let SentDatagram {
            node,
            transport,
            exchange,
            message,
            outcome,
            took,
        } = sent;
        let is_linked = self.is_linked(&node);
        let times = (now.checked_sub(took).unwrap_or(now), now);
        let change = self.datagrams.on_sent((&node, transport), &outcome, is_linked, times);
        let peer = self.peer(&node);
        let mut facts = Vec::new();
        if outcome.is_ok() {
            peer.on_confirmed(exchange);
            self.send_waiting(&node, now);
            self.restore_link(&node);
            facts.push(PeerFact::Confirmed {
                node: node.clone(),
                transport,
                took,
            });
        } else if peer.on_unconfirmed(exchange) {
            self.send_waiting(&node, now);
        } else if let Some(message) = message {
            self.send_over_link(&node, *message, now);
        }
        facts.extend(change.map(|change| PeerFact::PathChanged {
            carried_by: self.datagrams.carried_by(&node),
            reason: change_reason(transport, change),
            node,
            transport,
            change,
        }));
        facts
    }

    fn on_received(&mut self, node: &NodeName, envelope: Envelope, now: Instant) -> Vec<PeerFact> {
        let messages = match envelope.ordinal {
            Some(ordinal) => self.peer(node).on_message(node, ordinal, envelope.message, now),
            None => vec![envelope.message],
        };
        said(node, messages).collect()
    }

    /// Makes a broken link again: both sides send again over a new link what the old one lost.
    fn restore_link(&mut self, node: &NodeName) {
        if self.peers.get(node).is_some_and(Peer::lacks_link) {
            self.dial(node);
        }
    }
}

fn said(node: &NodeName, messages: Vec<DaemonToDaemon>) -> impl Iterator<Item = PeerFact> + use<> {
    let node = node.clone();
    messages.into_iter().map(move |message| PeerFact::Said {
        node: node.clone(),
        message,
    })
}
