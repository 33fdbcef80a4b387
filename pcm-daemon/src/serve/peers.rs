//! The ways to other daemons. Small messages that may overtake others go as datagrams. Everything else goes over links:
//! dialled when there is something to say, accepted when others dial. The newest link to a node is the one that is
//! spoken on; all of them are listened to. While a link is being made, what waits for it goes ahead as datagrams, one
//! after another. Where there are
//! datagrams these messages are numbered, so that each is heard once and in its order whichever way it came.
//! Messages to a node out of reach wait for its link for a short while and are dropped when it cannot be made: whoever
//! sent them says again what matters when the link is there.

#[cfg(test)]
mod faulty;
#[cfg(test)]
mod tests;

use super::carriers::Carrier;
use super::datagram_way::Turn;
use super::datagrams::{Datagrams, Manner, Number, Sent, manner, members};
use super::event::Event;
use super::order::{Freed, Incoming, Outgoing};
use super::start::next_link;
use pcm_core::membership::Details;
use pcm_core::node::requester::LinkId;
use pcm_fabric::hybrid::Service;
use pcm_fabric::{Endpoint, Link, Receiver, RecvError, SendError, Sender};
use pcm_proto::control::ControlToDaemon;
use pcm_proto::fabric::{Telling, Told, say};
use pcm_proto::frame::PAYLOAD_LENGTH_MAX;
use pcm_proto::handshake::Role;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A link is made in a millisecond; a node that needs longer than this is as good as out of reach.
const DIAL_DEADLINE: Duration = Duration::from_secs(2);

/// Messages that wait for a link: a start order, its job's messages, and a burst of others.
const WAITING_MAX: usize = 1024;

/// Links to one node: two when both dialled at once, more only when old ones have not been noticed dead.
const LINKS_MAX: usize = 4;

#[derive(Debug)]
struct Peer {
    address: Option<String>,
    links: Vec<(LinkId, Sender)>,
    waiting: VecDeque<DaemonToDaemon>,
    ahead: Option<Ahead>,
    is_dialling: bool,
    /// Whether there was a link; one that broke is made again when the node is heard.
    was_linked: bool,
    outgoing: Outgoing,
    incoming: Incoming<DaemonToDaemon>,
}

/// The message before the waiting ones: it goes as a datagram, or did so in vain.
#[derive(Debug)]
struct Ahead {
    number: u64,
    message: DaemonToDaemon,
    datagram: Option<Number>,
}

impl Peer {
    fn new(boot: u64) -> Self {
        Self {
            address: None,
            links: Vec::new(),
            waiting: VecDeque::new(),
            ahead: None,
            is_dialling: false,
            was_linked: false,
            outgoing: Outgoing::new(boot),
            incoming: Incoming::default(),
        }
    }

    /// A link broke, with what may still have been on it.
    fn give_up_sent(&mut self) {
        let but = self.ahead.as_ref().map(|ahead| ahead.number);
        self.outgoing.give_up(but);
    }

    /// The node is out of reach.
    fn give_up_all(&mut self) {
        self.waiting.clear();
        self.ahead = None;
        self.outgoing.give_up(None);
    }

    /// Sends what waits over the newest link that takes it. Where links alone carry messages, these need no numbers.
    fn send_over_links(&mut self, node: &NodeName, are_numbered: bool) {
        while let Some((link, sender)) = self.links.last() {
            let (ordinal, message) = match (&self.ahead, self.waiting.front()) {
                (Some(ahead), _) => (Some(self.outgoing.again(ahead.number)), &ahead.message),
                (None, Some(first)) if !are_numbered || manner(first) == Manner::Loose => (None, first),
                (None, Some(first)) => (Some(self.outgoing.peek()), first),
                (None, None) => return,
            };
            match sender.try_send(&Telling { ordinal, message }) {
                Ok(()) => self.on_sent_over_link(ordinal.is_some()),
                Err(SendError::Encode(error)) => {
                    tracing::error!(%node, %error, "a message cannot be sent at all");
                    self.on_sent_over_link(false);
                }
                Err(error) => {
                    tracing::warn!(%node, ?link, %error, "a message was not sent, the link is dropped");
                    sender.abort();
                    self.links.pop();
                    self.give_up_sent();
                }
            }
        }
    }

