//! One other daemon: its address, its links, the messages that wait for a link, and the numbers of both directions.
//! Sends over the newest link. Never dials and never chooses a transport.

use super::delivery::Delivery;
use super::event::{ExchangeId, LinkId};
use super::sequence::{ReceiveSequence, Released, SendSequence};
use crate::sender::{SendError, Sender};
use pcm_proto::envelope::{EnvelopeRef, Ordinal};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::VecDeque;
use std::time::Instant;

/// Messages that wait for a link: a start order, its job's messages, and a burst of others.
const WAITING_MAX: usize = 1024;

/// Links to one node: two when both dialled at once, more only until old ones are noticed dead.
const LINKS_MAX: usize = 4;

/// Another daemon, as this one knows it.
#[derive(Debug)]
pub(super) struct Peer {
    address: Option<String>,
    /// The newest is the last.
    links: Vec<(LinkId, Sender)>,
    head: Option<Head>,
    waiting: VecDeque<DaemonToDaemon>,
    is_dialling: bool,
    was_linked: bool,
    sent: SendSequence,
    received: ReceiveSequence<DaemonToDaemon>,
}

/// The numbered message before the waiting ones: sent as a datagram, not confirmed.
#[derive(Debug)]
struct Head {
    number: u64,
    message: DaemonToDaemon,
    /// None once its exchange failed.
    exchange: Option<ExchangeId>,
}

impl Peer {
    /// Knows nothing; `boot` is this life of the own daemon.
    pub(super) fn new(boot: u64) -> Self {
        Self {
            address: None,
            links: Vec::new(),
            head: None,
            waiting: VecDeque::new(),
            is_dialling: false,
            was_linked: false,
            sent: SendSequence::new(boot),
            received: ReceiveSequence::default(),
        }
    }

    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    pub(super) fn set_address(&mut self, address: &str) {
        if self.address.as_deref() != Some(address) {
            self.address = Some(address.to_owned());
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        !self.links.is_empty()
    }

    /// Whether its link broke and should be made again when the node is heard.
    pub(super) fn lacks_link(&self) -> bool {
        self.was_linked && self.links.is_empty()
    }

    /// Whether a message waits for a link.
    pub(super) fn has_waiting(&self) -> bool {
        self.head.is_some() || !self.waiting.is_empty()
    }

    /// Appends a message to those that wait for a link.
    pub(super) fn enqueue(&mut self, message: DaemonToDaemon) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(message);
        }
    }

    /// Sends the waiting messages over the newest link that takes them.
    pub(super) fn send_over_links(&mut self, node: &NodeName) {
        while let Some((link, sender)) = self.links.last() {
            let (ordinal, message) = match (&self.head, self.waiting.front()) {
                (Some(head), _) => (Some(self.sent.ordinal_of(head.number)), &head.message),
                (None, Some(first)) if Delivery::of(first) == Delivery::Unordered => (None, first),
                (None, Some(first)) => (Some(self.sent.next_ordinal()), first),
                (None, None) => return,
            };
            match sender.try_send(&EnvelopeRef { ordinal, message }) {
                Ok(()) => self.on_sent_over_link(ordinal.is_some()),
                Err(SendError::Encode(error)) => {
                    tracing::error!(%node, %error, "a message cannot be encoded");
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
        if self.head.take().is_none() {
            self.waiting.pop_front();
            if is_numbered {
                self.sent.advance();
            }
        }
    }

    /// The first waiting message and the ordinal it would have, where no message before it is still unconfirmed.
    pub(super) fn next_for_datagram(&self) -> Option<(Ordinal, &DaemonToDaemon)> {
        let first = self.waiting.front().filter(|_| self.head.is_none())?;
        Some((self.sent.next_ordinal(), first))
    }

    /// The first waiting message was sent as a datagram.
    pub(super) fn on_sent_as_datagram(&mut self, exchange: ExchangeId) {
        let Some(message) = self.waiting.pop_front() else {
            return;
        };
        self.head = Some(Head {
            number: self.sent.advance().number,
            message,
            exchange: Some(exchange),
        });
    }

    /// A datagram was confirmed.
    pub(super) fn on_confirmed(&mut self, exchange: ExchangeId) {
        self.head.take_if(|head| head.exchange == Some(exchange));
    }

    /// A datagram was not confirmed. Returns whether its message has to go over a link now.
    pub(super) fn on_unconfirmed(&mut self, exchange: ExchangeId) -> bool {
        let head = self.head.as_mut().filter(|head| head.exchange == Some(exchange));
        head.is_some_and(|head| head.exchange.take().is_some())
    }

    /// Takes a message with its ordinal. Returns the messages to deliver.
    pub(super) fn on_message(
        &mut self,
        node: &NodeName,
        ordinal: Ordinal,
        message: DaemonToDaemon,
        now: Instant,
    ) -> Vec<DaemonToDaemon> {
        let released = self.received.on_message(ordinal, message, now);
        self.deliver(node, released)
    }

    /// Messages that are delivered without those before them.
    pub(super) fn on_time(&mut self, node: &NodeName, now: Instant) -> Vec<DaemonToDaemon> {
        let released = self.received.on_time(now);
        self.deliver(node, released)
    }

    /// After a gap the links are dropped, so that both sides send again what matters, as after any broken link.
    fn deliver(&self, node: &NodeName, released: Released<DaemonToDaemon>) -> Vec<DaemonToDaemon> {
        if released.has_gap {
            tracing::warn!(%node, "a message of this node is missing: its links are dropped and made again");
            self.links.iter().for_each(|(_, sender)| sender.abort());
        }
        released.messages
    }

    /// Begins to dial unless there is a link or a dial already. Returns the address.
    pub(super) fn begin_dial(&mut self) -> Option<String> {
        if self.is_dialling || self.is_linked() {
            return None;
        }
        self.is_dialling = self.address.is_some();
        if !self.is_dialling {
            self.give_up_all();
        }
        self.address.clone()
    }

    pub(super) fn on_dial_failed(&mut self) {
        self.is_dialling = false;
        if !self.is_linked() {
            self.give_up_all();
        }
    }

    pub(super) fn on_linked(&mut self, link: LinkId, sender: Sender) {
        self.is_dialling = false;
        self.was_linked = true;
        if self.links.len() >= LINKS_MAX {
            let (_, oldest) = self.links.remove(0);
            oldest.abort();
        }
        // The other links may lead to an earlier life of the node, which took their messages with it.
        if self.is_linked() {
            self.give_up_sent();
        }
        self.links.push((link, sender));
    }

    /// Messages may be lost with it, whether or not others are left.
    pub(super) fn on_lost(&mut self, link: LinkId) {
        self.links.retain(|(other, _)| *other != link);
        self.give_up_sent();
    }

    /// Drops all links and messages: the node is taken for dead.
    pub(super) fn drop_links(&mut self) {
        for sender in self.take_senders() {
            sender.abort();
        }
        self.give_up_all();
    }

    pub(super) fn take_senders(&mut self) -> impl Iterator<Item = Sender> + '_ {
        self.links.drain(..).map(|(_, sender)| sender)
    }

    /// The messages of a broken link may be lost.
    fn give_up_sent(&mut self) {
        let except = self.head.as_ref().map(|head| head.number);
        self.sent.give_up(except);
    }

    /// The node is out of reach.
    fn give_up_all(&mut self) {
        self.waiting.clear();
        self.head = None;
        self.sent.give_up(None);
    }
}
