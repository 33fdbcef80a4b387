//! Takes what this process needs of the others' constant arrays from their images. A newcomer puts it to its place at
//! once, where that is sure already; a rank that computes has it put into memory beside what it has (`placing.rs`).
#![allow(unsafe_code, reason = "copies into the storage of arrays")]

use super::{
    Memory, Trip, WhenDone,
    need::{ArrayNeed, Division, is_constant, needs, own_divisions},
    placing::{Placing, lots},
};
use crate::{
    park::{Opened, RestoreError, Source, check_registrations},
    redistribute::LocalCopies,
    region::{Kind, Registry},
};
use pcm_core::{
    parked::{Contents, Place},
    redistribution::Transfer,
};
use pcm_proto::ids::{Rank, RegionId};
use std::{
    collections::{BTreeMap, BTreeSet},
    ptr::NonNull,
};

/// All constant data that this process needs of others, before the meeting.
#[derive(Debug)]
pub(crate) struct Taken {
    // First, so that its thread has ended before the images go.
    placing: Option<Placing>,
    images: BTreeMap<Rank, Opened>,
    /// Arrays whose storage has it already.
    placed: BTreeSet<RegionId>,
    /// Swaps of constant arrays when it was taken.
    swaps: u64,
}

impl Taken {
    /// Whether what was taken still is what the arrays' others have.
    pub(crate) fn is_good(&self, registry: &Registry) -> bool {
        self.swaps == registry.ahead_spoilt()
    }

    /// Whether an array's storage has what it needs already.
    pub(crate) fn is_placed(&self, id: RegionId) -> bool {
        self.placed.contains(&id)
    }

    /// A rank that computes: begins to put what came into the memory that was made for it.
    pub(crate) fn place_beside(&mut self, registry: &Registry, trip: &Trip, memory: &Memory, when_placed: WhenDone) {
        let lots = lots(registry, trip, self, memory);
        if lots.is_empty() {
            when_placed();
        } else {
            self.placing = Some(Placing::begin(lots, when_placed));
        }
    }

    /// The meeting has begun: nothing more is put to its place.
    pub(crate) fn stop(&mut self) {
        if let Some(placing) = &mut self.placing {
            placing.stop();
        }
    }

    /// What is left to copy of an array that begins at `first`; None if nothing was copied there.
    pub(crate) fn rest_of(&mut self, id: RegionId, first: NonNull<u8>) -> Option<Vec<LocalCopies>> {
        self.placing.as_mut()?.rest_of(id, first)
    }

    /// The first byte of the storage of an array as the old rank `from` had it. All that this process needs of it is
    /// there, as long as this lives.
    pub(crate) fn storage_of(&self, id: RegionId, from: Rank) -> Option<NonNull<u8>> {
        let image = self.images.get(&from)?;
        let bytes = image.bytes(storage_place(image, id)?).ok()?;
        Some(NonNull::from(bytes).cast())
    }
}

/// Takes all of it, or fails; then nothing has changed that counts.
pub(crate) fn take(registry: &mut Registry, trip: &Trip, source: &mut dyn Source) -> Result<Taken, RestoreError> {
    let mut images = BTreeMap::new();
    let swaps = registry.ahead_spoilt();
    let divisions = if trip.is_member() {
        own_divisions(registry, is_constant)
    } else {
        let first = Opened::new(source, Rank(0))?;
        check_registrations(registry, &first)?;
        let divisions = stated_divisions(registry, &first);
        images.insert(Rank(0), first);
        divisions
    };
    let needs = needs(registry, trip, &divisions)?;
    let mut senders: Vec<Rank> = needs
        .iter()
        .flat_map(receives)
        .map(|transfer| transfer.id().from)
        .collect();
    senders.sort_unstable();
    senders.dedup();
    for from in senders {
        let mut image = match images.remove(&from) {
            Some(image) => image,
            None => Opened::new(source, from)?,
        };
        let places = places(&needs, from, &image)?;
        image.get(source, &places)?;
        images.insert(from, image);
    }
    let mut taken = Taken {
        placing: None,
        images,
        placed: BTreeSet::new(),
        swaps,
    };
    if !trip.is_member() {
        for need in &needs {
            taken.place(registry, trip, need);
        }
    }
    Ok(taken)
}

fn receives(need: &ArrayNeed) -> impl Iterator<Item = &Transfer> {
    need.plan.receives().iter()
}

fn stated_divisions(registry: &Registry, first: &Opened) -> Vec<(RegionId, Division)> {
    let constant = registry.regions().filter_map(|(id, region)| match &region.kind {
        Kind::Array(array) if array.form().is_constant => match first.contents(id.0 as usize) {
            Ok(Contents::Array {
                registered, in_force, ..
            }) => {
                let (registered, in_force) = (registered.clone(), in_force.clone());
                Some((id, Division { registered, in_force }))
            }
            _ => None,
        },
        _ => None,
    });
    constant.collect()
}

fn storage_place(image: &Opened, id: RegionId) -> Option<Place> {
    match image.contents(id.0 as usize) {
        Ok(Contents::Array { storage, .. }) => *storage,
        _ => None,
    }
}

/// What is needed of one image.
fn places(needs: &[ArrayNeed], from: Rank, image: &Opened) -> Result<Vec<Place>, RestoreError> {
    let mut places = Vec::new();
    for need in needs {
        let storage = storage_place(image, need.id)
            .filter(|storage| storage.length == need.before.local_bytes(from.0))
            .ok_or_else(|| image.damaged("a constant array is not there as it is divided"))?;
        let own = receives(need).filter(|transfer| transfer.id().from == from);
        let runs = own.flat_map(Transfer::pieces).flat_map(|piece| piece.source.iter());
        places.extend(runs.map(|run| Place {
            offset: storage.offset.saturating_add(run.offset),
            length: run.length,
        }));
    }
    Ok(places)
}

impl Taken {
    /// Puts an array's data to its place, if the storage is already as the next layout wants it.
    fn place(&mut self, registry: &mut Registry, trip: &Trip, need: &ArrayNeed) {
        let array = registry.array_mut(need.id).0;
        if *array.partition() != need.after || Some(array.rank()) != trip.rank_after() {
            return;
        }
        let storage = array.storage_mut();
        let (first, length) = (storage.pointer(), storage.length());
        // SAFETY: the array's own open storage; the program is in a call of the library.
        let storage = unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), length) };
        for transfer in receives(need) {
            let image = self.images.get(&transfer.id().from);
            let parked = image.and_then(|image| image.bytes(storage_place(image, need.id)?).ok());
            let Some(parked) = parked else { return };
            for run in transfer
                .pieces()
                .iter()
                .flat_map(|piece| piece.source.copies_to(&piece.target))
            {
                let part = |at: u64| at as usize..(at + run.length) as usize;
                storage[part(run.target)].copy_from_slice(&parked[part(run.source)]);
            }
        }
        self.placed.insert(need.id);
    }
}
