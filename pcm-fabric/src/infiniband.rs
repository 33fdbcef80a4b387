//! Datagrams over InfiniBand or RoCE, where this build and this machine have them, else the reason why not: the same
//! question for every build.

use crate::{
    datagram::{Datagram, DatagramLimits},
    key::ClusterKey,
};

pub use pcm_proto::fabric::UdAddress;

/// Starts an endpoint on the first usable device.
#[cfg(feature = "rdma")]
pub fn datagrams(key: &ClusterKey, epoch: u32, limits: DatagramLimits) -> Result<Datagram<UdAddress>, String> {
    let device = crate::verbs::Device::open(None).map_err(|reason| reason.to_string())?;
    let name = device.name().to_owned();
    let opened = Datagram::ud(&std::sync::Arc::new(device), key, epoch, limits);
    opened.map_err(|error| format!("device {name} cannot be used ({error})"))
}

/// Says that this build has none.
#[cfg(not(feature = "rdma"))]
pub fn datagrams(_: &ClusterKey, _: u32, _: DatagramLimits) -> Result<Datagram<UdAddress>, String> {
    Err("this program was built without the feature `rdma`".to_owned())
}
