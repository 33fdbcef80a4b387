//! A partition: an array's description made exact for a number of positions, and the questions about it. Position `p`
//! is rank `p` of the communicator; positions number the grid row-major, the last axis fastest.

use super::axis::{AxisParts, Stripe};
use super::error::PartitionError;
use super::grid::{Grid, grid};
use super::spec::{AXES_MAX, ArraySpec, AxisSpec, POSITIONS_MAX};
use serde::{Deserialize, Serialize};

/// An array divided among a number of positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Described", into = "Described")]
pub struct Partition {
    spec: ArraySpec,
    positions: u32,
    grid: Grid,
    axes: [AxisParts; AXES_MAX],
}

/// What is written of a partition: all else follows from it.
#[derive(Serialize, Deserialize)]
struct Described {
    spec: ArraySpec,
    positions: u32,
}

impl TryFrom<Described> for Partition {
    type Error = PartitionError;

    fn try_from(described: Described) -> Result<Self, PartitionError> {
        Self::new(&described.spec, described.positions)
    }
}

impl From<Partition> for Described {
    fn from(partition: Partition) -> Self {
        Self {
            spec: partition.spec,
            positions: partition.positions,
        }
    }
}

/// A hyper-rectangle of global indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalBox {
    /// First index along each axis.
    pub start: Vec<u64>,
    /// Number of indices along each axis.
    pub length: Vec<u64>,
}

impl Partition {
    /// Divides the array among a number of positions.
    pub fn new(spec: &ArraySpec, positions: u32) -> Result<Self, PartitionError> {
        if spec.axes.is_empty() || spec.axes.len() > AXES_MAX {
            return Err(PartitionError::AxesOutOfRange { axes: spec.axes.len() });
        }
        if positions == 0 || positions > POSITIONS_MAX {
            return Err(PartitionError::PositionsOutOfRange { positions });
        }
        check_size(spec)?;
        let grid = grid(spec, positions)?;
        let unit = AxisSpec::whole(1);
        let parts = |axis: usize| AxisParts::new(axis, spec.axes.get(axis).unwrap_or(&unit), grid[axis]);
        Ok(Self {
            spec: spec.clone(),
            positions,
            grid,
            axes: [parts(0)?, parts(1)?, parts(2)?],
        })
    }

    /// The description it was made from.
    pub fn spec(&self) -> &ArraySpec {
        &self.spec
    }

    /// The number of positions.
    pub fn positions(&self) -> u32 {
        self.positions
    }

    /// Parts per axis, as many numbers as the array has axes.
    pub fn grid(&self) -> &[u32] {
        &self.grid[..self.spec.axes.len()]
    }

    /// The place of a position in the grid.
    ///
    /// # Panics
    /// If there is no such position; so do all questions about a position.
    pub fn coordinates(&self, position: u32) -> [u32; AXES_MAX] {
        assert!(position < self.positions, "position {position} of {}", self.positions);
        let [_, middle, inner] = self.grid;
        [position / inner / middle, position / inner % middle, position % inner]
    }

    /// The position at a place in the grid.
    pub fn position(&self, coordinates: [u32; AXES_MAX]) -> u32 {
        let [_, middle, inner] = self.grid;
        (coordinates[0] * middle + coordinates[1]) * inner + coordinates[2]
    }

    /// Elements that a position owns.
    pub fn elements(&self, position: u32) -> u64 {
        self.owned_extents(position).iter().product()
    }

    /// Owned elements along each axis.
    pub fn owned_extents(&self, position: u32) -> Vec<u64> {
        let place = self.coordinates(position);
        self.own_axes()
            .zip(place)
            .map(|(axis, part)| axis.owned_length(part))
            .collect()
    }

    /// Elements of local storage along each axis, halo included.
    pub fn local_extents(&self, position: u32) -> Vec<u64> {
        let place = self.coordinates(position);
        self.own_axes()
            .zip(place)
            .map(|(axis, part)| axis.local_length(part))
            .collect()
    }

    /// Bytes of a position's local storage, halo included.
    pub fn local_bytes(&self, position: u32) -> u64 {
        self.local_extents(position).iter().product::<u64>() * u64::from(self.spec.element_size)
    }

