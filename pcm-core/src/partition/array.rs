//! A partition: an array's description made exact for a number of positions, and the questions about it. Position `p`
//! is rank `p` of the communicator; positions number the grid row-major, the last axis fastest.

use super::axis::{AxisParts, Stripe};
use super::error::PartitionError;
use super::grid::{Grid, grid};
use super::spec::{AXES_MAX, ArraySpec, AxisSpec, POSITIONS_MAX, Split};
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
    /// Divides the array among a number of positions. What costs come to is kept as counts.
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
        let axes = [parts(0)?, parts(1)?, parts(2)?];
        Ok(Self {
            spec: with_counts(spec, &axes),
            positions,
            grid,
            axes,
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

/// The description, with the counts that costs come to.
fn with_counts(spec: &ArraySpec, made: &[AxisParts; AXES_MAX]) -> ArraySpec {
    let axes = spec.axes.iter().zip(made).map(|(axis, parts)| AxisSpec {
        extent: axis.extent,
        split: match &axis.split {
            Split::Costs { .. } => Split::Counts {
                counts: (0..parts.parts()).map(|part| parts.owned_length(part)).collect(),
            },
            other => other.clone(),
        },
        halo: axis.halo,
        edge: axis.edge,
    });
    ArraySpec::new(spec.element_size, axes.collect::<Vec<_>>())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(axes: impl Into<Vec<AxisSpec>>, positions: u32) -> Partition {
        Partition::new(&ArraySpec::new(8, axes), positions).expect("a valid partition")
    }

    fn refused(axes: impl Into<Vec<AxisSpec>>, positions: u32) -> PartitionError {
        Partition::new(&ArraySpec::new(8, axes), positions).expect_err("an invalid partition")
    }

    fn counts(extent: u64, counts: &[u64]) -> AxisSpec {
        AxisSpec::new(
            extent,
            Split::Counts {
                counts: counts.to_vec(),
            },
        )
    }

    #[test]
    fn uneven_blocks_give_the_first_parts_one_more() {
        let rows = partition([AxisSpec::block(10).with_halo(1), AxisSpec::whole(3)], 4);
        let owned: Vec<_> = (0..4).map(|p| rows.owned_interval(p, 0)).collect();
        assert_eq!(owned, [Some((0, 3)), Some((3, 6)), Some((6, 8)), Some((8, 10))]);
        assert_eq!(rows.local_extents(2), [4, 3]);
        assert_eq!(rows.local_offset(2, &[6, 2]), Some(5));
        assert_eq!(rows.local_offset(2, &[5, 2]), None);
    }

    #[test]
    fn more_ranks_than_elements_leaves_empty_parts() {
        let few = partition([AxisSpec::block(2)], 5);
        assert_eq!((0..5).map(|p| few.elements(p)).collect::<Vec<_>>(), [1, 1, 0, 0, 0]);
        assert_eq!(few.owned_boxes(4).count(), 0);
        assert_eq!(few.owner(&[1]), Some(1));
        assert_eq!(few.owner(&[2]), None);
        let empty = partition([AxisSpec::block(0).with_halo(2)], 3);
        assert_eq!((empty.elements(1), empty.local_bytes(1)), (0, 32));
    }

    #[test]
    fn cyclic_blocks_are_dealt_in_turn_and_the_last_may_be_short() {
        let dealt = partition([AxisSpec::cyclic(11, 2)], 3);
        let starts = |p| {
            dealt
                .owned_boxes(p)
                .map(|b| (b.start[0], b.length[0]))
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(0), [(0, 2), (6, 2)]);
        assert_eq!(starts(2), [(4, 2), (10, 1)]);
        assert_eq!(dealt.local_offset(2, &[10]), Some(2));
    }

    #[test]
    fn what_cannot_be_divided_is_refused_with_both_numbers() {
        let sum = PartitionError::CountsDoNotSum {
            axis: 0,
            sum: 9,
            extent: 10,
        };
        assert_eq!(refused([counts(10, &[4, 5])], 2), sum);
        let overflow = PartitionError::CountsDoNotSum {
            axis: 0,
            sum: u64::MAX,
            extent: 10,
        };
        assert_eq!(refused([counts(10, &[u64::MAX, 11])], 2), overflow);
        let parts = PartitionError::PartsDoNotFit {
            fixed: 2,
            positions: 3,
            others_divided: false,
        };
        assert_eq!(refused([counts(9, &[4, 5])], 3), parts);
        assert_eq!(
            refused([AxisSpec::block(1 << 40), AxisSpec::whole(1 << 40)], 2),
            PartitionError::TooLarge {
                extents: vec![1 << 40, 1 << 40],
                element_size: 8
            }
        );
        assert_eq!(
            refused([AxisSpec::cyclic(4, 0)], 2),
            PartitionError::BlockZero { axis: 0 }
        );
        assert_eq!(
            refused([AxisSpec::cyclic(4, 1).with_halo(1)], 2),
            PartitionError::HaloOnCyclicAxis { axis: 0, halo: 1 }
        );
        assert_eq!(
            refused([AxisSpec::block(4).with_halo(5).periodic()], 2),
            PartitionError::HaloBeyondPeriod {
                axis: 0,
                halo: 5,
                extent: 4
            }
        );
        assert_eq!(refused([], 1), PartitionError::AxesOutOfRange { axes: 0 });
        assert_eq!(
            refused([AxisSpec::block(4)], 0),
            PartitionError::PositionsOutOfRange { positions: 0 }
        );
    }

    #[test]
    fn a_written_partition_is_checked_when_read() {
        let written = |spec: &ArraySpec, positions| {
            rmp_serde::to_vec(&Described {
                spec: spec.clone(),
                positions,
            })
            .expect("it can be written")
        };
        let tiles = partition([AxisSpec::block(7), AxisSpec::cyclic(9, 2)], 6);
        let bytes = rmp_serde::to_vec(&tiles).expect("it can be written");
        assert_eq!(
            pcm_proto::unpack::from_slice::<Partition>(&bytes).expect("it can be read"),
            tiles
        );
        let invalid = written(&ArraySpec::new(8, [counts(10, &[4, 5])]), 2);
        let error = pcm_proto::unpack::from_slice::<Partition>(&invalid).expect_err("the counts do not sum");
        assert!(error.to_string().contains("sum to 9, the extent is 10"), "{error}");
    }
}