    fn on_sent_over_link(&mut self, is_numbered: bool) {
        if self.ahead.take().is_none() {
            self.waiting.pop_front();
            if is_numbered {
                self.outgoing.take();
            }
        }
    }
}

/// All links to other daemons.
#[derive(Debug)]
pub(super) struct Peers {
    own: NodeName,
    /// This life of the daemon.
    boot: u64,
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
        (own, boot): (NodeName, u64),
        (endpoint, datagrams): (Endpoint, Datagrams),
        events: mpsc::Sender<Event>,
        links: Arc<AtomicU64>,
    ) -> Self {
        Self {
            own,
            boot,
            endpoint,
            datagrams,
            events,
            peers: BTreeMap::new(),
            links,
            strangers: BTreeSet::new(),
        }
    }

    fn peer(&mut self, node: &NodeName) -> &mut Peer {
        let boot = self.boot;
        self.peers.entry(node.clone()).or_insert_with(|| Peer::new(boot))
    }

    /// Where a node is found from now on.
    pub(super) fn set_address(&mut self, node: &NodeName, address: &str) {
        let peer = self.peer(node);
        if peer.address.as_deref() != Some(address) {
            peer.address = Some(address.to_owned());
        }
    }

    /// Where a node is found from now on, by its own account.
    pub(super) fn set_whereabouts(&mut self, node: &NodeName, details: &Details) {
        self.set_address(node, &details.address);
        self.datagrams.set_ud(node, details.ud);
    }

    /// Where a node is found.
    pub(super) fn address(&self, node: &NodeName) -> Option<&str> {
        self.peers.get(node)?.address.as_deref()
    }

    pub(super) fn is_linked(&self, node: &NodeName) -> bool {
        self.peers.get(node).is_some_and(|peer| !peer.links.is_empty())
    }

    /// Sends a message: as a datagram where that may be and costs less, else over a link, a new one if need be.
    pub(super) fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        if manner(&message) != Manner::Loose {
            return self.send_in_order(node, message);
        }
        let peer = self.peer(node);
        let (address, is_linked) = (peer.address.clone(), !peer.links.is_empty());
        let sent = self.datagrams.send_loose(node, address.as_deref(), message, is_linked);
        if let Err(message) = sent {
            self.send_in_order(node, message);
        }
    }

    fn send_in_order(&mut self, node: &NodeName, message: DaemonToDaemon) {
        let peer = self.peer(node);
        if peer.waiting.len() < WAITING_MAX {
            peer.waiting.push_back(message);
        }
        self.go_on(node);
    }

    /// Sends what waits: over a link if there is one, else the first of it as a datagram while a link is being made.
    fn go_on(&mut self, node: &NodeName) {
        let are_numbered = self.datagrams.are_in_use();
        let peer = self.peer(node);
        peer.send_over_links(node, are_numbered);
        if peer.links.is_empty() && (peer.ahead.is_some() || !peer.waiting.is_empty()) {
            self.send_ahead(node);
            self.dial(node);
        }
    }

    /// Sends the first message that waits for a link as a datagram, where those are known to arrive.
    fn send_ahead(&mut self, node: &NodeName) {
        if !self.datagrams.is_proven(node) {
            return;
        }
        let Some(peer) = self.peers.get_mut(node).filter(|peer| peer.ahead.is_none()) else {
            return;
        };
        let (Some(first), Some(address)) = (peer.waiting.front(), peer.address.as_deref()) else {
            return;
        };
        let told = Telling {
            ordinal: Some(peer.outgoing.peek()),
            message: first,
        };
        let members = members(first, &self.own);
        let Some(datagram) = self.datagrams.send_in_order(node, address, told, members) else {
            return;
        };
        let number = peer.outgoing.take().number;
        peer.ahead = peer.waiting.pop_front().map(|message| Ahead {
            number,
            message,
            datagram: Some(datagram),
        });
    }

    /// What became of a datagram; what was not confirmed goes over a link.
    pub(super) fn on_sent(&mut self, sent: Sent) -> Option<Turn> {
        let Sent {
            node,
            carrier,
            number,
            message,
            outcome,
            ..
        } = sent;
        let is_linked = self.is_linked(&node);
        let turn = self.datagrams.on_sent((&node, carrier), &outcome, is_linked);
        let peer = self.peer(&node);
        let ahead = peer.ahead.as_mut().filter(|ahead| ahead.datagram == Some(number));
        match (outcome, ahead, message) {
            (Ok(()), ahead, _) => {
                if ahead.is_some() {
                    peer.ahead = None;
                }
                self.go_on(&node);
                self.link_again(&node);
            }
            (Err(_), Some(ahead), _) => {
                ahead.datagram = None;
                self.go_on(&node);
            }
            (Err(_), None, Some(message)) => self.send_in_order(&node, *message),
            // It went over a link meanwhile, or was given up with its node.
            (Err(_), None, None) => {}
        }
        turn
    }

    /// What another daemon said, and what waited for it: the messages whose turn it is.
    pub(super) fn on_told(&mut self, node: &NodeName, told: Told) -> Vec<DaemonToDaemon> {
        let Some(ordinal) = told.ordinal else {
            return vec![told.message];
        };
        let freed = self
            .peer(node)
            .incoming
            .on_message(ordinal, told.message, Instant::now());
        self.heed(node, freed)
    }

    /// Messages that waited for others in vain.
    pub(super) fn on_beat(&mut self) -> Vec<(NodeName, DaemonToDaemon)> {
        self.datagrams.on_beat();
        let now = Instant::now();
        let late = self
            .peers
            .iter_mut()
            .map(|(node, peer)| (node.clone(), peer.incoming.on_time(now)));
        let mut messages = Vec::new();
        for (node, freed) in late.collect::<Vec<_>>() {
            let freed = self.heed(&node, freed);
            messages.extend(freed.into_iter().map(|message| (node.clone(), message)));
        }
        messages
    }

    /// A message that is missing for good is as if its link had broken, which both sides then see.
    fn heed(&mut self, node: &NodeName, freed: Freed<DaemonToDaemon>) -> Vec<DaemonToDaemon> {
        if freed.is_broken {
            tracing::warn!(%node, "a message of this node is missing: its links are made anew");
            for (_, sender) in &self.peer(node).links {
                sender.abort();
            }
        }
        freed.messages
    }

    /// A datagram came from this node.
    pub(super) fn on_heard(&mut self, node: &NodeName, carrier: Carrier) {
        self.link_again(node);
        self.datagrams.on_heard(node, carrier);
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

    /// How several nodes that are told the same by this one are reached, and the numbers behind it: bytes to each, the
    /// service, the reason.
    pub(super) fn group_way(&self, nodes: &[NodeName], message: &DaemonToDaemon) -> (u64, Service, String) {
        let told = Telling { ordinal: None, message };
        let bytes = say(&self.own, told, PAYLOAD_LENGTH_MAX).map_or(0, |bytes| bytes.len());
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
            return peer.give_up_all();
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
            let told = Telling {
                ordinal: None,
                message: &message,
            };
            if sender.try_send(&told).is_ok() {
                listen_as(role, sender, receiver, link, &events).await;
            }
        });
    }

    pub(super) fn on_stranger_dialled(&mut self, address: &str) {
        self.strangers.remove(address);
    }

    pub(super) fn on_linked(&mut self, link: LinkId, node: &NodeName, sender: Sender) {
        let peer = self.peer(node);
        peer.is_dialling = false;
        peer.was_linked = true;
        if peer.links.len() >= LINKS_MAX {
            let (_, oldest) = peer.links.remove(0);
            oldest.abort();
        }
        // The node may have lost what is on its other links, with its former life.
        if !peer.links.is_empty() {
            peer.give_up_sent();
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
        peer.give_up_sent();
        peer.links.is_empty()
    }

    pub(super) fn on_dial_failed(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.is_dialling = false;
            if peer.links.is_empty() {
                peer.give_up_all();
            }
        }
    }

    /// Drops the links to a node that is taken for dead.
    pub(super) fn drop_links(&mut self, node: &NodeName) {
        if let Some(peer) = self.peers.get_mut(node) {
            for (_, sender) in peer.links.drain(..) {
                sender.abort();
            }
            peer.give_up_all();
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
        let event = match receiver.recv::<Told>().await {
            Ok(told) => Event::PeerSaid {
                node: node.clone(),
                told,
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
