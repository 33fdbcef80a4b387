//! Endpoints on the first usable device, or why there is none.

use super::{device::Device, rc::RcBulk};
use crate::{
    bulk::Protection,
    datagram::{Datagram, DatagramLimits},
    key::ClusterKey,
};
use pcm_proto::fabric::UdAddress;
use std::{io, sync::Arc};

/// Starts an endpoint for datagrams.
pub fn datagrams(key: &ClusterKey, epoch: u32, limits: DatagramLimits) -> Result<Datagram<UdAddress>, String> {
    on_device(|device| Datagram::ud(device, key, epoch, limits))
}

/// Starts an endpoint for bulk transfers. `protection` is what it uses to send, and the least it accepts.
pub fn bulk(key: &ClusterKey, epoch: u32, protection: Protection) -> Result<RcBulk, String> {
    on_device(|device| RcBulk::start(device, key, epoch, protection))
}

fn on_device<E>(start: impl FnOnce(&Arc<Device>) -> io::Result<E>) -> Result<E, String> {
    let device = Arc::new(Device::open(None).map_err(|reason| reason.to_string())?);
    start(&device).map_err(|error| format!("device {} cannot be used ({error})", device.name()))
}
