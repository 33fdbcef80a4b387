//! What must be true of the plans of all processes together, checked cell by cell against the description of the
//! array alone: none of the interval arithmetic that made the plans is used. For tests, simulation and the laboratory;
//! the cost is that of the array's cells, so small arrays only.

use super::change::RankChange;
use super::chunk::TransferKind;
use super::plan::{ArrayPlan, HaloFill};
use super::region::Piece;
use super::transfer::Transfer;
use crate::partition::{AXES_MAX, Edge, Partition, Split};
use pcm_proto::ids::{ProcessId, Rank};
use std::collections::BTreeMap;

/// Global indices along the axes; axes that the array does not have hold 0.
pub type Cell = [i64; AXES_MAX];

/// The plans of all processes for one array, and what they were made from.
#[derive(Clone, Debug)]
pub struct WholePlan<'a> {
    /// The partition before.
    pub before: &'a Partition,
    /// The partition afterwards.
    pub after: &'a Partition,
    pub change: &'a RankChange,
    /// Whether halos are filled.
    pub halo: HaloFill,
    /// One part per process.
    pub parts: BTreeMap<ProcessId, ArrayPlan>,
}

/// What is wrong with the plans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A cell is lost (0) or doubled.
    #[error("cell {cell:?} is moved or kept {times} times")]
    CellTimes {
        cell: Cell,
        /// How often the plan moves or keeps it.
        times: u32,
    },
    /// A halo cell of a new part is filled never or more than once.
    #[error("halo byte {offset} of new rank {rank} is filled {times} times")]
    HaloTimes {
        /// The new rank.
        rank: Rank,
        /// Byte offset in its local storage.
        offset: u64,
        /// How often it is filled.
        times: u32,
    },
    /// A source does not hold the cell at the place it is taken from.
    #[error("old rank {rank} does not hold cell {cell:?} at byte {offset}")]
    SourceDoesNotHold {
        /// The old rank.
        rank: Rank,
        /// Byte offset in its local storage.
        offset: u64,
        /// The cell it is said to be.
        cell: Cell,
    },
    /// A target does not hold the cell at the place it is put to.
    #[error("new rank {rank} does not hold cell {cell:?} at byte {offset}")]
    TargetDoesNotHold {
        /// The new rank.
        rank: Rank,
        /// Byte offset in its local storage.
        offset: u64,
        /// The cell it is said to be.
        cell: Cell,
    },
    /// What a process sends is not what its peer receives.
    #[error("process {from} sends other bytes than process {to} expects")]
    EndsDisagree { from: ProcessId, to: ProcessId },
    /// A piece is said to stay in place but does not.
    #[error("cells of process {process} that should stay in place do not")]
    KeptMoves { process: ProcessId },
}

