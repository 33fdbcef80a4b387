//! Messages to other daemons without a link: the transport of each, and its outcome. A message that is not confirmed
//! goes back to its sender, which has links; none is lost here in silence.

#[cfg(test)]
mod tests;

use super::delivery::Delivery;
use super::event::{ExchangeId, PeerEvent, RdmaReach, SentDatagram};
use super::path::{DatagramPath, PathChange};
use super::transports::{Destination, Transport, TransportError, Transports};
use crate::datagram::{ExchangeError, MESSAGE_LENGTH_MAX, PACKET_LENGTH_SAFE, key_epoch};
use crate::hybrid::{Choice, Service, Tuning};
use crate::infiniband::UdAddress;
use crate::key::ClusterKey;
use pcm_proto::envelope::{EnvelopeRef, encode_datagram};
use pcm_proto::fabric::{FabricReport, FabricWish};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;

/// An unordered message that is not confirmed by then goes over a link. Far above a round trip of a loaded machine, and
/// below the time after which the failure detector asks others.
const CONFIRM_WITHIN: Duration = Duration::from_millis(500);

/// The same for an ordered message: others wait behind it.
const CONFIRM_ORDERED_WITHIN: Duration = Duration::from_millis(250);

/// Reasons a silent path is reported with.
const SILENT_UDP: &str = "it confirms no datagrams while it can be connected to: UDP may be blocked on the way";
const SILENT_RDMA: &str =
    "it confirms no datagrams while it can be connected to: InfiniBand or RoCE may not lead there";

/// Nodes without a device that a report names; it counts the others.
const NAMED_MAX: usize = 4;

/// With a link, only a message of one packet is faster as a datagram.
const BESIDE_LINK_MAX: usize = PACKET_LENGTH_SAFE - 132;

/// The paths to one node.
#[derive(Debug, Default)]
struct Paths {
    udp: DatagramPath,
    rdma: DatagramPath,
    ud: Option<UdAddress>,
}

impl Paths {
    fn by(&mut self, transport: Transport) -> &mut DatagramPath {
        match transport {
            Transport::Rdma => &mut self.rdma,
            Transport::Udp => &mut self.udp,
        }
    }
}

/// The datagrams of this daemon.
#[derive(Debug)]
pub(super) struct Datagrams {
    own: NodeName,
    transports: Transports,
    /// Why a better transport is not in use, to whatever node.
    why_not: Vec<String>,
    tuning: Tuning,
    epoch: u32,
    paths: BTreeMap<NodeName, Paths>,
    events: mpsc::Sender<PeerEvent>,
    exchanges: u64,
}

impl Datagrams {
    /// Opens the UDP port with the number of the TCP port, and a device.
    pub(super) async fn open(
        own: NodeName,
        wish: FabricWish,
        (key, port): (&ClusterKey, SocketAddr),
        events: mpsc::Sender<PeerEvent>,
    ) -> Result<Self, TransportError> {
        let epoch = key_epoch(SystemTime::now());
        let (transports, why_not) = Transports::open(wish, (key, port), epoch).await?;
        Ok(Self::over(transports, own, (epoch, why_not), events))
    }

    fn over(
        transports: Transports,
        own: NodeName,
        (epoch, why_not): (u32, Vec<String>),
        events: mpsc::Sender<PeerEvent>,
    ) -> Self {
        transports.listen(&own, &events);
        Self {
            own,
            transports,
            why_not,
            tuning: Tuning::default(),
            epoch,
            paths: BTreeMap::new(),
            events,
            exchanges: 0,
        }
    }

    /// The address of this daemon over InfiniBand or RoCE.
    pub(super) fn ud_address(&self) -> Option<UdAddress> {
        self.transports.ud_address()
    }

    /// Sets the address of a node over InfiniBand or RoCE.
    pub(super) fn set_ud(&mut self, node: &NodeName, ud: Option<UdAddress>) {
        if !self.transports.has(Transport::Rdma) {
            return;
        }
        let paths = self.paths.entry(node.clone()).or_default();
        if paths.ud != ud {
            (paths.ud, paths.rdma) = (ud, DatagramPath::default());
        }
    }

    pub(super) fn rdma_reach(&self, node: &NodeName) -> RdmaReach {
        match self.paths.get(node) {
            Some(paths) if self.transports.has(Transport::Rdma) && paths.ud.is_some() => match paths.rdma.is_silent() {
                true => RdmaReach::Silent,
                false => RdmaReach::Reachable,
            },
            _ => RdmaReach::NoDevice,
        }
    }

