//! What a device has finished: polled, or waited for without spinning.

#![allow(unsafe_code, reason = "the verbs library is C")]

use super::device::Device;
use rdma_mummy_sys as sys;
use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
    sync::Arc,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Completions taken in one call.
const BATCH: usize = 32;

/// One finished request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) request: u64,
    pub(super) is_good: bool,
    pub(super) length: usize,
    pub(super) from_pair: u32,
}

struct Queue(*mut sys::ibv_cq);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: pairs hold their completions alive, so none uses the queue; all its events are acknowledged.
        unsafe { sys::ibv_destroy_cq(self.0) };
    }
}

struct Channel(*mut sys::ibv_comp_channel);

// SAFETY: verbs objects may be used from any thread, and the library locks what threads share.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as `self`.
        unsafe { (*self.0).fd }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the queue that used the channel is destroyed before it (order of the fields below).
        unsafe { sys::ibv_destroy_comp_channel(self.0) };
    }
}

/// A completion queue and the descriptor that tells when it has something.
pub(super) struct Completions {
    queue: Queue,
    channel: AsyncFd<Channel>,
    _device: Arc<Device>,
}

// SAFETY: verbs objects may be used from any thread, and the library locks what threads share.
unsafe impl Send for Completions {}
// SAFETY: as above.
unsafe impl Sync for Completions {}

impl Completions {
    /// Room for `count` requests under way.
    pub(super) fn new(device: &Arc<Device>, count: usize) -> io::Result<Self> {
        let count = i32::try_from(count).map_err(io::Error::other)?;
        // SAFETY: the device is open.
        let channel = unsafe { sys::ibv_create_comp_channel(device.context()) };
        if channel.is_null() {
            return Err(io::Error::last_os_error());
        }
        let channel = Channel(channel);
        // SAFETY: the descriptor is open as long as the channel.
        let descriptor = unsafe { BorrowedFd::borrow_raw(channel.as_raw_fd()) };
        let flags = rustix::fs::fcntl_getfl(descriptor)?;
        rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK)?;
        // SAFETY: the device is open and the channel is of the same device.
        let queue = unsafe { sys::ibv_create_cq(device.context(), count, ptr::null_mut(), channel.0, 0) };
        if queue.is_null() {
            return Err(io::Error::last_os_error());
        }
        let queue = Queue(queue);
        // SAFETY: the channel keeps its descriptor open and unchanged until it is dropped.
        let channel = unsafe { AsyncFd::register_with_interest(channel, Interest::READABLE) };
        Ok(Self {
            queue,
            channel: channel.map_err(|error| io::Error::other(error.to_string()))?,
            _device: Arc::clone(device),
        })
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_cq {
        self.queue.0
    }

    /// Takes what is finished.
    pub(super) fn poll(&self, out: &mut Vec<Completion>) -> io::Result<()> {
        loop {
            // SAFETY: all zeros is a value of this plain structure.
            let mut finished: [sys::ibv_wc; BATCH] = unsafe { mem::zeroed() };
            // SAFETY: the queue lives and the array has room for as many as are asked for.
            let count = unsafe { sys::ibv_poll_cq(self.queue.0, BATCH as i32, finished.as_mut_ptr()) };
            let count = usize::try_from(count).map_err(|_| io::Error::other("the completion queue is broken"))?;
            out.extend(finished[..count].iter().map(|one| Completion {
                request: one.wr_id,
                is_good: one.status == sys::ibv_wc_status::IBV_WC_SUCCESS,
                length: usize::try_from(one.byte_len).unwrap_or(0),
                from_pair: one.src_qp,
            }));
            if count < BATCH {
                return Ok(());
            }
        }
    }

    /// Takes what is finished, waiting until there is something. Cancelling it loses nothing.
    pub(super) async fn wait(&self, out: &mut Vec<Completion>) -> io::Result<()> {
        loop {
            self.poll(out)?;
            if !out.is_empty() {
                return Ok(());
            }
            // SAFETY: the queue lives.
            if unsafe { sys::ibv_req_notify_cq(self.queue.0, 0) } != 0 {
                return Err(io::Error::other("the device does not tell of completions"));
            }
            // What finished before the request above is not told of.
            self.poll(out)?;
            if !out.is_empty() {
                return Ok(());
            }
            let mut ready = self.channel.readable().await?;
            self.take_events();
            ready.clear_ready();
        }
    }

    fn take_events(&self) {
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel lives and does not block; each event is acknowledged to the queue it came from.
        unsafe {
            while sys::ibv_get_cq_event(self.channel.get_ref().0, &mut queue, &mut context) == 0 {
                sys::ibv_ack_cq_events(queue, 1);
            }
        }
    }
}
