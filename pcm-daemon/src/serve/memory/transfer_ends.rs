//! The endpoints of this daemon for bulk transfers: TCP, and InfiniBand or RoCE where there is a device and the owner
//! did not forbid it. Chooses nothing.

use super::memory_file::Memory;
use pcm_core::node::store::route::{End, EndAddresses};
use pcm_fabric::bulk::{
    BulkService as _, Ledger, Offer, Protection, PutError, PutReport, RegionMemory, RegionToken, TcpBulk,
};
use pcm_fabric::datagram::key_epoch;
use pcm_fabric::infiniband::{self, RcBulk};
use pcm_fabric::{ClusterKey, Limits};
use pcm_proto::boot::BootSpec;
use pcm_proto::fabric::{BulkAddress, FabricWish};
use pcm_proto::handshake::Identity;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What a daemon's owner wants of InfiniBand and RoCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum RdmaWish {
    /// Not to be used, as this choice of fabric has it.
    Not(&'static str),
    /// To be used where there is a device.
    With(Protection),
}

impl RdmaWish {
    pub(in super::super) fn of(spec: &BootSpec) -> Self {
        match spec.fabric {
            FabricWish::Udp => Self::Not("the cluster was booted with --fabric udp"),
            FabricWish::Tcp => Self::Not("the cluster was booted with --fabric tcp"),
            FabricWish::Auto | FabricWish::Rdma if spec.is_rdma_sealed => Self::With(Protection::Sealed),
            FabricWish::Auto | FabricWish::Rdma => Self::With(Protection::Plain),
        }
    }
}

/// See the file head.
#[derive(Clone)]
pub(super) struct Ends {
    tcp: TcpBulk,
    rdma: Result<RcBulk, String>,
    epoch: u32,
}

impl Ends {
    /// Opens them: TCP at this address, at a port that the system chooses.
    pub(super) async fn open(
        address: IpAddr,
        (key, identity): (ClusterKey, Identity),
        rdma: RdmaWish,
    ) -> io::Result<Self> {
        let epoch = key_epoch(SystemTime::now());
        let rdma = match rdma {
            RdmaWish::Not(why) => Err(why.to_owned()),
            RdmaWish::With(protection) => infiniband::bulk(&key, epoch, protection),
        };
        let at = SocketAddr::new(address, 0);
        let tcp = TcpBulk::start(at, key, identity, Protection::Sealed, Limits::default()).await?;
        Ok(Self { tcp, rdma, epoch })
    }

    pub(super) fn addresses(&self) -> EndAddresses {
        let rdma = self.rdma.as_ref().map(RcBulk::local).map_err(Clone::clone);
        EndAddresses {
            port: self.tcp.local().port(),
            rdma: rdma.map(BulkAddress::Rdma),
        }
    }

    /// Turns to new keys when it is time; connections over TCP make their own.
    pub(super) async fn on_time(&mut self) {
        let epoch = key_epoch(SystemTime::now());
        if let Ok(rdma) = &self.rdma
            && self.epoch != epoch
        {
            self.epoch = epoch;
            rdma.turn(epoch).await;
        }
    }

    /// Offers memory for what a ledger of it lacks.
    pub(super) fn offer(&self, end: End, memory: impl Into<RegionMemory>, there: Ledger) -> io::Result<Offer> {
        let offer = match (end, &self.rdma) {
            (End::Tcp, _) => self.tcp.offer_rest(memory, there),
            (End::Rdma, Ok(rdma)) => rdma.offer_rest(memory, there),
            (End::Rdma, Err(why)) => return Err(io::Error::other(why.clone())),
        };
        offer.ok_or_else(|| io::Error::other("too much is on offer"))
    }

    /// Fills memory that the node at this address offers.
    pub(super) async fn put(
        &self,
        (host, at): (&str, BulkAddress),
        region: RegionToken,
        memory: Arc<Memory>,
        deadline: Duration,
    ) -> Result<PutReport, String> {
        let words = |error: PutError| error.to_string();
        match at {
            BulkAddress::Tcp(port) => {
                let found = tokio::net::lookup_host((host, port)).await;
                let to = found.map_err(|error| error.to_string())?.next();
                let to = to.ok_or_else(|| format!("{host} is not known"))?;
                self.tcp.put(to, region, memory, deadline).await.map_err(words)
            }
            BulkAddress::Rdma(to) => {
                let rdma = self.rdma.as_ref().map_err(Clone::clone)?;
                rdma.put(to, region, memory, deadline).await.map_err(words)
            }
        }
    }
}
