//! What becomes of the local storage of a process that stays, and how much memory it needs meanwhile. Never decides
//! how the storage is mapped: it says what is true of the bytes.

use super::region::End;
use crate::partition::AXES_MAX;

/// Whether the cells a process keeps can stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageReuse {
    /// Nothing is kept: a newcomer, a leaver, or a part that moved altogether.
    Nothing,
    /// All kept cells stay if the start of local storage moves by `shift` bytes (0: stays). Cells that arrive then
    /// never lie where the old layout has cells, so that the old layout is intact until the old storage is released.
    Stays {
        /// New start minus old start.
        shift: i64,
    },
    /// Strides or the order of cells change: new storage beside the old one, kept cells copied.
    Copied,
}

/// Cells stay in place when all axes but the leading one (the slowest that is longer than one cell) are held alike
/// before and after, and the leading one is either held alike or is one interval on both sides: then the address of a
/// cell depends on its global index in the same way.
pub(super) fn storage_reuse(source: End<'_>, target: End<'_>, element_size: u64) -> StorageReuse {
    let held_alike =
        |axis: usize| source.axes[axis].owned(source.place[axis]) == target.axes[axis].owned(target.place[axis]);
    let leading = (0..AXES_MAX)
        .find(|&axis| target.axes[axis].local_length_max() > 1)
        .unwrap_or(0);
    if !(leading + 1..AXES_MAX).all(held_alike) {
        return StorageReuse::Copied;
    }
    let row_bytes = target.local_extents()[leading + 1..].iter().product::<u64>() * element_size;
    let intervals = [source, target].map(|end| end.axes[leading].interval(end.place[leading]));
    match intervals {
        [Some((before, _)), Some((after, _))] => StorageReuse::Stays {
            shift: (after as i64 - before as i64) * row_bytes as i64,
        },
        _ if held_alike(leading) => StorageReuse::Stays { shift: 0 },
        _ => StorageReuse::Copied,
    }
}

/// Most bytes a process needs beside its old storage, the executor's window of chunks in flight not counted.
pub(super) fn extra_bytes_max(reuse: StorageReuse, storage_after: u64, kept: u64) -> u64 {
    match reuse {
        StorageReuse::Stays { .. } => storage_after - kept,
        StorageReuse::Nothing | StorageReuse::Copied => storage_after,
    }
}
