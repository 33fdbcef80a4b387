//! Two memory files into which a rank copies what it registered, in turn. They are there, and their pages too, before the
//! first checkpoint, so that a checkpoint is a copy and one message. The one that holds the newest safe checkpoint is
//! never written.
#![allow(unsafe_code, reason = "maps memory files")]

use super::CheckpointOrders;
use crate::{park::Image, region::Registry};
use memmap2::{MmapMut, MmapOptions};
use pcm_proto::ids::CheckpointId;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::{io, os::fd::OwnedFd, sync::Arc};

#[derive(Debug)]
struct Buffer {
    number: u32,
    file: OwnedFd,
    map: MmapMut,
    holds: Option<CheckpointId>,
    is_handed: bool,
    /// Others that have it read the buffer.
    pin: Arc<()>,
}

impl Buffer {
    fn is_read(&self) -> bool {
        Arc::strong_count(&self.pin) > 1
    }
}

/// See the file head.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pair: [Option<Buffer>; 2],
    /// The last checkpoint this rank made.
    made: Option<CheckpointId>,
    count: u32,
}

/// What was copied where.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    pub(crate) buffer: u32,
    pub(crate) bytes: u64,
    /// The memory file, if the daemon does not have it yet.
    pub(crate) file: Option<&'a OwnedFd>,
}

impl Buffers {
    /// Whether the next checkpoint may be made as far as those before go.
    pub(crate) fn is_free(&self, orders: &CheckpointOrders) -> bool {
        let is_read = self.pair[self.next_place(orders)].as_ref().is_some_and(Buffer::is_read);
        self.made.is_none_or(|made| orders.is_over(made)) && !is_read
    }

    /// Whether this is the last one made.
    pub(crate) fn has(&self, id: CheckpointId) -> bool {
        self.made == Some(id)
    }

    /// The buffer that does not hold the newest safe checkpoint.
    fn next_place(&self, orders: &CheckpointOrders) -> usize {
        let settled = orders.settled();
        let is_safe = |buffer: &Option<Buffer>| {
            let holds = buffer.as_ref().and_then(|buffer| buffer.holds);
            holds != Some(settled)
        };
        self.pair.iter().position(is_safe).unwrap_or(0)
    }

    /// The memory file with this checkpoint, to be read: it is not written as long as the last value lives.
    pub(crate) fn read(&self, id: CheckpointId) -> io::Result<(OwnedFd, u64, Arc<()>)> {
        let holds = |buffer: &&Buffer| buffer.holds == Some(id);
        let buffer = self.pair.iter().flatten().find(holds);
        let buffer = buffer.ok_or(io::ErrorKind::NotFound)?;
        Ok((
            buffer.file.try_clone()?,
            buffer.map.len() as u64,
            Arc::clone(&buffer.pin),
        ))
    }

    /// Makes both buffers for what is registered now, unless they fit.
    pub(crate) fn prepare(&mut self, registry: &mut Registry) -> Result<(), String> {
        let image = Image::for_checkpoint(registry, 0).map_err(|error| error.to_string())?;
        let bytes = image.bytes();
        (0..self.pair.len()).try_for_each(|place| self.fit(registry, place, bytes))
    }

    /// Copies what is registered. `iteration` is the one that whoever restores it begins with.
    pub(crate) fn keep(
        &mut self,
        registry: &mut Registry,
        orders: &CheckpointOrders,
        (id, iteration): (CheckpointId, u64),
    ) -> Result<Kept<'_>, String> {
        if !self.is_free(orders) {
            return Err("the checkpoint before was neither settled nor given up, or is still being written".to_owned());
        }
        let image = Image::for_checkpoint(registry, iteration).map_err(|error| error.to_string())?;
        let place = self.next_place(orders);
        self.fit(registry, place, image.bytes())?;
        self.made = Some(id);
        let Some(buffer) = self.pair[place].as_mut() else {
            return Err("there is no buffer".to_owned());
        };
        buffer.holds = Some(id);
        image.copy_into(&mut buffer.map);
        let is_new = !std::mem::replace(&mut buffer.is_handed, true);
        Ok(Kept {
            buffer: buffer.number,
            bytes: image.bytes(),
            file: is_new.then_some(&buffer.file),
        })
    }

    /// The daemon did not get the message: it has neither the data nor the file.
    pub(crate) fn not_told(&mut self, number: u32) {
        let of_number = |buffer: &&mut Option<Buffer>| buffer.as_ref().is_some_and(|buffer| buffer.number == number);
        if let Some(buffer) = self.pair.iter_mut().find(of_number) {
            *buffer = None;
        }
        self.made = None;
    }

    /// A buffer of another length is another buffer: the daemon still has the old one.
    fn fit(&mut self, registry: &mut Registry, place: usize, bytes: u64) -> Result<(), String> {
        let fits = |buffer: &Buffer| buffer.map.len() as u64 == bytes;
        if self.pair[place].as_ref().is_some_and(fits) {
            return Ok(());
        }
        registry.check_room(bytes).map_err(|error| error.to_string())?;
        let made = buffer(self.count, bytes).map_err(|error| format!("no memory file of {bytes} bytes: {error}"))?;
        self.count += 1;
        self.pair[place] = Some(made);
        Ok(())
    }
}

fn buffer(number: u32, bytes: u64) -> io::Result<Buffer> {
    let file = memfd_create("pcm-checkpoint", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    // Readers map it: it must not become shorter under them.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // SAFETY: others only read the file, by contract after this process said that it is written or is dead, and verify
    // checksums of what they read.
    let map = unsafe { MmapOptions::new().populate().map_mut(&file)? };
    Ok(Buffer {
        number,
        file,
        map,
        holds: None,
        is_handed: false,
        pin: Arc::new(()),
    })
}
