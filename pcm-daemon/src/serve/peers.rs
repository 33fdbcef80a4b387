//! Links to other daemons: dialled when there is something to say, accepted when others dial. The newest link to a
//! node is the one that is spoken on; all of them are listened to. Messages to a node out of reach wait for its link
//! for a short while and are dropped when it cannot be made: whoever sent them says again what matters when the link
//! is there.

use super::event::{Event, LinkId};
use super::start::next_link;
use pcm_fabric::{Endpoint, Link, Receiver, RecvError, Sender};
use pcm_proto::control::ControlToDaemon;
use pcm_proto::handshake::Role;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, BTreeSet};
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
    waiting: Vec<DaemonToDaemon>,
    is_dialling: bool,
}

/// All links to other daemons.
#[derive(Debug)]
pub(super) struct Peers {
    endpoint: Endpoint,
    events: mpsc::Sender<Event>,
    peers: BTreeMap<NodeName, Peer>,
    links: Arc<AtomicU64>,
    /// Addresses that are being dialled without knowing whose they are.
    strangers: BTreeSet<String>,
}

impl Peers {
    pub(super) fn new(endpoint: Endpoint, events: mpsc::Sender<Event>, links: Arc<AtomicU64>) -> Self {
        Self {
            endpoint,
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

    /// Sends a message, over a new link if need be.
    pub(super) fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        let peer = self.peers.entry(node.clone()).or_default();
        while let Some((link, sender)) = peer.links.last() {
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
            peer.waiting.push(message);
        }
        self.dial(node);
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
        if peer.links.len() >= LINKS_MAX {
            let (_, oldest) = peer.links.remove(0);
            oldest.abort();
        }
        peer.links.push((link, sender));
        for message in std::mem::take(&mut peer.waiting) {
            self.send(node, message);
        }
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
        }
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
