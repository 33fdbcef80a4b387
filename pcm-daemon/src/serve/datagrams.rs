//! Messages to other daemons without a connection: which may go so, to whom they can, and whether they were confirmed.
//! What is not confirmed comes back to its sender, which has connections; nothing is lost here in silence.

#[cfg(test)]
mod tests;

use super::carriers::{Carrier, Carriers, To};
use super::datagram_way::{Turn, Way};
use super::event::Event;
use pcm_fabric::ClusterKey;
use pcm_fabric::datagram::{ExchangeError, MESSAGE_LENGTH_MAX, PACKET_LENGTH_SAFE, key_epoch};
use pcm_fabric::hybrid::{Choice, Service, Tuning};
use pcm_fabric::infiniband::UdAddress;
use pcm_proto::fabric::{FabricReport, FabricWish, TUNING_FILE, Telling, say};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{Answer, CoordinatorToNode, DaemonToDaemon, JobMessage, Question};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;

/// A message that is not confirmed by then goes over a connection. Far above a round trip of a loaded machine, and
/// below what the failure detector waits before it asks others.
const CONFIRM_WITHIN: Duration = Duration::from_millis(500);

/// The same for a message that others wait behind.
const CONFIRM_IN_ORDER_WITHIN: Duration = Duration::from_millis(250);

/// What is said of a node that is connected and confirms no datagrams.
const SILENT: &str = "it confirms no datagrams while it can be connected to: UDP may be blocked on the way";
const SILENT_RDMA: &str =
    "it confirms no datagrams while it can be connected to: InfiniBand or RoCE may not lead there";

/// Nodes without a device that are named; of the others only the count is said.
const NAMED_MAX: usize = 4;

/// Where a connection is there already, it is as fast for everything that takes more than one packet.
const BESIDE_LINK_MAX: usize = PACKET_LENGTH_SAFE - 132;

/// How a message is to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It may be lost, come twice, or overtake others.
    Loose,
    /// It is numbered: it comes once in each life of its receiver, and in its order.
    InOrder,
    /// The same, and another life of its receiver does not get it again: only a connection can carry it.
    Once,
}

/// How a message is to arrive, by what it is.
pub(super) fn manner(message: &DaemonToDaemon) -> Manner {
    match message {
        DaemonToDaemon::Membership(_) | DaemonToDaemon::Report(_) | DaemonToDaemon::Agent(_) => Manner::Loose,
        DaemonToDaemon::Job { .. } => Manner::InOrder,
        DaemonToDaemon::Ask { question, .. } => match **question {
            Question::Ping
            | Question::Report
            | Question::JobNumber
            | Question::Jobs
            | Question::Ranks { .. }
            | Question::Look { .. }
            | Question::Events { .. } => Manner::Loose,
            Question::Trace { .. } | Question::Control(_) | Question::EndJobs | Question::Quit => Manner::Once,
        },
        DaemonToDaemon::Answer { answer, .. } => match **answer {
            Answer::Pong { .. }
            | Answer::Report(_)
            | Answer::JobNumber(_)
            | Answer::Jobs(_)
            | Answer::Ranks(_)
            | Answer::Look(_)
            | Answer::Events(_) => Manner::Loose,
            Answer::Trace(_) | Answer::Control(_) | Answer::Done => Manner::Once,
        },
    }
}

/// A message on its way as a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

/// What became of it.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) node: NodeName,
    pub(super) carrier: Carrier,
    pub(super) number: Number,
    /// The message, where its sender did not keep it.
    pub(super) message: Option<Box<DaemonToDaemon>>,
    pub(super) outcome: Result<(), ExchangeError>,
    /// Until that was known.
    pub(super) took: Duration,
}

/// Whether InfiniBand or RoCE leads to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// No device is in use here or there.
    NoDevice,
    /// It confirms nothing there.
    Silent,
    /// As far as is known.
    There,
}

/// The ways to one node, and where one of them leads.
#[derive(Debug, Default)]
struct Ways {
    udp: Way,
    rdma: Way,
    ud: Option<UdAddress>,
}

impl Ways {
    fn by(&mut self, carrier: Carrier) -> &mut Way {
        match carrier {
            Carrier::Rdma => &mut self.rdma,
            Carrier::Udp => &mut self.udp,
        }
    }
}