impl WholePlan<'_> {
    pub fn check(&self) -> Result<(), Violation> {
        self.invariant_every_cell_exactly_once()?;
        self.invariant_sources_hold_what_they_give()?;
        self.invariant_targets_hold_what_they_get()?;
        self.invariant_ends_agree()?;
        self.invariant_kept_cells_stay()?;
        self.invariant_halos_filled_once()
    }

    /// Every cell of the array, carried margins included, is kept or sent exactly once.
    pub fn invariant_every_cell_exactly_once(&self) -> Result<(), Violation> {
        let mut times: BTreeMap<Cell, u32> = all_cells(self.before).into_iter().map(|cell| (cell, 0)).collect();
        for part in self.parts.values() {
            let sent = part.sends().iter().filter(|t| t.id().kind == TransferKind::Cells);
            for piece in sent.flat_map(Transfer::pieces).chain(part.kept()) {
                for cell in cells(piece) {
                    *times.entry(cell).or_insert(u32::MAX / 2) += 1;
                }
            }
        }
        match times.into_iter().find(|(_, times)| *times != 1) {
            Some((cell, times)) => Err(Violation::CellTimes { cell, times }),
            None => Ok(()),
        }
    }

    /// Each piece is taken from where its source holds those cells as their owner.
    pub fn invariant_sources_hold_what_they_give(&self) -> Result<(), Violation> {
        self.each_piece(|from, _, _, piece| {
            self.each_element(piece, |cell, offset, _| match cell_at(self.before, from, offset) {
                Some((found, true)) if found == cell => Ok(()),
                _ => Err(Violation::SourceDoesNotHold {
                    rank: from,
                    offset,
                    cell,
                }),
            })
        })
    }

    /// Each piece is put where its target holds those cells: as their owner, or in its halo for halo copies.
    pub fn invariant_targets_hold_what_they_get(&self) -> Result<(), Violation> {
        self.each_piece(|_, to, kind, piece| {
            let as_owner = kind != TransferKind::Halo;
            self.each_element(piece, |cell, _, offset| match cell_at(self.after, to, offset) {
                Some((found, is_own)) if found == cell && is_own == as_owner => Ok(()),
                _ => Err(Violation::TargetDoesNotHold { rank: to, offset, cell }),
            })
        })
    }

    /// Both ends of every transfer have the same name, bytes and pieces for it.
    pub fn invariant_ends_agree(&self) -> Result<(), Violation> {
        let mut sent = BTreeMap::new();
        for (&from, part) in &self.parts {
            for transfer in part.sends() {
                sent.insert((from, transfer.peer(), transfer.id()), transfer);
            }
        }
        for (&to, part) in &self.parts {
            for transfer in part.receives() {
                let from = transfer.peer();
                let other = sent.remove(&(from, to, transfer.id()));
                if other.is_none_or(|other| other.pieces() != transfer.pieces()) {
                    return Err(Violation::EndsDisagree { from, to });
                }
            }
        }
        match sent.into_keys().next() {
            Some((from, to, _)) => Err(Violation::EndsDisagree { from, to }),
            None => Ok(()),
        }
    }

    /// Where kept cells are said to stay in place, they do, and nothing that arrives is put on a cell of the old
    /// layout.
    pub fn invariant_kept_cells_stay(&self) -> Result<(), Violation> {
        for (&process, part) in &self.parts {
            let super::storage::StorageReuse::Stays { shift } = part.reuse() else {
                continue;
            };
            let moves = Violation::KeptMoves { process };
            if part.kept().iter().any(|piece| piece.shift() != Some(shift)) {
                return Err(moves);
            }
            let old = self.change.rank_before(process).ok_or_else(|| moves.clone())?;
            for piece in part.receives().iter().flat_map(Transfer::pieces) {
                self.each_element(piece, |_, _, offset| {
                    let address = offset as i64 + shift;
                    let holds = |at| cell_at(self.before, old, at).is_some_and(|(_, is_own)| is_own);
                    match u64::try_from(address) {
                        Ok(at) if at < self.before.local_bytes(old.0) && holds(at) => Err(moves.clone()),
                        _ => Ok(()),
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Every halo cell of every new part that repeats a cell of the array is filled exactly once, or, where halos are
    /// left stale, never.
    pub fn invariant_halos_filled_once(&self) -> Result<(), Violation> {
        let wanted = u32::from(self.halo == HaloFill::Filled);
        let size = u64::from(self.after.spec().element_size);
        let mut times = BTreeMap::new();
        for rank in (0..self.after.positions()).map(Rank) {
            let has_cells = self.after.elements(rank.0) > 0;
            for offset in (0..self.after.local_bytes(rank.0)).step_by(size as usize) {
                if has_cells && cell_at(self.after, rank, offset).is_some_and(|(_, is_own)| !is_own) {
                    times.insert((rank, offset), 0);
                }
            }
        }
        self.each_piece(|_, to, kind, piece| {
            self.each_element(piece, |_, _, offset| {
                if kind == TransferKind::Halo {
                    *times.entry((to, offset)).or_insert(u32::MAX / 2) += 1;
                }
                Ok(())
            })
        })?;
        match times.into_iter().find(|(_, times)| *times != wanted) {
            Some(((rank, offset), times)) => Err(Violation::HaloTimes { rank, offset, times }),
            None => Ok(()),
        }
    }

    /// Visits every piece once, with its old and new rank; those sent are taken from their sender.
    fn each_piece(
        &self,
        mut visit: impl FnMut(Rank, Rank, TransferKind, &Piece) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        for (&process, part) in &self.parts {
            for transfer in part.sends() {
                let id = transfer.id();
                for piece in transfer.pieces() {
                    visit(id.from, id.to, id.kind, piece)?;
                }
            }
            let ranks = (self.change.rank_before(process), self.change.rank_after(process));
            if let (Some(from), Some(to)) = ranks {
                part.kept()
                    .iter()
                    .try_for_each(|piece| visit(from, to, TransferKind::Cells, piece))?;
                part.halo_local()
                    .iter()
                    .try_for_each(|piece| visit(from, to, TransferKind::Halo, piece))?;
            }
        }
        Ok(())
    }

    /// Visits every element of a piece in stream order: its cell, its byte offset at the source and at the target.
    fn each_element(
        &self,
        piece: &Piece,
        mut visit: impl FnMut(Cell, u64, u64) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let size = u64::from(self.before.spec().element_size);
        for (n, cell) in (0..).zip(cells(piece)) {
            let at = |runs: &super::runs::LocalRuns| runs.slice(n * size, (n + 1) * size).next().map(|run| run.offset);
            let missing = u64::MAX;
            visit(
                cell,
                at(&piece.source).unwrap_or(missing),
                at(&piece.target).unwrap_or(missing),
            )?;
        }
        Ok(())
    }
}

/// The cells of a piece in stream order.
pub fn cells(piece: &Piece) -> Vec<Cell> {
    let [a, b, c] = piece.global.map(|run| {
        (0..run.count)
            .flat_map(|k| (0..run.length).map(move |i| run.start + (k * run.stride + i) as i64))
            .collect::<Vec<i64>>()
    });
    product(&a, &b, &c)
}

/// All cells of an array, carried margins included; none for an array without elements.
pub fn all_cells(partition: &Partition) -> Vec<Cell> {
    let axes = &partition.spec().axes;
    if axes.iter().any(|axis| axis.extent == 0) {
        return Vec::new();
    }
    let [a, b, c] = std::array::from_fn(|axis| match axes.get(axis) {
        Some(axis) => {
            let margin = if axis.edge == Edge::Carried {
                axis.halo as i64
            } else {
                0
            };
            (-margin..axis.extent as i64 + margin).collect::<Vec<i64>>()
        }
        None => vec![0],
    });
    product(&a, &b, &c)
}

fn product(a: &[i64], b: &[i64], c: &[i64]) -> Vec<Cell> {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (*x, *y)));
    pairs.flat_map(|(x, y)| c.iter().map(move |z| [x, y, *z])).collect()
}

/// What a rank stores at a byte offset: the cell, and whether the rank is its one holder (its owner, or for a margin
/// cell the owner of the nearest element). None for storage that stands for nothing.
pub fn cell_at(partition: &Partition, rank: Rank, offset: u64) -> Option<(Cell, bool)> {
    let mut element = offset / u64::from(partition.spec().element_size);
    let mut cell = [0; AXES_MAX];
    let mut nearest = vec![0; partition.spec().axes.len()];
    let mut wraps = false;
    let extents = partition.local_extents(rank.0);
    for (axis, extent) in extents.iter().enumerate().rev() {
        let local = element.checked_rem(*extent)?;
        element /= extent;
        let spec = &partition.spec().axes[axis];
        let index = match &spec.split {
            Split::Cyclic { block } => {
                let place = partition.coordinates(rank.0)[axis];
                let parts = u64::from(partition.grid()[axis]);
                ((local / block * parts + u64::from(place)) * block + local % block) as i64
            }
            _ => partition.owned_interval(rank.0, axis)?.0 as i64 - spec.halo as i64 + local as i64,
        };
        let length = spec.extent as i64;
        cell[axis] = if spec.edge == Edge::Periodic && length > 0 {
            index.rem_euclid(length)
        } else {
            index
        };
        wraps |= cell[axis] != index;
        nearest[axis] = cell[axis].clamp(0, (length - 1).max(0)) as u64;
    }
    let is_owner = partition.owner(&nearest)? == rank.0;
    Some((
        cell,
        is_owner && element == 0 && !wraps && lies_inside(partition, rank, offset),
    ))
}

/// Whether an offset is outside the halo of every axis, or in a halo beyond the end of a carried axis whose last part
/// this is.
fn lies_inside(partition: &Partition, rank: Rank, offset: u64) -> bool {
    let mut element = offset / u64::from(partition.spec().element_size);
    let extents = partition.local_extents(rank.0);
    extents.iter().enumerate().rev().all(|(axis, extent)| {
        let local = element % extent;
        element /= extent;
        let spec = &partition.spec().axes[axis];
        let Some((lo, hi)) = partition.owned_interval(rank.0, axis) else {
            return true;
        };
        let carried = spec.edge == Edge::Carried;
        let from = if carried && lo == 0 { 0 } else { spec.halo };
        let to = if carried && hi == spec.extent {
            *extent
        } else {
            extent - spec.halo
        };
        lo < hi && (from..to).contains(&local)
    })
}
