//! What can carry datagrams here: UDP, and InfiniBand or RoCE where there is a device. Opens what the owner wishes for,
//! says why the rest is missing, and passes on what comes in. Chooses nothing.

use super::event::Event;
use pcm_fabric::ClusterKey;
use pcm_fabric::datagram::{Address, Datagram, DatagramLimits, DatagramService as _, ExchangeError};
use pcm_fabric::infiniband::{self, UdAddress};
use pcm_proto::fabric::{FabricWish, Spoken, understand};
use pcm_proto::ids::NodeName;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;

/// What carries a datagram, the better one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Carrier {
    Rdma,
    Udp,
}

impl Carrier {
    /// As people know it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Udp => "udp",
        }
    }
}

/// Where a datagram goes, and so what carries it.
#[derive(Clone, Copy, Debug)]
pub(super) enum To {
    Rdma(UdAddress),
    Udp(SocketAddr),
}

impl To {
    pub(super) fn carrier(self) -> Carrier {
        match self {
            Self::Rdma(_) => Carrier::Rdma,
            Self::Udp(_) => Carrier::Udp,
        }
    }
}

/// The endpoints of this daemon.
#[derive(Clone, Debug, Default)]
pub(super) struct Carriers {
    pub(super) rdma: Option<Datagram<UdAddress>>,
    pub(super) udp: Option<Datagram<SocketAddr>>,
}

impl Carriers {
    /// Opens what is wished for, and says why the rest is not in use. An error means that what the owner insists on
    /// cannot be had.
    pub(super) async fn open(
        wish: FabricWish,
        (key, port): (&ClusterKey, SocketAddr),
        epoch: u32,
    ) -> Result<(Self, Vec<String>), String> {
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
                return Err(format!("UDP cannot be used, {reason}: boot with --fabric auto or tcp"));
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
                return Err(format!(
                    "InfiniBand and RoCE cannot be used, {reason}: boot with --fabric auto"
                ));
            }
            rdma => rdma.map_err(|reason| why_not.push(format!("rdma: {reason}"))).ok(),
        };
        Ok((Self { rdma, udp }, why_not))
    }

    pub(super) fn has(&self, carrier: Carrier) -> bool {
        match carrier {
            Carrier::Rdma => self.rdma.is_some(),
            Carrier::Udp => self.udp.is_some(),
        }
    }

    /// Whether there is any.
    pub(super) fn are_there(&self) -> bool {
        self.has(Carrier::Rdma) || self.has(Carrier::Udp)
    }

    /// Where others reach this daemon over InfiniBand or RoCE.
    pub(super) fn ud_address(&self) -> Option<UdAddress> {
        self.rdma.as_ref().map(Datagram::local)
    }

    /// Sends a message and waits until it is confirmed.
    pub(super) async fn exchange(&self, to: To, bytes: Vec<u8>, within: Duration) -> Result<(), ExchangeError> {
        match to {
            To::Rdma(to) => match &self.rdma {
                Some(endpoint) => endpoint.exchange(to, bytes, within).await,
                None => Err(ExchangeError::Stopped),
            },
            To::Udp(to) => match &self.udp {
                Some(endpoint) => endpoint.exchange(to, bytes, within).await,
                None => Err(ExchangeError::Stopped),
            },
        }
    }

    /// Turns to the keys of another epoch.
    pub(super) async fn turn(&self, epoch: u32) {
        if let Some(endpoint) = &self.rdma {
            endpoint.turn(epoch).await;
        }
        if let Some(endpoint) = &self.udp {
            endpoint.turn(epoch).await;
        }
    }

    /// Passes on what comes in.
    pub(super) fn listen(&self, own: &NodeName, events: &mpsc::Sender<Event>) {
        if let Some(endpoint) = self.rdma.clone() {
            tokio::spawn(hear(endpoint, Carrier::Rdma, own.clone(), events.clone()));
        }
        if let Some(endpoint) = self.udp.clone() {
            tokio::spawn(hear(endpoint, Carrier::Udp, own.clone(), events.clone()));
        }
    }
}

/// Passes on what comes in datagrams, until the endpoint stops.
async fn hear<A: Address + Sync>(endpoint: Datagram<A>, carrier: Carrier, own: NodeName, events: mpsc::Sender<Event>) {
    while let Some(received) = endpoint.receive().await {
        match understand(&received.message) {
            Ok(Spoken::Said { from: node, told }) if node != own => {
                let said = Event::DatagramSaid { node, carrier, told };
                if events.send(said).await.is_err() {
                    return;
                }
            }
            Ok(Spoken::Said { .. } | Spoken::Measured(_)) => {}
            Err(error) => tracing::warn!(from = ?received.from, %error, "a datagram is not understood"),
        }
    }
}
