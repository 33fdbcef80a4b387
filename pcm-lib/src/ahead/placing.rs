//! Puts what came of constant arrays to its place, in memory that was opened for it (`memory.rs`), by a thread while
//! the rank iterates. Never touches a byte of the present layout: what belongs there is left to the meeting.
#![allow(unsafe_code, reason = "copies into memory opened beside arrays")]

use super::{
    Memory, Taken, Trip, WhenDone,
    need::{ArrayNeed, is_constant, needs, own_divisions},
};
use crate::{redistribute::LocalCopies, region::Registry};
use pcm_core::redistribution::Transfer;
use pcm_proto::ids::RegionId;
use std::{
    ops::Range,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

/// Copied between two looks whether the meeting has begun: a fraction of a millisecond.
const STEP_BYTES: u64 = 1 << 20;

/// Copies under way, or what is left of them.
#[derive(Debug)]
pub(super) struct Placing {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Lot>>>,
    left: Vec<Lot>,
}

/// What comes to one array.
#[derive(Debug)]
pub(super) struct Lot {
    id: RegionId,
    /// Where the array will begin.
    first: NonNull<u8>,
    beside: Vec<LocalCopies>,
    /// To cells of the present layout: its halo.
    at_meeting: Vec<LocalCopies>,
}

// SAFETY: images and opened memory belong to no thread. Both outlive `Placing`, which ends its thread first, and nobody
// else uses those bytes meanwhile.
unsafe impl Send for Lot {}

impl Placing {
    /// Begins. Where there is no thread to be had, all is left to the meeting.
    pub(super) fn begin(lots: Vec<Lot>, when_placed: WhenDone) -> Self {
        let is_stopped = Arc::<AtomicBool>::default();
        let (of_thread, tell) = (Arc::clone(&is_stopped), Arc::clone(&when_placed));
        let place = move || {
            let left = place(lots, &of_thread);
            tell();
            left
        };
        let thread = thread::Builder::new().name("pcm-constant".to_owned()).spawn(place);
        if thread.is_err() {
            when_placed();
        }
        Self {
            is_stopped,
            thread: thread.ok(),
            left: Vec::new(),
        }
    }

    /// Nothing more is copied from here on.
    pub(super) fn stop(&mut self) {
        self.is_stopped.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Should it have panicked, everything is copied anew.
            self.left = thread.join().unwrap_or_default();
        }
    }

    /// What is left to copy of an array that will begin at `first`. None if nothing is known of that.
    pub(super) fn rest_of(&mut self, id: RegionId, first: NonNull<u8>) -> Option<Vec<LocalCopies>> {
        self.stop();
        let at = self.left.iter().position(|lot| (lot.id, lot.first) == (id, first))?;
        let mut lot = self.left.swap_remove(at);
        lot.beside.append(&mut lot.at_meeting);
        Some(lot.beside)
    }
}

/// The thread must not outlive what it works on.
impl Drop for Placing {
    fn drop(&mut self) {
        self.stop();
    }
}

fn place(mut lots: Vec<Lot>, is_stopped: &AtomicBool) -> Vec<Lot> {
    for copies in lots.iter_mut().flat_map(|lot| &mut lot.beside) {
        // SAFETY: see `Lot`.
        while !is_stopped.load(Relaxed) && unsafe { copies.step(STEP_BYTES) } {}
    }
    lots
}

/// Those arrays whose new memory is there.
pub(super) fn lots(registry: &Registry, trip: &Trip, taken: &Taken, memory: &Memory) -> Vec<Lot> {
    let divisions = own_divisions(registry, is_constant);
    // Whatever is wrong with the plan the meeting will say.
    let (Some(rank), Ok(needs)) = (trip.rank_after(), needs(registry, trip, &divisions)) else {
        return Vec::new();
    };
    needs
        .iter()
        .filter_map(|need| {
            let (first, window) = new_place(registry, need, rank, memory)?;
            lot(need, taken, first, window)
        })
        .collect()
}

/// Where an array will begin, and the bytes from there that are its present cells.
fn new_place(registry: &Registry, need: &ArrayNeed, rank: u32, memory: &Memory) -> Option<(NonNull<u8>, Range<u64>)> {
    let array = registry.array_by_id(need.id);
    let length = need.after.local_bytes(rank);
    match array.slide_to(need.plan.reuse(), length) {
        Some(shift) => {
            let first = array.storage().prepared(shift, length)?;
            let inside = |offset: u64| offset.saturating_add_signed(shift.saturating_neg());
            Some((first, inside(0)..inside(array.storage().length() as u64)))
        }
        None => Some((memory.fresh_of(need.id)?, 0..0)),
    }
}

fn lot(need: &ArrayNeed, taken: &Taken, first: NonNull<u8>, window: Range<u64>) -> Option<Lot> {
    let (mut beside, mut at_meeting) = (Vec::new(), Vec::new());
    for transfer in need.plan.receives() {
        let image = taken.storage_of(need.id, transfer.id().from)?;
        let copies = || LocalCopies::new(image, first, transfer.pieces().iter().copied());
        beside.push(copies().outside(window.clone()));
        if reaches(transfer, &window) {
            at_meeting.push(copies().within(window.clone()));
        }
    }
    Some(Lot {
        id: need.id,
        first,
        beside,
        at_meeting,
    })
}

fn reaches(transfer: &Transfer, window: &Range<u64>) -> bool {
    let mut targets = transfer.pieces().iter().map(|piece| &piece.target);
    targets.any(|runs| runs.offset() < window.end && window.start < runs.end())
}
