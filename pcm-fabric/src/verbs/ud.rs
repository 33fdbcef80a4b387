//! Packets over InfiniBand's unreliable datagrams.

use super::{
    completions::{Completion, Completions},
    device::{Device, Gid, is_v4},
    memory::Memory,
    pair::{Pair, Route},
};
use crate::{
    datagram::{Datagram, DatagramLimits, PacketIo},
    key::ClusterKey,
};
use pcm_proto::fabric::UdAddress;
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
};

/// Packets received and not yet taken, and packets on their way out: with the smallest device this is 400 KiB.
const RECEIVES: usize = 256;
const SENDS: usize = 128;

/// A device writes where a packet came from before it.
const ORIGIN_LENGTH: usize = 40;

/// Ways to peers that are kept; making one again costs a system call.
const ROUTES_MAX: usize = 4096;

struct Ud {
    // Before the memory it reaches.
    pair: Pair,
    completions: Arc<Completions>,
    memory: Arc<Memory>,
    routes: BTreeMap<Gid, Route>,
    device: Arc<Device>,
    slot_length: usize,
    idle_sends: Vec<usize>,
    arrived: VecDeque<(usize, usize, UdAddress)>,
    finished: Vec<Completion>,
}

impl Datagram<UdAddress> {
    /// Starts an endpoint on a device.
    pub fn ud(device: &Arc<Device>, key: &ClusterKey, epoch: u32, mut limits: DatagramLimits) -> io::Result<Self> {
        let packet_length = device.packet_length_max();
        if packet_length < 1024 {
            return Err(io::Error::other("the device's packets are too short for datagrams"));
        }
        limits.packet_length_max = packet_length;
        Self::start(Ud::new(device, packet_length)?, key, epoch, limits)
    }
}

impl Ud {
    fn new(device: &Arc<Device>, packet_length: usize) -> io::Result<Self> {
        let slot_length = ORIGIN_LENGTH + packet_length;
        let memory = Memory::own(device, vec![0; slot_length * (RECEIVES + SENDS)].into(), false);
        let memory = Arc::new(memory.map_err(|(_, error)| error)?);
        let completions = Arc::new(Completions::new(device, RECEIVES + SENDS)?);
        let mut pair = Pair::datagram(device, &completions, RECEIVES.max(SENDS) as u32)?;
        pair.give(&memory);
        let ud = Self {
            pair,
            completions,
            memory,
            routes: BTreeMap::new(),
            device: Arc::clone(device),
            slot_length,
            idle_sends: (RECEIVES..RECEIVES + SENDS).collect(),
            arrived: VecDeque::new(),
            finished: Vec::new(),
        };
        for slot in 0..RECEIVES {
            ud.post_receive(slot)?;
        }
        Ok(ud)
    }

    fn post_receive(&self, slot: usize) -> io::Result<()> {
        let start = slot * self.slot_length;
        self.pair
            .receive(&self.memory, start..start + self.slot_length, slot as u64)
    }

    /// Sorts what the device has finished.
    fn sort(&mut self) -> io::Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        let sorted = finished.drain(..).try_for_each(|one| {
            let slot = usize::try_from(one.request).map_err(io::Error::other)?;
            if slot >= RECEIVES {
                // A send that failed is a lost packet.
                self.idle_sends.push(slot);
                return Ok(());
            }
            match self.origin(slot, &one) {
                Some(from) => {
                    self.arrived.push_back((slot, one.length - ORIGIN_LENGTH, from));
                    Ok(())
                }
                None => self.post_receive(slot),
            }
        });
        self.finished = finished;
        sorted
    }

    fn origin(&self, slot: usize, one: &Completion) -> Option<UdAddress> {
        if !one.is_good || one.length < ORIGIN_LENGTH {
            return None;
        }
        let mut origin = [0; ORIGIN_LENGTH];
        let start = slot * self.slot_length;
        self.memory
            .copy_out(start..start + ORIGIN_LENGTH, &mut origin)
            .then_some(())?;
        Some(UdAddress {
            gid: origin_gid(&origin, is_v4(&self.device.gid())),
            pair: one.from_pair,
        })
    }
}

/// Who sent a packet: a global route header, or in its second half the header of IPv4.
fn origin_gid(origin: &[u8; ORIGIN_LENGTH], is_v4: bool) -> Gid {
    let mut gid = [0; 16];
    if is_v4 && origin[20] >> 4 == 4 {
        gid[10..12].copy_from_slice(&[0xff; 2]);
        gid[12..].copy_from_slice(&origin[32..36]);
    } else {
        gid.copy_from_slice(&origin[8..24]);
    }
    gid
}

impl PacketIo for Ud {
    type Address = UdAddress;

    fn local(&self) -> UdAddress {
        UdAddress {
            gid: self.device.gid(),
            pair: self.pair.number(),
        }
    }

    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, UdAddress)>> {
        if self.arrived.is_empty() {
            self.completions.poll(&mut self.finished)?;
            self.sort()?;
        }
        let Some((slot, length, from)) = self.arrived.pop_front() else {
            return Ok(None);
        };
        let start = slot * self.slot_length + ORIGIN_LENGTH;
        let length = length.min(buffer.len());
        self.memory.copy_out(start..start + length, &mut buffer[..length]);
        self.post_receive(slot)?;
        Ok(Some((length, from)))
    }

    fn try_send(&mut self, to: UdAddress, packet: &[u8]) -> io::Result<bool> {
        if self.idle_sends.is_empty() {
            self.completions.poll(&mut self.finished)?;
            self.sort()?;
        }
        if self.routes.len() >= ROUTES_MAX {
            self.routes.clear();
        }
        if !self.routes.contains_key(&to.gid) {
            match Route::new(&self.device, to.gid) {
                Ok(route) => drop(self.routes.insert(to.gid, route)),
                Err(error) => {
                    tracing::debug!(?to, %error, "a packet could not be sent: no way there");
                    return Ok(true);
                }
            }
        }
        let (Some(route), Some(slot)) = (self.routes.get(&to.gid), self.idle_sends.pop()) else {
            return Ok(false);
        };
        let start = slot * self.slot_length;
        self.memory.copy_in(start, packet);
        let range = start..start + packet.len();
        self.pair
            .send_datagram(&self.memory, range, slot as u64, route, to.pair)?;
        Ok(true)
    }

    async fn ready(&mut self, to_send: bool) -> io::Result<()> {
        while self.arrived.is_empty() && (!to_send || self.idle_sends.is_empty()) {
            self.completions.wait(&mut self.finished).await?;
            self.sort()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_packet_is_read_from_either_header() {
        let mut origin = [0; ORIGIN_LENGTH];
        origin[8..24].copy_from_slice(&[7; 16]);
        assert_eq!(origin_gid(&origin, false), [7; 16]);
        origin[20] = 0x45;
        origin[32..36].copy_from_slice(&[10, 9, 0, 1]);
        let gid = origin_gid(&origin, true);
        assert!(is_v4(&gid) && gid[12..] == [10, 9, 0, 1]);
    }
}