/// The datagram service of this daemon.
#[derive(Debug)]
pub(super) struct Datagrams {
    own: NodeName,
    carriers: Carriers,
    /// Why nothing better is in use, wherever the message goes.
    why_not: Vec<String>,
    tuning: Tuning,
    tuning_file: PathBuf,
    tuned_at: Option<SystemTime>,
    epoch: u32,
    ways: BTreeMap<NodeName, Ways>,
    events: mpsc::Sender<Event>,
    count: u64,
}

impl Datagrams {
    /// Opens the port beside the connections', and a device. An error means that what the owner insists on cannot be
    /// had.
    pub(super) async fn open(
        own: NodeName,
        wish: FabricWish,
        beside: (&ClusterKey, SocketAddr),
        cluster_dir: &Path,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, String> {
        let epoch = key_epoch(SystemTime::now());
        let (carriers, why_not) = Carriers::open(wish, beside, epoch).await?;
        Ok(Self::over(carriers, own, (epoch, why_not), cluster_dir, events))
    }

    fn over(
        carriers: Carriers,
        own: NodeName,
        (epoch, why_not): (u32, Vec<String>),
        cluster_dir: &Path,
        events: mpsc::Sender<Event>,
    ) -> Self {
        carriers.listen(&own, &events);
        let mut datagrams = Self {
            own,
            carriers,
            why_not,
            tuning: Tuning::default(),
            tuning_file: cluster_dir.join(TUNING_FILE),
            tuned_at: None,
            epoch,
            ways: BTreeMap::new(),
            events,
            count: 0,
        };
        if datagrams.are_in_use() {
            datagrams.look_at_tuning();
        }
        datagrams
    }

    /// Where other daemons reach this one over InfiniBand or RoCE.
    pub(super) fn ud_address(&self) -> Option<UdAddress> {
        self.carriers.ud_address()
    }

    /// Where a node is reached over InfiniBand or RoCE from now on.
    pub(super) fn set_ud(&mut self, node: &NodeName, ud: Option<UdAddress>) {
        if !self.carriers.has(Carrier::Rdma) {
            return;
        }
        let ways = self.ways.entry(node.clone()).or_default();
        if ways.ud != ud {
            (ways.ud, ways.rdma) = (ud, Way::default());
        }
    }

    /// Whether InfiniBand or RoCE leads to a node.
    pub(super) fn rdma_reach(&self, node: &NodeName) -> Reach {
        match self.ways.get(node) {
            Some(ways) if self.carriers.has(Carrier::Rdma) && ways.ud.is_some() => match ways.rdma.is_silent() {
                true => Reach::Silent,
                false => Reach::There,
            },
            _ => Reach::NoDevice,
        }
    }

    /// What carries this node's messages. Datagrams that no other node confirms are none.
    pub(super) fn report(&self) -> FabricReport {
        let first = [Carrier::Rdma, Carrier::Udp]
            .into_iter()
            .find(|way| self.carriers.has(*way));
        let used: BTreeSet<Carrier> = match self.ways.len() {
            0 => first.into_iter().collect(),
            _ => self.ways.values().filter_map(|ways| self.carrier(ways)).collect(),
        };
        let used: Vec<&str> = used.into_iter().map(Carrier::name).collect();
        FabricReport {
            datagrams: if used.is_empty() {
                "none".to_owned()
            } else {
                used.join("+")
            },
            connections: "tcp".to_owned(),
            copies: String::new(),
            why_not: self
                .silent()
                .chain(self.without_device())
                .chain(self.why_not.iter().cloned())
                .collect(),
        }
    }

    /// Why one node or another is not reached over what is there.
    fn silent(&self) -> impl Iterator<Item = String> + '_ {
        self.ways.iter().flat_map(|(node, ways)| {
            let udp = ways.udp.is_silent().then(|| format!("udp to {node}: {SILENT}"));
            let rdma = ways.rdma.is_silent().then(|| format!("rdma to {node}: {SILENT_RDMA}"));
            udp.into_iter().chain(rdma)
        })
    }

