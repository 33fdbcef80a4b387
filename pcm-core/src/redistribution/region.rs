//! A piece of a transfer: a regular set of global cells and where both ends store it. Never knows who the ends are.

use super::meeting::AxisRun;
use super::runs::LocalRuns;
use crate::partition::{AXES_MAX, AxisParts, Partition};
use pcm_proto::ids::Rank;

/// `count` intervals of `length` global indices along one axis, `stride` apart. Indices below 0 or from the extent on
/// are carried margin cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRun {
    pub start: i64,
    /// Indices of one interval.
    pub length: u64,
    /// Number of intervals.
    pub count: u64,
    /// Distance between two of them; 0 for a single one.
    pub stride: u64,
}

/// The product of one run per axis, and its bytes on both sides. Both are read in the same order: the streams are
/// equal byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which cells, by axis; axes that the array does not have hold index 0.
    pub global: [GlobalRun; AXES_MAX],
    /// Where the process that has them stores them.
    pub source: LocalRuns,
    /// Where the process that gets them stores them.
    pub target: LocalRuns,
}

/// One end of a transfer: its part along each axis.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) axes: &'a [AxisParts; AXES_MAX],
    pub(super) place: [u32; AXES_MAX],
}

impl<'a> End<'a> {
    pub(super) fn new(partition: &'a Partition, rank: Rank) -> Self {
        Self {
            axes: partition.axes(),
            place: partition.coordinates(rank.0),
        }
    }

    pub(super) fn local_extents(&self) -> [u64; AXES_MAX] {
        std::array::from_fn(|axis| self.axes[axis].local_length(self.place[axis]))
    }
}

impl Piece {
    pub(super) fn new(runs: &[AxisRun; AXES_MAX], source: End<'_>, target: End<'_>, element_size: u64) -> Self {
        Self {
            global: std::array::from_fn(|axis| GlobalRun {
                start: runs[axis].start as i64 - source.axes[axis].margin() as i64,
                length: runs[axis].length,
                count: runs[axis].count,
                stride: runs[axis].stride,
            }),
            source: LocalRuns::new(
                runs,
                |r| (r.source, r.source_stride),
                source.local_extents(),
                element_size,
            ),
            target: LocalRuns::new(
                runs,
                |r| (r.target, r.target_stride),
                target.local_extents(),
                element_size,
            ),
        }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    /// By how many bytes the start of local storage must move for this piece to be in place without a copy; none if
    /// its strides change. 0 means that it stays where it is.
    pub fn shift(&self) -> Option<i64> {
        self.source
            .has_shape_of(&self.target)
            .then(|| self.source.offset() as i64 - self.target.offset() as i64)
    }
}
