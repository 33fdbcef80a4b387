//! The ways to other daemons. Small messages that may overtake others go as datagrams. Everything else goes over links:
//! dialled when there is something to say, accepted when others dial. The newest link to a node is the one that is
//! spoken on; all of them are listened to. While a link is being made, what waits for it goes ahead as datagrams, one
//! after another, so that nothing is overtaken. Messages to a node out of reach wait for its link for a short while and
//! are dropped when it cannot be made: whoever sent them says again what matters when the link is there.

use super::datagram_way::Turn;
use super::datagrams::{Datagrams, Manner, Number, Sent, manner, members};
use super::event::{Event, LinkId};
use super::start::next_link;
use pcm_fabric::hybrid::Service;
use pcm_fabric::{Endpoint, Link, Receiver, RecvError, Sender};
use pcm_proto::control::ControlToDaemon;
use pcm_proto::fabric::say;
use pcm_proto::frame::PAYLOAD_LENGTH_MAX;
use pcm_proto::handshake::Role;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::mpsc;

/// A link is made in a millisecond; a node that needs longer than this is as good as out of reach.
const DIAL_DEADLINE: Duration = Duration::from_secs(2);

/// Messages that wait for a link: a start order, its job's messages, and a burst of others.
const WAITING_MAX: usize = 1024;

/// Links to one node: two when both dialled at once, more only when old ones have not been noticed dead.
const LINKS_MAX: usize = 4;

#[derive(Debug, Default)]
struct Peer {
    address: Option<String>,
    links: Vec<(LinkId, Sender)>,
    waiting: VecDeque<DaemonToDaemon>,
    is_dialling: bool,
    /// A message that the waiting ones must not overtake.
    under_way: Option<Number>,
    /// Whether there was a link; one that broke is made again when the node is heard.
    was_linked: bool,
}

/// All links to other daemons.
#[derive(Debug)]
pub(super) struct Peers {
    own: NodeName,
    endpoint: Endpoint,
    pub(super) datagrams: Datagrams,
    events: mpsc::Sender<Event>,
    peers: BTreeMap<NodeName, Peer>,
    links: Arc<AtomicU64>,
    /// Addresses that are being dialled without knowing whose they are.
    strangers: BTreeSet<String>,
}

impl Peers {
    pub(super) fn new(
        own: NodeName,
        (endpoint, datagrams): (Endpoint, Datagrams),
        events: mpsc::Sender<Event>,
        links: Arc<AtomicU64>,
    ) -> Self {
        Self {
            own,
            endpoint,
            datagrams,
            events,
            peers: BTreeMap::new(),
            links,
            strangers: BTreeSet::new(),
        }
    }

    /// Where a node is found from now on.
    pub(super) fn set_address(&mut self, node: &NodeName, address: &str) {
        let peer = self.peers.entry(node.clone()).or_default();
        if peer.address.as_deref() != Some(address) {
            peer.address = Some(address.to_owned());
        }
    }

    pub(super) fn is_linked(&self, node: &NodeName) -> bool {
        self.peers.get(node).is_some_and(|peer| !peer.links.is_empty())
    }

