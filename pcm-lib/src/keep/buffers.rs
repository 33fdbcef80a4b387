//! Two memory files into which a rank copies what it registered, in turn. Of a program that is to make checkpoints they
//! are there, and their pages too, before the first, so that a checkpoint is a copy and one message; else a first copy
//! makes the pages. Who reads a buffer may follow the copy. The one that holds the newest safe checkpoint is never
//! written.
#![allow(unsafe_code, reason = "maps memory files")]

use super::{CheckpointOrders, Filled, Filling};
use crate::{park::Image, region::Registry};
use memmap2::{MmapMut, MmapOptions};
use pcm_proto::ids::CheckpointId;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::{
    fs::File,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

#[derive(Debug)]
struct Buffer {
    number: u32,
    file: File,
    bytes: u64,
    /// Once it has pages: writing a page that is not there makes and fills it in one go, for half of what it takes to
    /// make pages and then to fill them.
    map: Option<MmapMut>,
    holds: Option<CheckpointId>,
    /// How far the copy has come that is in it.
    filled: Arc<Filled>,
    is_handed: bool,
    /// Others that have it read the buffer.
    pin: Arc<()>,
}

impl Buffer {
    fn is_read(&self) -> bool {
        Arc::strong_count(&self.pin) > 1
    }

    /// Makes the pages that are not there, and maps all.
    fn touch(&mut self) -> io::Result<()> {
        if self.map.is_none() {
            // SAFETY: others only read the file, by contract after this process said that it is written, or how far, or
            // is dead, and verify checksums of what they read.
            self.map = Some(unsafe { MmapOptions::new().populate().map_mut(&self.file)? });
        }
        Ok(())
    }

    fn fill(&mut self, image: &Image, filling: Filling) -> io::Result<()> {
        match &mut self.map {
            // Who followed this would only take CPUs from it.
            Some(map) => image.copy_into(map),
            None => image.fill(&self.file, &|end| filling.reached(end))?,
        }
        filling.finish();
        Ok(())
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

/// A checkpoint that has a buffer and is to be copied there.
#[derive(Debug)]
pub(crate) struct Begun {
    image: Image,
    place: usize,
    filling: Filling,
    /// What it took so far.
    took: Duration,
}

/// What was copied where.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    pub(crate) buffer: u32,
    pub(crate) bytes: u64,
    /// The memory file, if the daemon does not have it yet.
    pub(crate) file: Option<&'a File>,
    pub(crate) held: Duration,
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
    /// It may be read as far as it is filled.
    pub(crate) fn read(&self, id: CheckpointId) -> io::Result<(&File, Arc<Filled>, Arc<()>)> {
        let holds = |buffer: &&Buffer| buffer.holds == Some(id);
        let buffer = self.pair.iter().flatten().find(holds);
        let buffer = buffer.ok_or(io::ErrorKind::NotFound)?;
        Ok((&buffer.file, Arc::clone(&buffer.filled), Arc::clone(&buffer.pin)))
    }

    /// Makes both buffers for what is registered now, unless they fit.
    pub(crate) fn prepare(&mut self, registry: &mut Registry) -> Result<(), String> {
        let image = Image::for_checkpoint(registry, 0).map_err(|error| error.to_string())?;
        let bytes = image.bytes();
        (0..self.pair.len()).try_for_each(|place| {
            let buffer = self.fit(registry, place, bytes)?;
            buffer.touch().map_err(no_memory(bytes))
        })
    }

    /// Finds a buffer for what is registered. `iteration` is the one that whoever restores it begins with.
    pub(crate) fn begin(
        &mut self,
        registry: &mut Registry,
        orders: &CheckpointOrders,
        (id, iteration): (CheckpointId, u64),
    ) -> Result<Begun, String> {
        if !self.is_free(orders) {
            return Err(
                "the previous checkpoint was neither settled nor abandoned, or is still being written".to_owned(),
            );
        }
        let since = Instant::now();
        let image = Image::for_checkpoint(registry, iteration).map_err(|error| error.to_string())?;
        let place = self.next_place(orders);
        let buffer = self.fit(registry, place, image.bytes())?;
        if buffer.holds.is_some() {
            buffer.touch().map_err(no_memory(image.bytes()))?;
        }
        let filling = Filling::default();
        buffer.filled = filling.filled();
        buffer.holds = Some(id);
        self.made = Some(id);
        Ok(Begun {
            image,
            place,
            filling,
            took: since.elapsed(),
        })
    }

    pub(crate) fn keep(&mut self, begun: Begun) -> Result<Kept<'_>, String> {
        let since = Instant::now();
        let (place, bytes) = (&mut self.pair[begun.place], begun.image.bytes());
        let mut buffer = place.take().ok_or("there is no buffer")?;
        // One that the daemon has is mapped, and copying there does not fail: what is dropped here nobody has yet.
        let filled = buffer.fill(&begun.image, begun.filling);
        filled.map_err(no_memory(bytes))?;
        let is_new = !std::mem::replace(&mut buffer.is_handed, true);
        let buffer = place.insert(buffer);
        Ok(Kept {
            buffer: buffer.number,
            bytes,
            file: is_new.then_some(&buffer.file),
            held: begun.took + since.elapsed(),
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

    /// The buffer of this place. One of another length is another buffer: the daemon still has the old one.
    fn fit(&mut self, registry: &mut Registry, place: usize, bytes: u64) -> Result<&mut Buffer, String> {
        let place = &mut self.pair[place];
        if place.as_ref().is_none_or(|buffer| buffer.bytes != bytes) {
            registry.check_room(bytes).map_err(|error| error.to_string())?;
            *place = Some(buffer(self.count, bytes).map_err(no_memory(bytes))?);
            self.count += 1;
        }
        place.as_mut().ok_or_else(|| "there is no buffer".to_owned())
    }
}

fn no_memory(bytes: u64) -> impl Fn(io::Error) -> String {
    move |error| format!("no memory file of {bytes} bytes: {error}")
}

fn buffer(number: u32, bytes: u64) -> io::Result<Buffer> {
    let file = memfd_create("pcm-checkpoint", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    // Readers map it: it must not become shorter under them.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(Buffer {
        number,
        file: file.into(),
        bytes,
        map: None,
        holds: None,
        filled: Arc::default(),
        is_handed: false,
        pin: Arc::new(()),
    })
}