    /// The transports in use. Datagrams that no other node confirms do not count.
    pub(super) fn report(&self) -> FabricReport {
        let first = [Transport::Rdma, Transport::Udp]
            .into_iter()
            .find(|transport| self.transports.has(*transport));
        let used: BTreeSet<Transport> = match self.paths.len() {
            0 => first.into_iter().collect(),
            _ => self.paths.values().filter_map(|paths| self.transport(paths)).collect(),
        };
        let used: Vec<&str> = used.into_iter().map(Transport::name).collect();
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

    fn silent(&self) -> impl Iterator<Item = String> + '_ {
        self.paths.iter().flat_map(|(node, paths)| {
            let udp = || format!("udp to {node}: {SILENT_UDP}");
            let rdma = || format!("rdma to {node}: {SILENT_RDMA}");
            let udp = paths.udp.is_silent().then(udp);
            udp.into_iter().chain(paths.rdma.is_silent().then(rdma))
        })
    }

    /// The nodes without a device, where this node has one.
    fn without_device(&self) -> Option<String> {
        let without = self.paths.iter().filter(|(_, paths)| paths.ud.is_none());
        let names: Vec<&str> = without.map(|(node, _)| node.as_str()).collect();
        if names.is_empty() || !self.transports.has(Transport::Rdma) {
            return None;
        }
        let named = names[..names.len().min(NAMED_MAX)].join(" ");
        let more = match names.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} others"),
        };
        Some(format!("rdma: no device is in use on {named}{more}"))
    }

    /// The transport that carries datagrams there, as far as is known.
    fn transport(&self, paths: &Paths) -> Option<Transport> {
        if paths.rdma.carries() {
            return Some(Transport::Rdma);
        }
        (self.transports.has(Transport::Udp) && !paths.udp.is_silent()).then_some(Transport::Udp)
    }

    /// What carries small messages to a node, as people know it.
    pub(super) fn carried_by(&self, node: &NodeName) -> &'static str {
        let paths = self.paths.get(node);
        let transport = paths.map_or_else(|| self.transport(&Paths::default()), |paths| self.transport(paths));
        transport.map_or("connections", Transport::name)
    }

    pub(super) fn use_tuning(&mut self, tuning: Tuning) {
        self.tuning = tuning;
    }

    /// Changes to new keys when it is time.
    pub(super) fn on_tick(&mut self) {
        if !self.are_in_use() {
            return;
        }
        let epoch = key_epoch(SystemTime::now());
        if epoch != self.epoch {
            self.epoch = epoch;
            let transports = self.transports.clone();
            tokio::spawn(async move { transports.change_keys(epoch).await });
        }
    }

    /// The cheaper service for this many bytes to each of so many nodes, without links to them.
    pub(super) fn choose(&self, members: usize, bytes: usize) -> Choice {
        self.tuning.choose(members, bytes)
    }

    /// Whether any transport is open.
    pub(super) fn are_in_use(&self) -> bool {
        self.transports.is_any_open()
    }

    /// Whether datagrams to this node are known to arrive.
    pub(super) fn is_proven(&self, node: &NodeName) -> bool {
        let Some(paths) = self.paths.get(node) else {
            return false;
        };
        let by_udp = self.transports.has(Transport::Udp) && paths.udp.is_proven();
        by_udp || (paths.ud.is_some() && paths.rdma.is_proven())
    }

    /// Sends an unordered message, or returns it where a link is the better choice.
    pub(super) fn send_unordered(
        &mut self,
        node: &NodeName,
        (address, is_linked): (Option<&str>, bool),
        message: DaemonToDaemon,
        now: Instant,
    ) -> Result<ExchangeId, DaemonToDaemon> {
        let max = if is_linked { BESIDE_LINK_MAX } else { MESSAGE_LENGTH_MAX };
        let envelope = EnvelopeRef {
            ordinal: None,
            message: &message,
        };
        match address.and_then(|address| self.packed((node, address), envelope, (1, max), now)) {
            Some((to, bytes)) => Ok(self.exchange(node, to, bytes, Some(Box::new(message)))),
            None => Err(message),
        }
    }

    /// Sends an ordered message to a node without a link; none where a link is the better choice. Its sender keeps it.
    pub(super) fn send_ordered(
        &mut self,
        node: &NodeName,
        address: &str,
        (envelope, members): (EnvelopeRef<'_>, usize),
        now: Instant,
    ) -> Option<ExchangeId> {
        if Delivery::of(envelope.message) == Delivery::OrderedOnce {
            return None;
        }
        let (to, bytes) = self.packed((node, address), envelope, (members, MESSAGE_LENGTH_MAX), now)?;
        Some(self.exchange(node, to, bytes, None))
    }

    /// The destination of a message and its bytes, if it should be a datagram.
    fn packed(
        &mut self,
        (node, address): (&NodeName, &str),
        envelope: EnvelopeRef<'_>,
        (members, max): (usize, usize),
        now: Instant,
    ) -> Option<(Destination, Vec<u8>)> {
        if !self.are_in_use() {
            return None;
        }
        let bytes = encode_datagram(&self.own, envelope, max).ok()?;
        let is_beside_link = max == BESIDE_LINK_MAX;
        let is_cheaper = is_beside_link || self.choose(members, bytes.len()).service == Service::Datagram;
        let delivery = Delivery::of(envelope.message);
        let to = is_cheaper.then(|| self.destination((node, address), delivery, now))??;
        Some((to, bytes))
    }

    /// The best path that may be used. An ordered message holds up others, so it takes only a path that is proven.
    fn destination(
        &mut self,
        (node, address): (&NodeName, &str),
        delivery: Delivery,
        now: Instant,
    ) -> Option<Destination> {
        let to_udp = || address.parse().ok().map(Destination::Udp);
        let udp = self.transports.has(Transport::Udp).then(to_udp).flatten();
        let paths = self.paths.entry(node.clone()).or_default();
        let rdma = paths.ud.map(Destination::Rdma);
        let may_use = |to: &Destination| {
            let path = paths.by(to.transport());
            (delivery == Delivery::Unordered || path.is_proven()) && path.try_use(now)
        };
        [rdma, udp].into_iter().flatten().find(may_use)
    }

    fn exchange(
        &mut self,
        node: &NodeName,
        to: Destination,
        bytes: Vec<u8>,
        message: Option<Box<DaemonToDaemon>>,
    ) -> ExchangeId {
        self.exchanges += 1;
        let exchange = ExchangeId(self.exchanges);
        let within = if message.is_some() {
            CONFIRM_WITHIN
        } else {
            CONFIRM_ORDERED_WITHIN
        };
        let (transports, events, node) = (self.transports.clone(), self.events.clone(), node.clone());
        tokio::spawn(async move {
            let since = Instant::now();
            let outcome = transports.exchange(to, bytes, within).await;
            let sent = SentDatagram {
                node,
                transport: to.transport(),
                exchange,
                message,
                outcome,
                took: since.elapsed(),
            };
            // Without a receiver the daemon ends.
            let _ = events.send(PeerEvent::DatagramSent(Box::new(sent))).await;
        });
        exchange
    }

    /// A datagram arrived from this node.
    pub(super) fn on_received(&mut self, node: &NodeName, transport: Transport) {
        self.paths.entry(node.clone()).or_default().by(transport).on_received();
    }

    /// A datagram to this node, sent then, is confirmed now or not.
    pub(super) fn on_sent(
        &mut self,
        (node, transport): (&NodeName, Transport),
        outcome: &Result<(), ExchangeError>,
        is_linked: bool,
        (sent, now): (Instant, Instant),
    ) -> Option<PathChange> {
        let path = self.paths.entry(node.clone()).or_default().by(transport);
        match outcome {
            Ok(()) => path.on_confirmed(),
            // Too many messages at once say nothing about the network.
            Err(ExchangeError::Refused(_)) => None,
            Err(ExchangeError::Failed(_) | ExchangeError::Stopped) => path.on_unconfirmed((sent, now), is_linked),
        }
    }

    /// Forgets the paths to a node that is taken for dead.
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.paths.remove(node);
    }
}

/// Why a path changed, for a person; none for UDP that is confirmed, as is expected of it.
pub(super) fn change_reason(transport: Transport, change: PathChange) -> Option<&'static str> {
    match (change, transport) {
        (PathChange::Confirmed, Transport::Rdma) => Some("a datagram over InfiniBand or RoCE was confirmed"),
        (PathChange::Confirmed, Transport::Udp) => None,
        (PathChange::Silent, Transport::Rdma) => Some(SILENT_RDMA),
        (PathChange::Silent, Transport::Udp) => Some(SILENT_UDP),
        (PathChange::Recovered, _) => Some("its datagrams arrive again"),
    }
}
