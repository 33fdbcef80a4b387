//! Queue pairs: unreliable datagrams to any port, and reliable connections that write into a peer's memory.

#![allow(unsafe_code, reason = "the verbs library is C")]

use super::{
    completions::Completions,
    device::{Device, Gid},
    memory::Memory,
};
use rdma_mummy_sys::{self as sys, ibv_qp_attr_mask as Mask};
use serde::{Deserialize, Serialize};
use std::{io, mem, ops::Range, ptr, sync::Arc};

/// Both ends of datagrams must use the same; what protects them is their seal.
const DATAGRAM_KEY: u32 = 0x0070_636d;

/// 4.096 µs × 2^14 = 67 ms until a lost packet is sent again, and seven times before a connection counts as broken.
const RETRY_EXPONENT: u8 = 14;
const RETRIES: u8 = 7;

/// Where a reliable connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) gid: Gid,
    pub(super) pair: u32,
    pub(super) first_packet: u32,
}

/// The way to a port, for datagrams.
pub(super) struct Route {
    handle: *mut sys::ibv_ah,
    _device: Arc<Device>,
}

// SAFETY: verbs objects may be used from any thread.
unsafe impl Send for Route {}
// SAFETY: as above.
unsafe impl Sync for Route {}

impl Route {
    pub(super) fn new(device: &Arc<Device>, gid: Gid) -> io::Result<Self> {
        let mut attributes = device.route(gid);
        // SAFETY: the domain lives as long as the device, and the structure is ours.
        let handle = unsafe { sys::ibv_create_ah(device.domain, &mut attributes) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            handle,
            _device: Arc::clone(device),
        })
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: made once in `new`.
        unsafe { sys::ibv_destroy_ah(self.handle) };
    }
}

/// One queue pair; memory it may reach is held alive by it.
pub(super) struct Pair {
    raw: *mut sys::ibv_qp,
    reach: Vec<Arc<Memory>>,
    _completions: Arc<Completions>,
    device: Arc<Device>,
}

// SAFETY: verbs objects may be used from any thread, and the library locks what threads share.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