    /// What a position owns along one axis, compactly.
    pub fn owned_stripes(&self, position: u32, axis: usize) -> Vec<Stripe> {
        let place = self.coordinates(position);
        self.axes[axis].owned(place[axis]).into_iter().flatten().collect()
    }

    /// The global hyper-rectangles that a position owns, in row-major order of their starts.
    pub fn owned_boxes(&self, position: u32) -> OwnedBoxes {
        let axes = self.spec.axes.len();
        let stripes: Vec<Vec<Stripe>> = (0..axes).map(|axis| self.owned_stripes(position, axis)).collect();
        let counts: Vec<u64> = stripes.iter().map(|s| s.iter().map(|s| s.count).sum()).collect();
        OwnedBoxes {
            is_done: counts.contains(&0),
            next: vec![0; axes],
            stripes,
            counts,
        }
    }

    /// The interval of global indices a position owns along an axis, where that is a single one.
    pub fn owned_interval(&self, position: u32, axis: usize) -> Option<(u64, u64)> {
        let place = self.coordinates(position);
        self.axes[axis].interval(place[axis])
    }

    /// The position that owns a global index; none for an index outside the array.
    pub fn owner(&self, index: &[u64]) -> Option<u32> {
        if index.len() != self.spec.axes.len() {
            return None;
        }
        let mut place = [0; AXES_MAX];
        for ((part, axis), &index) in place.iter_mut().zip(&self.axes).zip(index) {
            *part = axis.owner(index)?;
        }
        Some(self.position(place))
    }

    /// Where a position stores a global index it owns, in elements from the start of its local storage.
    pub fn local_offset(&self, position: u32, index: &[u64]) -> Option<u64> {
        if index.len() != self.spec.axes.len() {
            return None;
        }
        let place = self.coordinates(position);
        let mut offset = 0;
        for ((axis, part), &index) in self.axes.iter().zip(place).zip(index) {
            offset = offset * axis.local_length(part) + axis.local_index(part, index)?;
        }
        Some(offset)
    }

    /// All three axes; those the array does not have are one element long.
    pub(crate) fn axes(&self) -> &[AxisParts; AXES_MAX] {
        &self.axes
    }

    fn own_axes(&self) -> impl Iterator<Item = &AxisParts> {
        self.axes.iter().take(self.spec.axes.len())
    }
}

/// Every local offset in bytes, and every product of extents on the way to it, fits a signed 64-bit number.
fn check_size(spec: &ArraySpec) -> Result<(), PartitionError> {
    if spec.element_size == 0 {
        return Err(PartitionError::ElementSizeZero);
    }
    let extents: Vec<u64> = spec
        .axes
        .iter()
        .map(|axis| axis.extent.saturating_add(axis.halo.saturating_mul(2)))
        .collect();
    let bytes = extents.iter().try_fold(u64::from(spec.element_size), |bytes, &extent| {
        bytes.checked_mul(extent.max(1))
    });
    match bytes {
        Some(bytes) if i64::try_from(bytes).is_ok() => Ok(()),
        _ => Err(PartitionError::TooLarge {
            extents,
            element_size: spec.element_size,
        }),
    }
}

/// Iterator over the hyper-rectangles of a position.
#[derive(Clone, Debug)]
pub struct OwnedBoxes {
    stripes: Vec<Vec<Stripe>>,
    counts: Vec<u64>,
    next: Vec<u64>,
    is_done: bool,
}

impl Iterator for OwnedBoxes {
    type Item = GlobalBox;

    fn next(&mut self) -> Option<GlobalBox> {
        if self.is_done {
            return None;
        }
        let (start, length) = std::iter::zip(&self.stripes, &self.next)
            .map(|(stripes, &interval)| nth_interval(stripes, interval))
            .unzip();
        self.is_done = true;
        for (next, count) in self.next.iter_mut().zip(&self.counts).rev() {
            *next += 1;
            if *next < *count {
                self.is_done = false;
                break;
            }
            *next = 0;
        }
        Some(GlobalBox { start, length })
    }
}

fn nth_interval(stripes: &[Stripe], mut n: u64) -> (u64, u64) {
    for stripe in stripes {
        if n < stripe.count {
            return (stripe.start + n * stripe.stride, stripe.length);
        }
        n -= stripe.count;
    }
    unreachable!("n is below the sum of the counts")
}
