//! One array in a move: where its new part lies in memory, what is copied on this process, and how the old storage
//! survives until it is decided. Never sends anything.
#![allow(unsafe_code, reason = "copies within the storage of arrays")]

use super::{
    MoveError,
    leg::{Leg, LegBytes, LegsByProcess},
    local_copy::LocalCopies,
    next_layout::NextLayout,
};
use crate::{
    ahead::{Fresh, Taken},
    region::{
        ArrayRegion, Registry,
        memory::{Capacity, MemoryError, Storage},
    },
};
use pcm_core::{
    partition::{ArraySpec, Partition},
    redistribution::{ArrayPlan, Piece, RankChange, Transfer},
};
use pcm_proto::ids::{ProcessId, RegionId};
use std::{ptr::NonNull, sync::Arc};

/// An array's part of a move.
#[derive(Debug)]
pub(super) struct ArrayMove {
    id: RegionId,
    /// None where the contents do not move.
    plan: Option<Arc<ArrayPlan>>,
    after: Partition,
    registered: ArraySpec,
    rank_after: Option<u32>,
    target: Target,
    copies: LocalCopies,
    /// Copies from images of constant data that came before the meeting.
    arrived: Vec<LocalCopies>,
    /// Halo cells of the old storage on which something arrives.
    saved: Vec<u8>,
}

/// Where the new part is made.
#[derive(Debug)]
enum Target {
    /// The process leaves.
    None,
    /// The storage is as the new part wants it: a newcomer's.
    InPlace { first: NonNull<u8> },
    /// The storage slides; kept cells stay where they are.
    Slides {
        shift: i64,
        length: u64,
        first: NonNull<u8>,
    },
    /// New storage beside the old one.
    Fresh(Storage),
}

/// What all arrays of a move have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides<'a> {
    pub(super) next: &'a NextLayout,
    pub(super) change: &'a RankChange,
    pub(super) process: ProcessId,
}

impl Sides<'_> {
    /// The partitions of an array before and after.
    pub(super) fn partitions(
        &self,
        region: &str,
        registered: &ArraySpec,
        now: &ArraySpec,
    ) -> Result<(Partition, Partition), MoveError> {
        let divided = |spec: &ArraySpec, ranks: u32| {
            Partition::new(spec, ranks).map_err(|error| MoveError::Partition {
                region: region.to_owned(),
                error,
            })
        };
        let shares = self.next.shares();
        let before = divided(now, self.next.old_size)?;
        Ok((before, divided(&shares.applied_to(registered), shares.ranks)?))
    }

    /// This process's ranks before and after.
    fn ranks(&self) -> (Option<u32>, Option<u32>) {
        let (before, after) = (
            self.change.rank_before(self.process),
            self.change.rank_after(self.process),
        );
        (before.map(|rank| rank.0), after.map(|rank| rank.0))
    }
}

impl ArrayMove {
    /// Plans, and takes the memory for what arrives, or takes over new storage that is `ready`. `registered` is the
    /// division the job's first ranks registered,
    /// `now` the one in force.
    pub(super) fn plan(
        registry: &mut Registry,
        id: RegionId,
        registered: &ArraySpec,
        now: &ArraySpec,
        sides: Sides<'_>,
        ready: Option<Fresh>,
    ) -> Result<Self, MoveError> {
        let region = registry.region(id).name.clone();
        let (array, capacity) = registry.array_mut(id);
        let (before, after) = sides.partitions(&region, registered, now)?;
        let (old, new) = sides.ranks();
        if old.is_some() && *array.partition() != before {
            return Err(MoveError::Statement {
                problem: format!(
                    "divides region \"{region}\" otherwise than it is divided here; give the same weights and counts \
                     on every rank"
                ),
            });
        }
        let plan = if array.form().is_scratch {
            None
        } else {
            let halo = array.form().halo;
            let plan = ArrayPlan::for_process(&before, &after, sides.change, sides.process, halo);
            let refused = |error| MoveError::Plan {
                region: region.clone(),
                error,
            };
            Some(Arc::new(plan.map_err(refused)?))
        };
        let target = target(array, capacity, plan.as_deref(), &after, (old, new), ready);
        let target = target.map_err(|error| MoveError::Memory { region, error })?;
        let mut made = Self {
            id,
            plan,
            after,
            registered: registered.clone(),
            rank_after: new,
            target,
            copies: LocalCopies::none(),
            arrived: Vec::new(),
            saved: Vec::new(),
        };
        let old_first = array.storage().pointer();
        if let (Some(plan), Target::Fresh(storage), Some(_)) = (&made.plan, &made.target, old) {
            let pieces = plan.kept().iter().chain(plan.halo_local()).copied();
            made.copies = LocalCopies::new(old_first, storage.pointer(), pieces);
        }
        // SAFETY: the old storage is there and the application stands still.
        unsafe { made.halo_each(old_first, array.storage().length() as u64, Halo::Save) };
        Ok(made)
    }

