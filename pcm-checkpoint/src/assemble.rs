//! A whole array of a checkpoint as one `.npy` file. Holds no more of it in memory than a run of a part.

use crate::{
    checkpoint::Checkpoint,
    damage::Damage,
    manifest::{ArrayRecord, RegionRecord},
    npy::npy_header,
    restore::{RestoreError, for_each_run},
};
use pcm_core::{
    partition::{Partition, PartitionError, Split},
    redistribution::HaloFill,
};
use std::{fs::File, io, os::unix::fs::FileExt};

/// Bytes moved at once.
const PIECE_BYTES_MAX: u64 = 4 << 20;

/// Why an array was not exported; the output is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A part cannot be used, or the array not be put together.
    #[error(transparent)]
    Restore(RestoreError),
    /// The array cannot be one part: a defect.
    #[error(transparent)]
    Partition(PartitionError),
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// Writes an array in its global order; with `margins` also the application's cells beyond its ends. Returns its shape.
pub fn export(
    checkpoint: &Checkpoint,
    region: &RegionRecord,
    array: &ArrayRecord,
    margins: bool,
    out: &File,
) -> Result<Vec<u64>, ExportError> {
    let mut spec = array.partition.spec().clone();
    spec.axes.iter_mut().for_each(|axis| axis.split = Split::Whole);
    let whole = Partition::new(&spec, 1).map_err(ExportError::Partition)?;
    let crop = Crop::new(array, margins);
    let shape = crop.shape();
    let header = npy_header(&array.dtype, &shape);
    let data = header.len() as u64;
    let bytes = shape.iter().product::<u64>() * crop.element_bytes;
    let prepared = out.set_len(data + bytes).and_then(|()| out.write_all_at(&header, 0));
    prepared.map_err(ExportError::Write)?;
    let mut buffer = Vec::new();
    for_each_run::<ExportError>(checkpoint, region, array, (&whole, 0), HaloFill::Stale, |part, run| {
        let mut done = 0;
        while done < run.length {
            let length = (run.length - done).min(PIECE_BYTES_MAX);
            buffer.resize(length as usize, 0);
            part.read(run.source + done, &mut buffer)?;
            for kept in crop.of(run.target + done, length) {
                let bytes = &buffer[kept.from as usize..(kept.from + kept.length) as usize];
                out.write_all_at(bytes, data + kept.to).map_err(ExportError::Write)?;
            }
            done += length;
        }
        Ok(())
    })?;
    Ok(shape)
}

/// Takes the cells wanted out of storage that has a halo on both sides of every axis.
struct Crop {
    element_bytes: u64,
    /// By axis: cells stored, the first one wanted, one past the last.
    axes: Vec<(u64, u64, u64)>,
}

/// Bytes `from..from + length` of what was asked about, which go to `to`.
struct Kept {
    from: u64,
    length: u64,
    to: u64,
}

impl Crop {
    fn new(array: &ArrayRecord, margins: bool) -> Self {
        let spec = array.partition.spec();
        let axes = spec.axes.iter().zip(&array.margins).map(|(axis, margin)| {
            let margin = if margins { *margin } else { 0 };
            let stored = axis.extent + 2 * axis.halo;
            (stored, axis.halo - margin, axis.halo + axis.extent + margin)
        });
        Self {
            element_bytes: u64::from(spec.element_size),
            axes: axes.collect(),
        }
    }

    fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|(_, first, end)| end - first).collect()
    }

    /// What is wanted of these bytes of storage. The storage is seen as rows: all cells of the last axis that is cut,
    /// with everything faster than it.
    fn of(&self, offset: u64, length: u64) -> Vec<Kept> {
        let is_cut = |(stored, first, end): &(u64, u64, u64)| *first > 0 || end < stored;
        let Some(cut) = self.axes.iter().rposition(is_cut) else {
            return vec![Kept {
                from: 0,
                length,
                to: offset,
            }];
        };
        let cell: u64 = self.axes[cut + 1..].iter().map(|(stored, ..)| stored).product::<u64>() * self.element_bytes;
        let (stored, first, end) = self.axes[cut];
        let (row, wanted) = (stored * cell, (first * cell, end * cell));
        let mut kept = Vec::new();
        let mut at = offset;
        while at < offset + length {
            let (index, within) = (at / row, at % row);
            let stop = (row * (index + 1)).min(offset + length);
            let (from, until) = (within.max(wanted.0), (within + stop - at).min(wanted.1));
            if let (Some(place), true) = (self.place(index, cut), from < until) {
                kept.push(Kept {
                    from: at - offset + from - within,
                    length: until - from,
                    to: place * (wanted.1 - wanted.0) + from - wanted.0,
                });
            }
            at = stop;
        }
        kept
    }

    /// The number of a row among those wanted.
    fn place(&self, row: u64, cut: usize) -> Option<u64> {
        let (mut rest, mut place, mut weight) = (row, 0, 1);
        for (stored, first, end) in self.axes[..cut].iter().rev() {
            let index = rest % stored;
            rest /= stored;
            if index < *first || index >= *end {
                return None;
            }
            place += (index - first) * weight;
            weight *= end - first;
        }
        Some(place)
    }
}

impl From<RestoreError> for ExportError {
    fn from(error: RestoreError) -> Self {
        Self::Restore(error)
    }
}

impl From<Damage> for ExportError {
    fn from(damage: Damage) -> Self {
        Self::Restore(RestoreError::Damage(damage))
    }
}
