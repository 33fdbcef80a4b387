//! The transports of datagrams: UDP, and InfiniBand or RoCE where there is a device. Opens the transports the owner
//! wishes for, says why the others are not in use, and receives. Never chooses between them.

use super::event::PeerEvent;
use crate::datagram::{Address, Datagram, DatagramLimits, DatagramService as _, ExchangeError};
use crate::infiniband::{self, UdAddress};
use crate::key::ClusterKey;
use pcm_proto::envelope::{DatagramBody, decode_datagram};
use pcm_proto::fabric::FabricWish;
use pcm_proto::ids::NodeName;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;

/// A transport of datagrams, the better one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// InfiniBand or RoCE.
    Rdma,
    Udp,
}

impl Transport {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Udp => "udp",
        }
    }
}

/// The address of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    Rdma(UdAddress),
    Udp(SocketAddr),
}

impl Destination {
    pub(super) fn transport(self) -> Transport {
        match self {
            Self::Rdma(_) => Transport::Rdma,
            Self::Udp(_) => Transport::Udp,
        }
    }
}

/// The owner insists on a transport that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportError {
    Udp { reason: String },
    Rdma { reason: String },
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp { reason } => write!(f, "UDP cannot be used, {reason}: boot with --fabric auto or tcp"),
            Self::Rdma { reason } => {
                write!(
                    f,
                    "InfiniBand and RoCE cannot be used, {reason}: boot with --fabric auto"
                )
            }
        }
    }
}

impl std::error::Error for TransportError {}

/// The datagram endpoints of this daemon.
#[derive(Clone, Debug, Default)]
pub(super) struct Transports {
    pub(super) rdma: Option<Datagram<UdAddress>>,
    pub(super) udp: Option<Datagram<SocketAddr>>,
}

impl Transports {
    /// Opens the transports the owner wishes for, and says why the others are not in use.
    pub(super) async fn open(
        wish: FabricWish,
        (key, port): (&ClusterKey, SocketAddr),
        epoch: u32,
    ) -> Result<(Self, Vec<String>), TransportError> {
        let mut why_not = Vec::new();
        let udp = match wish {
            FabricWish::Tcp => Err("the cluster was booted with --fabric tcp".to_owned()),
            FabricWish::Auto | FabricWish::Udp | FabricWish::Rdma => {
                let opened = Datagram::udp(port, key, epoch, DatagramLimits::default()).await;
                opened.map_err(|error| format!("port {port} cannot be used ({error})"))
            }
        };
        let udp = match udp {
            Err(reason) if wish == FabricWish::Udp => {
                return Err(TransportError::Udp { reason });
            }
            udp => udp.map_err(|reason| why_not.push(format!("udp: {reason}"))).ok(),
        };
        let rdma = match wish {
            FabricWish::Udp => Err("the cluster was booted with --fabric udp".to_owned()),
            FabricWish::Tcp => Err("the cluster was booted with --fabric tcp".to_owned()),
            FabricWish::Auto | FabricWish::Rdma => infiniband::datagrams(key, epoch, DatagramLimits::default()),
        };
        let rdma = match rdma {
            Err(reason) if wish == FabricWish::Rdma => {
                return Err(TransportError::Rdma { reason });
            }
            rdma => rdma.map_err(|reason| why_not.push(format!("rdma: {reason}"))).ok(),
        };
        Ok((Self { rdma, udp }, why_not))
    }

    pub(super) fn has(&self, transport: Transport) -> bool {
        match transport {
            Transport::Rdma => self.rdma.is_some(),
            Transport::Udp => self.udp.is_some(),
        }
    }

    pub(super) fn is_any_open(&self) -> bool {
        self.has(Transport::Rdma) || self.has(Transport::Udp)
    }

    /// The address of this daemon over InfiniBand or RoCE.
    pub(super) fn ud_address(&self) -> Option<UdAddress> {
        self.rdma.as_ref().map(Datagram::local)
    }

    /// Sends a message and waits until it is confirmed.
    pub(super) async fn exchange(
        &self,
        to: Destination,
        bytes: Vec<u8>,
        within: Duration,
    ) -> Result<(), ExchangeError> {
        match to {
            Destination::Rdma(to) => match &self.rdma {
                Some(endpoint) => endpoint.exchange(to, bytes, within).await,
                None => Err(ExchangeError::Stopped),
            },
            Destination::Udp(to) => match &self.udp {
                Some(endpoint) => endpoint.exchange(to, bytes, within).await,
                None => Err(ExchangeError::Stopped),
            },
        }
    }

    /// Changes to the keys of another epoch.
    pub(super) async fn change_keys(&self, epoch: u32) {
        if let Some(endpoint) = &self.rdma {
            endpoint.turn(epoch).await;
        }
        if let Some(endpoint) = &self.udp {
            endpoint.turn(epoch).await;
        }
    }

    /// Starts to receive.
    pub(super) fn listen(&self, own: &NodeName, events: &mpsc::Sender<PeerEvent>) {
        if let Some(endpoint) = self.rdma.clone() {
            tokio::spawn(receive(endpoint, Transport::Rdma, own.clone(), events.clone()));
        }
        if let Some(endpoint) = self.udp.clone() {
            tokio::spawn(receive(endpoint, Transport::Udp, own.clone(), events.clone()));
        }
    }
}

/// Turns datagrams into events until the endpoint stops.
async fn receive<A: Address + Sync>(
    endpoint: Datagram<A>,
    transport: Transport,
    own: NodeName,
    events: mpsc::Sender<PeerEvent>,
) {
    while let Some(received) = endpoint.receive().await {
        match decode_datagram(&received.message) {
            Ok(DatagramBody::Said { from: node, envelope }) if node != own => {
                let said = PeerEvent::DatagramReceived {
                    node,
                    transport,
                    envelope,
                };
                if events.send(said).await.is_err() {
                    return;
                }
            }
            Ok(DatagramBody::Said { .. } | DatagramBody::Measured(_)) => {}
            Err(error) => tracing::warn!(from = ?received.from, %error, "a datagram is not understood"),
        }
    }
}