    pub(super) fn id(&self) -> RegionId {
        self.id
    }

    /// The legs of this array: those that leave, with their receivers, and those that come, with their senders.
    pub(super) fn legs(&self, old_first: NonNull<u8>) -> (LegsByProcess, LegsByProcess) {
        let Some(plan) = &self.plan else {
            return (Vec::new(), Vec::new());
        };
        let legs = |transfers: &[Transfer], first: NonNull<u8>, is_send| {
            let leg = |(at, transfer): (usize, &Transfer)| {
                let bytes = LegBytes::Array {
                    first,
                    plan: Arc::clone(plan),
                    at,
                    is_send,
                };
                let leg = Leg {
                    region: self.id,
                    id: transfer.id(),
                    bytes,
                };
                (transfer.peer().0, leg)
            };
            transfers.iter().enumerate().map(leg).collect::<Vec<_>>()
        };
        let receives = self
            .first_after()
            .map_or_else(Vec::new, |first| legs(plan.receives(), first, false));
        (legs(plan.sends(), old_first, true), receives)
    }

    /// Copies some bytes of what stays here but changes its place; says whether there was anything to copy.
    pub(super) fn copy_step(&mut self, bytes: u64) -> bool {
        // SAFETY: the old cells are live and do not change, the new storage is this move's own.
        if unsafe { self.copies.step(bytes) } {
            return true;
        }
        while let Some(copies) = self.arrived.last_mut() {
            // SAFETY: as above; images live as long as the move, which holds them.
            if unsafe { copies.step(bytes) } {
                return true;
            }
            self.arrived.pop();
        }
        false
    }

    /// Nothing of this array travels: what comes is in images, and what is not at its place yet is copied from there by
    /// [`Self::copy_step`]. Returns the bytes that left this process and those that came.
    pub(super) fn takes_from(&mut self, taken: &mut Taken) -> (u64, u64) {
        let Some(plan) = &self.plan else {
            return (0, 0);
        };
        let total = |transfers: &[Transfer]| transfers.iter().map(Transfer::bytes).sum();
        let is_placed = taken.is_placed(self.id) && matches!(self.target, Target::InPlace { .. });
        if let Some(first) = self.first_after().filter(|_| !is_placed) {
            let rest = taken.rest_of(self.id, first);
            let from = |transfer: &Transfer| {
                let image = taken.storage_of(self.id, transfer.id().from);
                let image = image.expect("all that this process needs was taken, or it had said otherwise");
                LocalCopies::new(image, first, transfer.pieces().iter().copied())
            };
            self.arrived = rest.unwrap_or_else(|| plan.receives().iter().map(from).collect());
        }
        (total(plan.sends()), total(plan.receives()))
    }

    /// The new part becomes the array.
    pub(super) fn commit(mut self, registry: &mut Registry) {
        while self.copy_step(u64::MAX) {}
        let (array, _) = registry.array_mut(self.id);
        let Some(rank) = self.rank_after else {
            return;
        };
        match self.target {
            Target::None => return,
            Target::InPlace { .. } => {}
            Target::Fresh(storage) => array.storage_replace(storage),
            Target::Slides { shift, length, first } => {
                if let Some(plan) = &self.plan {
                    // Halo cells that repeat own cells at another place: on a periodic axis, beyond all old own cells.
                    let moved = plan.halo_local().iter().filter(|piece| piece.shift() != Some(shift));
                    let mut copies = LocalCopies::new(array.storage().pointer(), first, moved.copied());
                    // SAFETY: both parts are open; the sources are old own cells, which no target covers.
                    unsafe { while copies.step(u64::MAX) {} }
                }
                array.storage_mut().slide(shift, length);
            }
        }
        array.take_up(self.registered, self.after, rank);
    }

