//! Memory that a device may read, and write where allowed. While it is registered it is reached only by copying, since
//! the device may change it at any moment.

#![allow(unsafe_code, reason = "the device reaches the memory by its address")]

use super::device::Device;
use crate::bulk::{Lent, RegionMemory};
use rdma_mummy_sys as sys;
use std::{io, ops::Range, ptr, sync::Arc};

/// What is sent.
pub(super) type Source = Arc<dyn Lent>;

enum Backing {
    Own(RegionMemory),
    Shared(Source),
}

pub(super) struct Memory {
    region: *mut sys::ibv_mr,
    start: *mut u8,
    length: usize,
    backing: Backing,
    _device: Arc<Device>,
}

// SAFETY: verbs objects may be used from any thread; the bytes are reached only through `&self` copies of ranges that
// the protocol gives to one side at a time.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory that peers may write into if `is_writable`; it is given back where the device does not take it.
    pub(super) fn own(
        device: &Arc<Device>,
        mut bytes: RegionMemory,
        is_writable: bool,
    ) -> Result<Self, (RegionMemory, io::Error)> {
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        let access = if is_writable {
            sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 | sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
        } else {
            sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
        };
        match register(device, start, length, access) {
            Ok(region) => Ok(Self {
                region,
                start,
                length,
                backing: Backing::Own(bytes),
                _device: Arc::clone(device),
            }),
            Err(error) => Err((bytes, error)),
        }
    }

    /// Memory that the device only reads.
    pub(super) fn shared(device: &Arc<Device>, bytes: Source) -> io::Result<Self> {
        let (start, length) = (bytes.start().cast_mut(), bytes.length());
        Ok(Self {
            region: register(device, start, length, 0)?,
            start,
            length,
            backing: Backing::Shared(bytes),
            _device: Arc::clone(device),
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.start as u64
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the registration lives as long as `self`.
        unsafe { (*self.region).lkey }
    }

    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: the registration lives as long as `self`.
        unsafe { (*self.region).rkey }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Copies out what is there now; false when the range is not within the memory.
    pub(super) fn copy_out(&self, range: Range<usize>, into: &mut [u8]) -> bool {
        if range.end > self.length || range.start > range.end || into.len() != range.len() {
            return false;
        }
        // SAFETY: the range is within the memory and `into` is another object of the same length.
        unsafe { ptr::copy_nonoverlapping(self.start.add(range.start), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies in; false when it does not fit or the memory is only lent.
    pub(super) fn copy_in(&self, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.length);
        if !fits || matches!(self.backing, Backing::Shared(_)) {
            return false;
        }
        // SAFETY: the range is within memory that we own, and `bytes` is another object.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
        true
    }

    /// Ends the registration and gives the memory back.
    pub(super) fn into_bytes(mut self) -> RegionMemory {
        match &mut self.backing {
            Backing::Own(bytes) => {
                let bytes = std::mem::take(bytes);
                // The registration ends here, before anybody else can reach the bytes.
                drop(self);
                bytes
            }
            Backing::Shared(bytes) => {
                let mut copied = vec![0; bytes.length()];
                bytes.copy_out(0, &mut copied);
                copied.into()
            }
        }
    }
}

/// The callers keep the memory in a `Backing`, whose buffer or map neither moves nor shrinks until it is taken out in
/// `into_bytes` or dropped, after the registration has ended.
fn register(device: &Device, start: *mut u8, length: usize, access: u32) -> io::Result<*mut sys::ibv_mr> {
    let access = i32::try_from(access).map_err(io::Error::other)?;
    // SAFETY: the domain lives as long as the device, and the memory as the callers promise.
    let region = unsafe { sys::ibv_reg_mr(device.domain, start.cast(), length, access) };
    if region.is_null() {
        return Err(io::Error::last_os_error());
    }
    Ok(region)
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: registered once in `register`; queue pairs that could reach it are gone or hold their own share.
        unsafe { sys::ibv_dereg_mr(self.region) };
    }
}