    /// Sends a message: as a datagram where that may be and costs less, else over a link, a new one if need be.
    pub(super) fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        let peer = self.peers.entry(node.clone()).or_default();
        if manner(&message) != Manner::Loose {
            return self.send_in_order(node, message);
        }
        let is_linked = !peer.links.is_empty();
        let sent = self
            .datagrams
            .send(node, peer.address.as_deref(), (message, 1), is_linked);
        if let Err(message) = sent {
            self.send_in_order(node, message);
        }
    }

    fn send_in_order(&mut self, node: &NodeName, message: DaemonToDaemon) {
        let peer = self.peers.entry(node.clone()).or_default();
        while let (Some((link, sender)), None) = (peer.links.last(), peer.under_way) {
            match sender.try_send(&message) {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%node, ?link, %error, "a message was not sent, the link is dropped");
                    sender.abort();
                    peer.links.pop();
                }
            }
        }
        if peer.waiting.len() < WAITING_MAX {
            peer.waiting.push_back(message);
        }
        self.send_ahead(node);
        self.dial(node);
    }

    /// Sends the first message that waits for a link as a datagram, where those are known to arrive.
    fn send_ahead(&mut self, node: &NodeName) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        if !peer.links.is_empty() || peer.under_way.is_some() || !self.datagrams.is_proven(node) {
            return;
        }
        let Some(first) = peer.waiting.pop_front() else { return };
        let members = members(&first, &self.own);
        match self
            .datagrams
            .send(node, peer.address.as_deref(), (first, members), false)
        {
            Ok(number) => peer.under_way = Some(number),
            Err(first) => peer.waiting.push_front(first),
        }
    }

    /// What became of a datagram; what was not confirmed goes over a link.
    pub(super) fn on_sent(&mut self, sent: Sent) -> Option<Turn> {
        let Sent {
            node,
            number,
            message,
            outcome,
        } = sent;
        let is_linked = self.is_linked(&node);
        let turn = self.datagrams.on_sent(&node, &outcome, is_linked);
        let peer = self.peers.entry(node.clone()).or_default();
        if peer.under_way == Some(number) {
            peer.under_way = None;
            if outcome.is_err() {
                peer.waiting.push_front(*message);
            }
            self.go_on(&node);
        } else if outcome.is_err() && manner(&message) == Manner::Loose {
            self.send_in_order(&node, *message);
        }
        if outcome.is_ok() {
            self.link_again(&node);
        }
        turn
    }

    /// A datagram came from this node.
    pub(super) fn on_heard(&mut self, node: &NodeName) -> Option<Turn> {
        self.link_again(node);
        self.datagrams.on_heard(node)
    }

    fn link_again(&mut self, node: &NodeName) {
        if self
            .peers
            .get(node)
            .is_some_and(|peer| peer.was_linked && peer.links.is_empty())
        {
            self.dial(node);
        }
    }

    /// Sends what waits, over the link if there is one.
    fn go_on(&mut self, node: &NodeName) {
        let Some(peer) = self.peers.get_mut(node).filter(|peer| peer.under_way.is_none()) else {
            return;
        };
        if peer.links.is_empty() {
            return self.send_ahead(node);
        }
        for message in std::mem::take(&mut peer.waiting) {
            self.send_in_order(node, message);
        }
    }

    /// How several nodes that are told the same by this one are reached, and the numbers behind it: bytes to each, the
    /// service, the reason.
    pub(super) fn group_way(&self, nodes: &[NodeName], message: &DaemonToDaemon) -> (u64, Service, String) {
        let bytes = say(&self.own, message, PAYLOAD_LENGTH_MAX).map_or(0, |bytes| bytes.len());
        let count = |is: &dyn Fn(&&NodeName) -> bool| nodes.iter().filter(is).count();
        let linked = count(&|node| self.is_linked(node));
        let proven = count(&|node| self.datagrams.is_proven(node));
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
        (bytes as u64, service, reason)
    }

    /// Makes a link unless there is one or one is being made.
    pub(super) fn dial(&mut self, node: &NodeName) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        if peer.is_dialling || !peer.links.is_empty() {
            return;
        }
        let Some(address) = peer.address.clone() else {
            peer.waiting.clear();
            return;
        };
        peer.is_dialling = true;
        let (endpoint, events, node, link) = (
            self.endpoint.clone(),
            self.events.clone(),
            node.clone(),
            next_link(&self.links),
        );
        tokio::spawn(async move {
            let made = endpoint.connect(&address, DIAL_DEADLINE).await;
            let reason = match made {
                Ok(made) if matches!(&made.peer().role, Role::Daemon { node: other } if *other == node) => {
                    return listen(made, link, &events).await;
                }
                Ok(made) => format!("{address} is {}", made.peer().role),
                Err(error) => error.to_string(),
            };
            let _ = events.send(Event::DialFailed { node, reason }).await;
        });
    }

    /// Sends a message to whoever listens at this address, over a link of its own if none is known.
    pub(super) fn send_to_stranger(&mut self, address: String, message: DaemonToDaemon) {
        let known = self
            .peers
            .iter()
            .find(|(_, peer)| peer.address.as_ref() == Some(&address));
        if let Some(node) = known.map(|(node, _)| node.clone()) {
            return self.send(&node, message);
        }
        if !self.strangers.insert(address.clone()) {
            return;
        }
        let (endpoint, events, link) = (self.endpoint.clone(), self.events.clone(), next_link(&self.links));
        tokio::spawn(async move {
            let made = endpoint.connect(&address, DIAL_DEADLINE).await;
            let made = made.inspect_err(|error| tracing::debug!(%address, %error, "nobody was reached there"));
            let _ = events.send(Event::StrangerDialled { address }).await;
            let Ok(made) = made else { return };
            let role = made.peer().role.clone();
            let (sender, receiver) = made.split();
            if sender.try_send(&message).is_ok() {
                listen_as(role, sender, receiver, link, &events).await;
            }
        });
    }

    pub(super) fn on_stranger_dialled(&mut self, address: &str) {
        self.strangers.remove(address);
    }

    pub(super) fn on_linked(&mut self, link: LinkId, node: &NodeName, sender: Sender) {
        let peer = self.peers.entry(node.clone()).or_default();
        peer.is_dialling = false;
        peer.was_linked = true;
        if peer.links.len() >= LINKS_MAX {
            let (_, oldest) = peer.links.remove(0);
            oldest.abort();
        }
        peer.links.push((link, sender));
        self.go_on(node);
    }

    /// Returns whether no link to the node is left.
    pub(super) fn on_lost(&mut self, link: LinkId, node: &NodeName) -> bool {
        let Some(peer) = self.peers.get_mut(node) else {
            return false;
        };
        peer.links.retain(|(other, _)| *other != link);
        peer.links.is_empty()
    }

    pub(super) fn on_dial_failed(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.is_dialling = false;
            if peer.links.is_empty() {
                peer.waiting.clear();
            }
        }
    }

    /// Drops the links to a node that is taken for dead.
    pub(super) fn drop_links(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            for (_, sender) in peer.links.drain(..) {
                sender.abort();
            }
            peer.waiting.clear();
            peer.under_way = None;
        }
        self.datagrams.forget(node);
    }

    /// Everybody's links, to be closed in order.
    pub(super) fn take_senders(&mut self) -> Vec<Sender> {
        let links = self.peers.values_mut().flat_map(|peer| peer.links.drain(..));
        links.map(|(_, sender)| sender).collect()
    }
}