impl Pair {
    fn new(
        device: &Arc<Device>,
        completions: &Arc<Completions>,
        kind: sys::ibv_qp_type::Type,
        requests: u32,
    ) -> io::Result<Self> {
        // SAFETY: all zeros is a value of this plain structure.
        let mut wanted: sys::ibv_qp_init_attr = unsafe { mem::zeroed() };
        wanted.send_cq = completions.raw();
        wanted.recv_cq = completions.raw();
        wanted.qp_type = kind;
        wanted.sq_sig_all = 1;
        wanted.cap.max_send_wr = requests;
        wanted.cap.max_recv_wr = requests;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        // SAFETY: the domain and the queue live as long as the pair, which holds both.
        let raw = unsafe { sys::ibv_create_qp(device.domain, &mut wanted) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            raw,
            reach: Vec::new(),
            _completions: Arc::clone(completions),
            device: Arc::clone(device),
        })
    }

    /// A pair for datagrams, ready to be used.
    pub(super) fn datagram(device: &Arc<Device>, completions: &Arc<Completions>, requests: u32) -> io::Result<Self> {
        let pair = Self::new(device, completions, sys::ibv_qp_type::IBV_QPT_UD, requests)?;
        pair.change(
            sys::ibv_qp_state::IBV_QPS_INIT,
            Mask::IBV_QP_PKEY_INDEX.0 | Mask::IBV_QP_PORT.0 | Mask::IBV_QP_QKEY.0,
            |wanted| wanted.qkey = DATAGRAM_KEY,
        )?;
        pair.change(sys::ibv_qp_state::IBV_QPS_RTR, 0, |_| ())?;
        pair.change(sys::ibv_qp_state::IBV_QPS_RTS, Mask::IBV_QP_SQ_PSN.0, |_| ())?;
        Ok(pair)
    }

    /// A pair for a reliable connection, to be connected.
    pub(super) fn reliable(device: &Arc<Device>, completions: &Arc<Completions>, requests: u32) -> io::Result<Self> {
        let pair = Self::new(device, completions, sys::ibv_qp_type::IBV_QPT_RC, requests)?;
        pair.change(
            sys::ibv_qp_state::IBV_QPS_INIT,
            Mask::IBV_QP_PKEY_INDEX.0 | Mask::IBV_QP_PORT.0 | Mask::IBV_QP_ACCESS_FLAGS.0,
            |wanted| wanted.qp_access_flags = sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
        )?;
        Ok(pair)
    }

    /// Connects to the other end, whose first packet has the number that `peer` says.
    pub(super) fn connect(&self, peer: &End, first_packet: u32) -> io::Result<()> {
        let route = self.device.route(peer.gid);
        let mtu = self.device.mtu;
        let to_receive = Mask::IBV_QP_AV.0
            | Mask::IBV_QP_PATH_MTU.0
            | Mask::IBV_QP_DEST_QPN.0
            | Mask::IBV_QP_RQ_PSN.0
            | Mask::IBV_QP_MAX_DEST_RD_ATOMIC.0
            | Mask::IBV_QP_MIN_RNR_TIMER.0;
        self.change(sys::ibv_qp_state::IBV_QPS_RTR, to_receive, |wanted| {
            wanted.ah_attr = route;
            wanted.path_mtu = mtu;
            wanted.dest_qp_num = peer.pair;
            wanted.rq_psn = peer.first_packet;
            wanted.max_dest_rd_atomic = 1;
            wanted.min_rnr_timer = 12;
        })?;
        let to_send = Mask::IBV_QP_SQ_PSN.0
            | Mask::IBV_QP_TIMEOUT.0
            | Mask::IBV_QP_RETRY_CNT.0
            | Mask::IBV_QP_RNR_RETRY.0
            | Mask::IBV_QP_MAX_QP_RD_ATOMIC.0;
        self.change(sys::ibv_qp_state::IBV_QPS_RTS, to_send, |wanted| {
            wanted.sq_psn = first_packet;
            wanted.timeout = RETRY_EXPONENT;
            wanted.retry_cnt = RETRIES;
            wanted.rnr_retry = RETRIES;
            wanted.max_rd_atomic = 1;
        })
    }

    fn change(
        &self,
        state: sys::ibv_qp_state::Type,
        mask: u32,
        fill: impl FnOnce(&mut sys::ibv_qp_attr),
    ) -> io::Result<()> {
        // SAFETY: all zeros is a value of this plain structure.
        let mut wanted: sys::ibv_qp_attr = unsafe { mem::zeroed() };
        wanted.qp_state = state;
        wanted.port_num = self.device.port;
        fill(&mut wanted);
        let mask = i32::try_from(mask | Mask::IBV_QP_STATE.0).map_err(io::Error::other)?;
        // SAFETY: the pair lives and the structure is ours.
        match unsafe { sys::ibv_modify_qp(self.raw, &mut wanted, mask) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    pub(super) fn number(&self) -> u32 {
        // SAFETY: the pair lives.
        unsafe { (*self.raw).qp_num }
    }

    /// Lets the pair reach memory, which it keeps alive from now on.
    pub(super) fn give(&mut self, memory: &Arc<Memory>) {
        self.reach.push(Arc::clone(memory));
    }

    fn place(&self, memory: &Memory, range: &Range<usize>) -> io::Result<sys::ibv_sge> {
        let is_given = self.reach.iter().any(|given| ptr::eq(Arc::as_ptr(given), memory));
        if !is_given || range.start > range.end || range.end > memory.length() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(sys::ibv_sge {
            addr: memory.address() + range.start as u64,
            length: u32::try_from(range.len()).map_err(io::Error::other)?,
            lkey: memory.local_key(),
        })
    }

    /// Lets the next datagram be received into a range of given memory.
    pub(super) fn receive(&self, memory: &Memory, range: Range<usize>, request: u64) -> io::Result<()> {
        let mut place = self.place(memory, &range)?;
        // SAFETY: all zeros is a value of this plain structure.
        let mut wanted: sys::ibv_recv_wr = unsafe { mem::zeroed() };
        wanted.wr_id = request;
        wanted.sg_list = &mut place;
        wanted.num_sge = 1;
        let mut bad = ptr::null_mut();
        // SAFETY: the pair lives, the request is copied by the call, and the memory is held alive by the pair.
        posted(unsafe { sys::ibv_post_recv(self.raw, &mut wanted, &mut bad) })
    }

    /// Sends a datagram from a range of given memory.
    pub(super) fn send_datagram(
        &self,
        memory: &Memory,
        range: Range<usize>,
        request: u64,
        route: &Route,
        pair: u32,
    ) -> io::Result<()> {
        self.post(memory, &range, request, |wanted| {
            wanted.opcode = sys::ibv_wr_opcode::IBV_WR_SEND;
            wanted.wr.ud = sys::ud_t {
                ah: route.handle,
                remote_qpn: pair,
                remote_qkey: DATAGRAM_KEY,
            };
        })
    }

    /// Writes a range of given memory into the peer's.
    pub(super) fn write(
        &self,
        memory: &Memory,
        range: Range<usize>,
        request: u64,
        address: u64,
        key: u32,
    ) -> io::Result<()> {
        self.post(memory, &range, request, |wanted| {
            wanted.opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
            wanted.wr.rdma = sys::rdma_t {
                remote_addr: address,
                rkey: key,
            };
        })
    }

    fn post(
        &self,
        memory: &Memory,
        range: &Range<usize>,
        request: u64,
        fill: impl FnOnce(&mut sys::ibv_send_wr),
    ) -> io::Result<()> {
        let mut place = self.place(memory, range)?;
        // SAFETY: all zeros is a value of this plain structure.
        let mut wanted: sys::ibv_send_wr = unsafe { mem::zeroed() };
        wanted.wr_id = request;
        wanted.sg_list = &mut place;
        wanted.num_sge = 1;
        fill(&mut wanted);
        let mut bad = ptr::null_mut();
        // SAFETY: the pair lives, the request is copied by the call, and the memory is held alive by the pair.
        posted(unsafe { sys::ibv_post_send(self.raw, &mut wanted, &mut bad) })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: made once in `new`. After this the device reaches none of the memory given.
        unsafe { sys::ibv_destroy_qp(self.raw) };
    }
}

fn posted(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.abs())),
    }
}