    /// Who has no device, where this node has one.
    fn without_device(&self) -> Option<String> {
        let without = self.ways.iter().filter(|(_, ways)| ways.ud.is_none());
        let names: Vec<&str> = without.map(|(node, _)| node.as_str()).collect();
        if names.is_empty() || !self.carriers.has(Carrier::Rdma) {
            return None;
        }
        let named = names[..names.len().min(NAMED_MAX)].join(" ");
        let more = match names.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} others"),
        };
        Some(format!("rdma: no device is in use on {named}{more}"))
    }

    /// What carries datagrams there, as far as is known.
    fn carrier(&self, ways: &Ways) -> Option<Carrier> {
        if ways.rdma.carries() {
            return Some(Carrier::Rdma);
        }
        (self.carriers.has(Carrier::Udp) && !ways.udp.is_silent()).then_some(Carrier::Udp)
    }

    /// What carries small messages to a node, and what is to be said of a turn of one of the ways there.
    pub(super) fn news(&self, node: &NodeName, carrier: Carrier, turn: Turn) -> Option<(&'static str, &'static str)> {
        let ways = self.ways.get(node)?;
        let by = self.carrier(ways).map_or("connections", Carrier::name);
        let reason = match (turn, carrier) {
            (Turn::First, Carrier::Rdma) => "a datagram over InfiniBand or RoCE was confirmed",
            // That is what is expected of UDP.
            (Turn::First, Carrier::Udp) => return None,
            (Turn::Silent, Carrier::Rdma) => SILENT_RDMA,
            (Turn::Silent, Carrier::Udp) => SILENT,
            (Turn::Heard, _) => "its datagrams arrive again",
        };
        Some((by, reason))
    }

    /// Turns to new keys and to new costs when it is time.
    pub(super) fn on_beat(&mut self) {
        if !self.are_in_use() {
            return;
        }
        self.look_at_tuning();
        let epoch = key_epoch(SystemTime::now());
        if epoch != self.epoch {
            self.epoch = epoch;
            let carriers = self.carriers.clone();
            tokio::spawn(async move { carriers.turn(epoch).await });
        }
    }

    /// Reads what `pcmctl doctor --tune` wrote, if it did so lately.
    fn look_at_tuning(&mut self) {
        let written_at = std::fs::metadata(&self.tuning_file).and_then(|metadata| metadata.modified());
        let Ok(written_at) = written_at else { return };
        if self.tuned_at.replace(written_at) == Some(written_at) {
            return;
        }
        let text = std::fs::read(&self.tuning_file).unwrap_or_default();
        match serde_json::from_slice(&text) {
            Ok(tuning) => {
                self.tuning = tuning;
                tracing::info!(?tuning, "what exchanges cost on this fabric");
            }
            Err(error) => {
                tracing::warn!(file = %self.tuning_file.display(), %error, "this is no tuning: run `pcmctl doctor --tune` again");
            }
        }
    }

    /// What costs less for this many bytes to each of so many nodes, without connections to them.
    pub(super) fn choose(&self, members: usize, bytes: usize) -> Choice {
        self.tuning.choose(members, bytes)
    }

    /// Whether any message may go as one.
    pub(super) fn are_in_use(&self) -> bool {
        self.carriers.are_there()
    }

    /// Whether datagrams to this node are known to arrive.
    pub(super) fn is_proven(&self, node: &NodeName) -> bool {
        let Some(ways) = self.ways.get(node) else { return false };
        let by_udp = self.carriers.has(Carrier::Udp) && ways.udp.is_proven();
        by_udp || (ways.ud.is_some() && ways.rdma.is_proven())
    }

    /// Sends a message that keeps no order, or gives it back where a connection is the better way.
    pub(super) fn send_loose(
        &mut self,
        node: &NodeName,
        address: Option<&str>,
        message: DaemonToDaemon,
        is_linked: bool,
    ) -> Result<Number, DaemonToDaemon> {
        let max = if is_linked { BESIDE_LINK_MAX } else { MESSAGE_LENGTH_MAX };
        let told = Telling {
            ordinal: None,
            message: &message,
        };
        match address.and_then(|address| self.packed(node, address, told, (1, max))) {
            Some((to, bytes)) => Ok(self.spawn(node, to, bytes, Some(Box::new(message)))),
            None => Err(message),
        }
    }

    /// Sends a message that keeps its order to a node without a connection, or nothing where a connection is the better
    /// way. Its sender keeps it.
    pub(super) fn send_in_order(
        &mut self,
        node: &NodeName,
        address: &str,
        told: Telling<'_>,
        members: usize,
    ) -> Option<Number> {
        if manner(told.message) == Manner::Once {
            return None;
        }
        let (to, bytes) = self.packed(node, address, told, (members, MESSAGE_LENGTH_MAX))?;
        Some(self.spawn(node, to, bytes, None))
    }

    /// Where the message goes and its bytes, if it should be a datagram.
    fn packed(
        &mut self,
        node: &NodeName,
        address: &str,
        told: Telling<'_>,
        (members, max): (usize, usize),
    ) -> Option<(To, Vec<u8>)> {
        if !self.are_in_use() {
            return None;
        }
        let bytes = say(&self.own, told, max).ok()?;
        let is_beside_link = max == BESIDE_LINK_MAX;
        let is_cheaper = is_beside_link || self.tuning.choose(members, bytes.len()).service == Service::Datagram;
        let to = is_cheaper.then(|| self.way(node, address, manner(told.message)))??;
        Some((to, bytes))
    }

    /// The better one of the ways that may be taken. Others wait behind a message that keeps its order, so it only takes
    /// one that is known to work.
    fn way(&mut self, node: &NodeName, address: &str, manner: Manner) -> Option<To> {
        let to_udp = || address.parse().ok().map(To::Udp);
        let udp = self.carriers.has(Carrier::Udp).then(to_udp).flatten();
        let ways = self.ways.entry(node.clone()).or_default();
        let (rdma, now) = (ways.ud.map(To::Rdma), Instant::now());
        let may = |to: &To| {
            let way = ways.by(to.carrier());
            (manner == Manner::Loose || way.is_proven()) && way.take_leave(now)
        };
        [rdma, udp].into_iter().flatten().find(may)
    }

    fn spawn(&mut self, node: &NodeName, to: To, bytes: Vec<u8>, message: Option<Box<DaemonToDaemon>>) -> Number {
        self.count += 1;
        let number = Number(self.count);
        let within = if message.is_some() {
            CONFIRM_WITHIN
        } else {
            CONFIRM_IN_ORDER_WITHIN
        };
        let (carriers, events, node) = (self.carriers.clone(), self.events.clone(), node.clone());
        tokio::spawn(async move {
            let since = Instant::now();
            let outcome = carriers.exchange(to, bytes, within).await;
            let sent = Sent {
                node,
                carrier: to.carrier(),
                number,
                message,
                outcome,
                took: since.elapsed(),
            };
            let _ = events.send(Event::DatagramSent(Box::new(sent))).await;
        });
        number
    }

    /// A datagram came from this node.
    pub(super) fn on_heard(&mut self, node: &NodeName, carrier: Carrier) {
        self.ways.entry(node.clone()).or_default().by(carrier).on_heard();
    }

    /// A datagram to this node was confirmed or not.
    pub(super) fn on_sent(
        &mut self,
        (node, carrier): (&NodeName, Carrier),
        outcome: &Result<(), ExchangeError>,
        is_linked: bool,
    ) -> Option<Turn> {
        let way = self.ways.entry(node.clone()).or_default().by(carrier);
        match outcome {
            Ok(()) => way.on_confirmed(),
            // Too much at once says nothing of the network.
            Err(ExchangeError::Refused(_)) => None,
            Err(ExchangeError::Failed(_) | ExchangeError::Stopped) => way.on_unconfirmed(Instant::now(), is_linked),
        }
    }

    /// The node is taken for dead; what comes back under its name is tried anew.
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.ways.remove(node);
    }
}

/// How many nodes are told the same as this one, from here.
pub(super) fn members(message: &DaemonToDaemon, own: &NodeName) -> usize {
    let DaemonToDaemon::Job { message, .. } = message else {
        return 1;
    };
    let JobMessage::ToNode(CoordinatorToNode::Start(order)) = &**message else {
        return 1;
    };
    let place = order.tree.iter().position(|node| node == own).unwrap_or(0);
    pcm_core::job::tree::children(place, order.tree.len()).len().max(1)
}
