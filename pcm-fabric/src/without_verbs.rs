//! What a build without verbs says of InfiniBand and RoCE, and the endpoint that no program of such a build has.

use crate::{
    bulk::{BulkService, Ledger, Lent, Offer, Protection, PutError, PutReport, RegionMemory, RegionToken},
    datagram::{Datagram, DatagramLimits},
    key::ClusterKey,
};
use pcm_proto::fabric::UdAddress;
use std::{sync::Arc, time::Duration};

const WITHOUT: &str = "this program was built without the feature `rdma`";

/// Says that this build has none.
pub fn datagrams(_: &ClusterKey, _: u32, _: DatagramLimits) -> Result<Datagram<UdAddress>, String> {
    Err(WITHOUT.to_owned())
}

/// Says that this build has none.
pub fn bulk(_: &ClusterKey, _: u32, _: Protection) -> Result<RcBulk, String> {
    Err(WITHOUT.to_owned())
}

/// See the file head.
#[derive(Clone, Copy, Debug)]
pub enum RcBulk {}

impl RcBulk {
    /// Turns to the keys of another epoch.
    pub async fn turn(&self, _: u32) {
        match *self {}
    }
}

impl BulkService for RcBulk {
    type Address = UdAddress;
    type Offer = Offer;

    fn local(&self) -> UdAddress {
        match *self {}
    }

    fn offer_rest(&self, _: impl Into<RegionMemory>, _: Ledger) -> Option<Offer> {
        match *self {}
    }

    async fn put<D: Lent + 'static>(
        &self,
        _: UdAddress,
        _: RegionToken,
        _: Arc<D>,
        _: Duration,
    ) -> Result<PutReport, PutError> {
        match *self {}
    }
}