/// Passes on what comes in on a link, whoever it is, until its end.
pub(super) async fn listen(link: Link, id: LinkId, events: &mpsc::Sender<Event>) {
    let role = link.peer().role.clone();
    let (sender, receiver) = link.split();
    listen_as(role, sender, receiver, id, events).await;
}

async fn listen_as(role: Role, sender: Sender, receiver: Receiver, id: LinkId, events: &mpsc::Sender<Event>) {
    match role {
        Role::Daemon { node } => listen_to_peer(id, node, sender, receiver, events).await,
        Role::Control => listen_to_control(id, sender, receiver, events).await,
        Role::Agent { .. } | Role::Application => {
            tracing::warn!(%role, "this is only served on the local socket");
            sender.abort();
        }
    }
}

async fn listen_to_peer(
    link: LinkId,
    node: NodeName,
    sender: Sender,
    mut receiver: Receiver,
    events: &mpsc::Sender<Event>,
) {
    let linked = Event::PeerLinked {
        link,
        node: node.clone(),
        sender,
    };
    if events.send(linked).await.is_err() {
        return;
    }
    loop {
        let event = match receiver.recv::<DaemonToDaemon>().await {
            Ok(message) => Event::PeerSaid {
                node: node.clone(),
                message: Box::new(message),
            },
            Err(RecvError::Message(error)) => {
                tracing::warn!(%node, %error, "a message of another daemon is not understood");
                continue;
            }
            Err(_) => break,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
    let _ = events.send(Event::PeerLost { link, node }).await;
}

async fn listen_to_control(link: LinkId, sender: Sender, mut receiver: Receiver, events: &mpsc::Sender<Event>) {
    if events.send(Event::ControlLinked { link, sender }).await.is_err() {
        return;
    }
    let in_order = loop {
        match receiver.recv::<ControlToDaemon>().await {
            Ok(message) => {
                let message = Box::new(message);
                if events.send(Event::ControlSaid { link, message }).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Closed) => break true,
            Err(_) => break false,
        }
    };
    let _ = events.send(Event::ControlLost { link, in_order }).await;
}