    /// The array is again what it was.
    pub(super) fn abort(mut self, registry: &mut Registry) {
        let (array, _) = registry.array_mut(self.id);
        if let Target::Slides { .. } = self.target {
            let (first, length) = (array.storage().pointer(), array.storage().length() as u64);
            // SAFETY: the old storage is there; the application stands still.
            unsafe { self.halo_each(first, length, Halo::Restore) };
            array.storage_mut().settle();
        }
    }

    /// Leaves the memory of the new part to MPI, which may still write there; the old halo is put back.
    pub(super) fn abandon(mut self, registry: &mut Registry) {
        let (array, _) = registry.array_mut(self.id);
        let (first, length) = (array.storage().pointer(), array.storage().length() as u64);
        // SAFETY: the old storage is there. A message that still comes may write to its halo, never to its own cells.
        unsafe { self.halo_each(first, length, Halo::Restore) };
        if let Target::Fresh(storage) = self.target {
            std::mem::forget(storage);
        }
    }

    fn first_after(&self) -> Option<NonNull<u8>> {
        match &self.target {
            Target::None => None,
            Target::InPlace { first } | Target::Slides { first, .. } => Some(*first),
            Target::Fresh(storage) => Some(storage.pointer()),
        }
    }

    /// Saves or restores the bytes of the old storage on which something arrives: by the plan's guarantee these are
    /// halo cells.
    ///
    /// # Safety
    /// The old storage begins at `first` and has `length` bytes, which nobody else uses.
    unsafe fn halo_each(&mut self, first: NonNull<u8>, length: u64, act: Halo) {
        let (Some(plan), Target::Slides { shift, .. }) = (&self.plan, &self.target) else {
            return;
        };
        let mut at = 0;
        for piece in plan.receives().iter().flat_map(Transfer::pieces) {
            for (start, end) in landing(piece, *shift, length) {
                let bytes = (end - start) as usize;
                // SAFETY: the range lies in the old storage.
                unsafe {
                    let old = first.add(start as usize).as_ptr();
                    match act {
                        Halo::Save => self.saved.extend_from_slice(std::slice::from_raw_parts(old, bytes)),
                        Halo::Restore => old.copy_from_nonoverlapping(self.saved[at..at + bytes].as_ptr(), bytes),
                    }
                }
                at += bytes;
            }
        }
    }
}

/// Where the new part is made, with the memory for it.
fn target(
    array: &mut ArrayRegion,
    capacity: &mut Capacity,
    plan: Option<&ArrayPlan>,
    after: &Partition,
    (old, new): (Option<u32>, Option<u32>),
    ready: Option<Fresh>,
) -> Result<Target, MemoryError> {
    let Some(new) = new else {
        return Ok(Target::None);
    };
    if old.is_none() && new == array.rank() && array.partition() == after {
        return Ok(Target::InPlace {
            first: array.storage().pointer(),
        });
    }
    let length = after.local_bytes(new);
    let shift = match plan {
        Some(plan) => array.slide_to(plan.reuse(), length),
        None => array
            .shift_to(after, new)
            .filter(|shift| array.storage().can_slide(*shift, length)),
    };
    match shift.filter(|_| old.is_some()) {
        Some(shift) => {
            let kept = plan.map_or(0, |plan| plan.totals().keep);
            capacity.promise(length.saturating_sub(kept))?;
            let first = array.storage_mut().prepare_slide(shift, length)?;
            Ok(Target::Slides { shift, length, first })
        }
        None => match ready.filter(|ready| ready.after == *after && ready.rank == new) {
            Some(ready) => {
                capacity.promise(length)?;
                Ok(Target::Fresh(ready.storage))
            }
            None => array.storage_for(after, new, capacity).map(Target::Fresh),
        },
    }
}

#[derive(Clone, Copy, Debug)]
enum Halo {
    Save,
    Restore,
}

/// Where a piece that arrives lands in old storage of `length` bytes if the new one begins `shift` bytes later.
fn landing(piece: &Piece, shift: i64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let inside = move |offset: u64| offset.saturating_add_signed(shift).min(length);
    let reaches = inside(piece.target.end()) > inside(piece.target.offset());
    let runs = reaches.then(|| piece.target.iter()).into_iter().flatten();
    runs.map(move |run| (inside(run.offset), inside(run.offset + run.length)))
        .filter(|(start, end)| start < end)
}
