//! Finding and opening an InfiniBand or RoCE device. The library behind it is opened when it is first asked for, so a
//! machine without one only gets a reason why there is no device.

#![allow(unsafe_code, reason = "the verbs library is C")]

use rdma_mummy_sys as sys;
use std::{ffi::CStr, fmt, io, mem, ptr};

const ROCE_V2: u32 = 2;
const LINK_LAYER_ETHERNET: u8 = 2;

/// Ports that are looked at per device; cards have one or two.
const PORTS: std::ops::RangeInclusive<u8> = 1..=2;

/// Entries of a port's table of addresses that are looked at; each address of the host makes two.
const GIDS_MAX: i32 = 64;

/// An address on the fabric: of a port.
pub type Gid = [u8; 16];

/// Why no device can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoDevice {
    /// There is no verbs library or no device.
    None,
    /// There are devices, and this is wrong with each.
    Unusable(Vec<String>),
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "there is no InfiniBand or RoCE device, or no libibverbs"),
            Self::Unusable(reasons) => write!(f, "no InfiniBand or RoCE device is usable: {}", reasons.join("; ")),
        }
    }
}

impl std::error::Error for NoDevice {}

/// An open device and the port that is used.
#[derive(Debug)]
pub struct Device {
    context: *mut sys::ibv_context,
    pub(super) domain: *mut sys::ibv_pd,
    name: String,
    pub(super) port: u8,
    pub(super) gid: Gid,
    pub(super) gid_index: u8,
    pub(super) mtu: sys::ibv_mtu::Type,
}

// SAFETY: verbs objects may be used from any thread, and the library locks what threads share.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the first device with an active port and an address; `wanted` restricts it to one name.
    pub fn open(wanted: Option<&str>) -> Result<Self, NoDevice> {
        let mut count = 0;
        // SAFETY: the list has `count` entries and is freed below, after the last use.
        let list = unsafe { sys::ibv_get_device_list(&mut count) };
        if list.is_null() {
            return Err(NoDevice::None);
        }
        let mut reasons = Vec::new();
        let mut found = None;
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: `at` is below the count of the list.
            let device = unsafe { *list.add(at) };
            // SAFETY: a device of the list has a name as long as the list lives.
            let name = unsafe { CStr::from_ptr(sys::ibv_get_device_name(device)) }
                .to_string_lossy()
                .into_owned();
            if wanted.is_some_and(|wanted| wanted != name) {
                continue;
            }
            // SAFETY: the device is of the list, which still lives.
            match unsafe { Self::open_one(device, &name) } {
                Ok(device) => {
                    found = Some(device);
                    break;
                }
                Err(reason) => reasons.push(format!("{name}: {reason}")),
            }
        }
        // SAFETY: the list is not used any more; open devices outlive it.
        unsafe { sys::ibv_free_device_list(list) };
        match found {
            Some(device) => Ok(device),
            None if reasons.is_empty() => Err(NoDevice::None),
            None => Err(NoDevice::Unusable(reasons)),
        }
    }

    /// # Safety
    /// `device` must be of a list that is not freed yet.
    unsafe fn open_one(device: *mut sys::ibv_device, name: &str) -> Result<Self, String> {
        // SAFETY: the caller's promise.
        let context = unsafe { sys::ibv_open_device(device) };
        if context.is_null() {
            return Err(format!("cannot be opened ({})", io::Error::last_os_error()));
        }
        let mut opened = Self {
            context,
            domain: ptr::null_mut(),
            name: name.to_owned(),
            port: 0,
            gid: [0; 16],
            gid_index: 0,
            mtu: sys::ibv_mtu::IBV_MTU_1024,
        };
        opened.choose_port()?;
        // SAFETY: the context is open.
        opened.domain = unsafe { sys::ibv_alloc_pd(context) };
        if opened.domain.is_null() {
            return Err(format!("gives no protection domain ({})", io::Error::last_os_error()));
        }
        Ok(opened)
    }

    fn choose_port(&mut self) -> Result<(), String> {
        let mut problem = "has no port".to_owned();
        for port in PORTS {
            // SAFETY: all zeros is a value of this plain structure.
            let mut attributes: sys::ibv_port_attr = unsafe { mem::zeroed() };
            // SAFETY: the context is open and the structure is ours.
            if unsafe { sys::ibv_query_port(self.context, port, &mut attributes) } != 0 {
                continue;
            }
            if attributes.state != sys::ibv_port_state::IBV_PORT_ACTIVE {
                problem = format!("port {port} is not active");
                continue;
            }
            let is_ethernet = attributes.link_layer == LINK_LAYER_ETHERNET;
            match self.best_gid(port, is_ethernet, attributes.gid_tbl_len.min(GIDS_MAX)) {
                Some((index, gid)) => {
                    (self.port, self.gid_index, self.gid) = (port, index, gid);
                    self.mtu = attributes.active_mtu;
                    return Ok(());
                }
                None => problem = format!("port {port} has no address"),
            }
        }
        Err(problem)
    }

    /// On Ethernet an IPv4 address of RoCE version 2 first, because routers know it; on InfiniBand the first there is.
    fn best_gid(&self, port: u8, is_ethernet: bool, count: i32) -> Option<(u8, Gid)> {
        let usable = (0..count).filter_map(|index| {
            // SAFETY: all zeros is a value of this plain structure.
            let mut entry: sys::ibv_gid_entry = unsafe { mem::zeroed() };
            let at = u32::try_from(index).ok()?;
            // SAFETY: the context is open and the structure is ours.
            let failed = unsafe { sys::ibv_query_gid_ex(self.context, u32::from(port), at, &mut entry, 0) } != 0;
            // SAFETY: every bit pattern is a value of either member.
            let gid = unsafe { entry.gid.raw };
            let fits = !is_ethernet || entry.gid_type == ROCE_V2;
            (!failed && fits && gid != [0; 16]).then_some((u8::try_from(index).ok()?, gid))
        });
        let usable: Vec<(u8, Gid)> = usable.collect();
        usable.iter().find(|(_, gid)| is_v4(gid)).or(usable.first()).copied()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its port's address.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// Bytes that one packet carries.
    pub fn packet_length_max(&self) -> usize {
        128 << self.mtu
    }

    pub(super) fn context(&self) -> *mut sys::ibv_context {
        self.context
    }

    /// How to reach a port from ours.
    pub(super) fn route(&self, gid: Gid) -> sys::ibv_ah_attr {
        // SAFETY: all zeros is a value of this plain structure.
        let mut route: sys::ibv_ah_attr = unsafe { mem::zeroed() };
        route.is_global = 1;
        route.port_num = self.port;
        route.grh.dgid.raw = gid;
        route.grh.sgid_index = self.gid_index;
        route.grh.hop_limit = 64;
        route
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything made on the device holds it alive, so nothing of it is left.
        unsafe {
            if !self.domain.is_null() {
                sys::ibv_dealloc_pd(self.domain);
            }
            sys::ibv_close_device(self.context);
        }
    }
}

/// Whether an address is an IPv4 one.
pub(super) fn is_v4(gid: &Gid) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff; 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_device_gets_a_reason() {
        match Device::open(Some("no-such-device")) {
            Err(reason) => assert_eq!(reason, NoDevice::None),
            Ok(device) => panic!("{} was not asked for", device.name()),
        }
    }
}
