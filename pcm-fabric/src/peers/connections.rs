//! Dials daemons, accepts their links and reads them: each link is a task that turns messages into events. Never
//! decides when to dial or what to send.

use super::event::{LinkId, PeerEvent};
use crate::accept::Listener;
use crate::endpoint::Endpoint;
use crate::link::Link;
use crate::receiver::{Receiver, RecvError};
use crate::sender::Sender;
use pcm_proto::envelope::{Envelope, EnvelopeRef};
use pcm_proto::handshake::Role;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// A link is made in a millisecond; a node that needs longer than this is as good as out of reach.
const DIAL_DEADLINE: Duration = Duration::from_secs(2);

/// Makes links and reads them.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    endpoint: Endpoint,
    events: mpsc::Sender<PeerEvent>,
    links: Arc<AtomicU64>,
}

impl Connections {
    pub(super) fn new(endpoint: Endpoint, events: mpsc::Sender<PeerEvent>) -> Self {
        Self {
            endpoint,
            events,
            links: Arc::default(),
        }
    }

    /// Makes a link to a node at its address.
    pub(super) fn dial(&self, node: NodeName, address: String) {
        let this = self.clone();
        tokio::spawn(async move {
            let reason = match this.endpoint.connect(&address, DIAL_DEADLINE).await {
                Ok(link) if matches!(&link.peer().role, Role::Daemon { node: other } if *other == node) => {
                    let (sender, receiver) = link.split();
                    return this.read(node, sender, receiver).await;
                }
                Ok(link) => format!("{address} is {}", link.peer().role),
                Err(error) => error.to_string(),
            };
            this.report(PeerEvent::DialFailed { node, reason }).await;
        });
    }

    /// Makes a link to an unknown daemon at this address, and sends it a message first.
    pub(super) fn dial_address(&self, address: String, message: DaemonToDaemon) {
        let this = self.clone();
        tokio::spawn(async move {
            let dialled = this.endpoint.connect(&address, DIAL_DEADLINE).await;
            let dialled = dialled.inspect_err(|error| tracing::debug!(%address, %error, "no daemon was reached there"));
            this.report(PeerEvent::AddressDialled { address }).await;
            let Ok(link) = dialled else { return };
            let role = link.peer().role.clone();
            let Role::Daemon { node } = role else {
                return tracing::warn!(%role, "a daemon was expected at this address");
            };
            let (sender, receiver) = link.split();
            let envelope = EnvelopeRef {
                ordinal: None,
                message: &message,
            };
            if sender.try_send(&envelope).is_ok() {
                this.read(node, sender, receiver).await;
            }
        });
    }

    /// Accepts links: those of daemons are read, the others handed over.
    pub(super) async fn accept(self, mut listener: Listener, mut others: impl FnMut(Link)) {
        while let Some(link) = listener.accept().await {
            let Role::Daemon { node } = link.peer().role.clone() else {
                others(link);
                continue;
            };
            let this = self.clone();
            let (sender, receiver) = link.split();
            tokio::spawn(async move { this.read(node, sender, receiver).await });
        }
    }

    async fn read(&self, node: NodeName, sender: Sender, mut receiver: Receiver) {
        let link = LinkId(self.links.fetch_add(1, Ordering::Relaxed) + 1);
        let linked = PeerEvent::Linked {
            link,
            node: node.clone(),
            sender,
        };
        if !self.report(linked).await {
            return;
        }
        loop {
            let envelope = match receiver.recv::<Envelope>().await {
                Ok(envelope) => envelope,
                Err(RecvError::Message(error)) => {
                    tracing::warn!(%node, %error, "a message of another daemon is not understood");
                    continue;
                }
                Err(_) => break,
            };
            let node = node.clone();
            if !self.report(PeerEvent::Received { node, envelope }).await {
                return;
            }
        }
        self.report(PeerEvent::Lost { link, node }).await;
    }

    /// Returns whether the event will be handled.
    async fn report(&self, event: PeerEvent) -> bool {
        self.events.send(event).await.is_ok()
    }
}
