//! A distributed array: its description, the partition in force, and this rank's storage. Never moves an element
//! between processes.

use super::{
    ElementType, RegionError,
    home::Home,
    memory::{Capacity, MemoryError, Place, SharedMemory, Storage},
};
use pcm_core::{
    partition::{AXES_MAX, ArraySpec, Partition, PartitionError, Split, counts_by_costs},
    redistribution::{HaloFill, StorageReuse},
};
use pcm_proto::registered::EXTENT_MAX;
use std::{cell::RefCell, fmt};

/// What an application says of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayForm {
    /// Type of its elements.
    pub element: ElementType,
    /// Extents, division, halo.
    pub spec: ArraySpec,
    /// Whether halos are brought up to date when parts move.
    pub halo: HaloFill,
    /// Its contents mean nothing between two iterations: it is resized, but nothing moves.
    pub is_scratch: bool,
    /// Its contents never change after the start.
    pub is_constant: bool,
}

/// A registered array.
pub struct ArrayRegion {
    form: ArrayForm,
    partition: Partition,
    rank: u32,
    storage: Storage,
    /// Who makes its storage, if that is not the library.
    program: Option<SharedMemory>,
}

impl fmt::Debug for ArrayRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}, rank {} of {:?}: {:?}",
            self.form, self.rank, self.partition, self.storage
        )
    }
}

/// How large the parts of the next layout are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares<'a> {
    /// Number of ranks.
    pub ranks: u32,
    /// One weight per rank; none means that the description decides.
    pub weights: &'a [u32],
}

impl Shares<'_> {
    /// The description of an array under these shares: weights, where there are any, divide the one axis that is
    /// divided into intervals; costs of its elements count beside them. Weights and counts of the application hold for
    /// as many ranks as they name, and are equal blocks for any other number.
    pub fn applied_to(&self, spec: &ArraySpec) -> ArraySpec {
        let mut spec = spec.clone();
        let has_weights = self.weights.len() == self.ranks as usize && self.weights.iter().all(|weight| *weight > 0);
        if let (true, Some(axis)) = (has_weights, axis_by_shares(&spec)) {
            spec.axes[axis].split = match &spec.axes[axis].split {
                Split::Costs { costs } => Split::Counts {
                    counts: counts_by_costs(costs, self.weights),
                },
                _ => Split::Weighted {
                    weights: self.weights.iter().map(|weight| f64::from(*weight)).collect(),
                },
            };
            return spec;
        }
        if Partition::new(&spec, self.ranks).is_err() {
            for axis in &mut spec.axes {
                if matches!(axis.split, Split::Weighted { .. } | Split::Counts { .. }) {
                    axis.split = Split::Block;
                }
            }
        }
        spec
    }
}

/// The extent that shares of ranks can divide in an array of this description, as others are told of it.
pub(super) fn shared_extent(spec: &ArraySpec) -> Option<u64> {
    let axis = &spec.axes[axis_by_shares(spec)?];
    Some(if axis.split == Split::Block {
        axis.extent
    } else {
        EXTENT_MAX
    })
}

/// The axis that shares divide: the only one that is divided, unless blocks of it take turns.
fn axis_by_shares(spec: &ArraySpec) -> Option<usize> {
    let mut divided = spec
        .axes
        .iter()
        .enumerate()
        .filter(|(_, axis)| axis.split != Split::Whole);
    match (divided.next(), divided.next()) {
        (Some((axis, form)), None) if !matches!(form.split, Split::Cyclic { .. }) => Some(axis),
        _ => None,
    }
}

impl ArrayRegion {
    pub(super) fn new(
        name: &str,
        form: ArrayForm,
        program: Option<SharedMemory>,
        home: &Home,
        capacity: &mut Capacity,
    ) -> Result<Self, RegionError> {
        let partition = |spec: &ArraySpec| {
            Partition::new(spec, home.size).map_err(|error| RegionError::Partition {
                name: name.to_owned(),
                error,
            })
        };
        let partition = if home.is_first {
            partition(&form.spec)?
        } else {
            // A newcomer's weights may be for another number of ranks than the one it joins.
            let shares = Shares {
                ranks: home.size,
                weights: &[],
            };
            partition(&shares.applied_to(&form.spec))?
        };
        let storage = storage_for(&partition, home.rank, program.as_ref(), capacity);
        let mut storage = storage.map_err(|error| RegionError::Memory {
            name: name.to_owned(),
            error,
        })?;
        storage.take_up();
        if !home.is_first {
            // It has time now, while the job goes on; when data arrives, the job stands still.
            storage.populate();
        }
        Ok(Self {
            form,
            partition,
            rank: home.rank,
            storage,
            program,
        })
    }

    /// What the application said.
    pub fn form(&self) -> &ArrayForm {
        &self.form
    }

    /// The partition in force.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// This process's position in the partition.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// This rank's memory.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// This rank's memory, to be slid or replaced.
    pub fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }

    /// New storage for one position of a partition, beside the present one.
    pub(crate) fn storage_for(
        &self,
        partition: &Partition,
        rank: u32,
        capacity: &mut Capacity,
    ) -> Result<Storage, MemoryError> {
        storage_for(partition, rank, self.program.as_ref(), capacity)
    }

    /// Puts new storage in the place of the present one.
    pub(crate) fn storage_replace(&mut self, mut storage: Storage) {
        storage.take_up();
        self.storage = storage;
    }

    /// The elements along an axis, which is divided into intervals, have these costs when the array is divided next.
    pub(super) fn set_costs(&mut self, axis: usize, costs: Vec<u32>) {
        self.form.spec.axes[axis].split = Split::Costs { costs };
    }

    /// How many bytes later local storage would begin for another partition of the same cells, if it can slide there.
    pub(crate) fn shift_to(&self, after: &Partition, rank: u32) -> Option<i64> {
        let (from, to) = (place(&self.partition, self.rank), place(after, rank));
        (from.span == to.span).then(|| to.offset as i64 - from.offset as i64)
    }

    /// How many bytes later the storage of a process that stays begins with `length` bytes, if it can slide there.
    pub(crate) fn slide_to(&self, reuse: StorageReuse, length: u64) -> Option<i64> {
        match reuse {
            StorageReuse::Stays { shift } => Some(shift).filter(|shift| self.storage.can_slide(*shift, length)),
            StorageReuse::Nothing | StorageReuse::Copied => None,
        }
    }

    /// Puts another partition in force, the storage being as long as it says already. `registered` is the division
    /// that the job's first ranks registered.
    pub(crate) fn take_up(&mut self, registered: ArraySpec, partition: Partition, rank: u32) {
        assert_eq!(
            partition.local_bytes(rank),
            self.storage.length() as u64,
            "the storage was resized before"
        );
        self.form.spec = registered;
        (self.partition, self.rank) = (partition, rank);
    }

    pub(super) fn swap_storage(&mut self, other: &mut Self) {
        self.storage.swap(&mut other.storage);
    }

    /// Whether two arrays can change places: everything but scratch and costs is alike.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (&self.form, &other.form);
        let is_divided_alike = std::iter::zip(&one.spec.axes, &two.spec.axes).all(|(one, two)| {
            let have_costs = [one, two].map(|axis| matches!(axis.split, Split::Costs { .. }));
            have_costs == [true; 2] || one.split == two.split
        });
        one.element == two.element
            && (one.halo, one.is_constant) == (two.halo, two.is_constant)
            && is_divided_alike
            && self.partition == other.partition
            && self.program.is_some() == other.program.is_some()
    }
}

thread_local! {
    static BEING_MADE: RefCell<Option<(Partition, u32)>> = const { RefCell::new(None) };
}

/// The division and the position for which a hook of the program makes memory in this moment: the hook may ask.
pub(crate) fn being_made() -> Option<(Partition, u32)> {
    BEING_MADE.with_borrow(Clone::clone)
}

fn storage_for(
    partition: &Partition,
    rank: u32,
    program: Option<&SharedMemory>,
    capacity: &mut Capacity,
) -> Result<Storage, MemoryError> {
    let place = place(partition, rank);
    capacity.promise(place.length)?;
    let made = match program {
        Some(program) => {
            BEING_MADE.set(Some((partition.clone(), rank)));
            let made = Storage::of_program(program, place.length);
            BEING_MADE.set(None);
            made
        }
        None => Storage::new(place),
    };
    made.inspect_err(|_| capacity.release(place.length))
}

/// Where a position's local storage lies among all it could have: by the index at which it begins along its slowest
/// axis longer than one cell, if that is divided into intervals.
fn place(partition: &Partition, rank: u32) -> Place {
    let axes = &partition.spec().axes;
    let local = partition.local_extents(rank);
    let length = partition.local_bytes(rank);
    let leading = axes
        .iter()
        .position(|axis| axis.extent + 2 * axis.halo > 1)
        .unwrap_or(0);
    let row_bytes = local[leading + 1..].iter().product::<u64>() * u64::from(partition.spec().element_size);
    let whole = axes[leading].extent + 2 * axes[leading].halo;
    match (partition.owned_interval(rank, leading), whole.checked_mul(row_bytes)) {
        (Some((start, _)), Some(span)) if span >= length => Place {
            span,
            offset: start * row_bytes,
            length,
        },
        _ => Place {
            span: length,
            offset: 0,
            length,
        },
    }
}

/// Checks that a description can be divided at all, whatever the number of ranks.
pub(super) fn check_axes(name: &str, spec: &ArraySpec) -> Result<(), RegionError> {
    if spec.axes.is_empty() || spec.axes.len() > AXES_MAX {
        return Err(RegionError::Partition {
            name: name.to_owned(),
            error: PartitionError::AxesOutOfRange { axes: spec.axes.len() },
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::partition::AxisSpec;

    fn rows(split: Split) -> ArraySpec {
        ArraySpec::new(8, [AxisSpec::new(10, split).with_halo(1), AxisSpec::whole(3)])
    }

    #[test]
    fn weights_of_a_plan_divide_the_one_divided_axis() {
        let shares = Shares {
            ranks: 2,
            weights: &[1, 4],
        };
        let spec = shares.applied_to(&rows(Split::Block));
        let partition = Partition::new(&spec, 2).expect("valid");
        assert_eq!(partition.owned_interval(1, 0), Some((2, 10)));
        let cyclic = ArraySpec::new(8, [AxisSpec::cyclic(10, 2)]);
        assert_eq!(shares.applied_to(&cyclic), cyclic);
        assert_eq!(shared_extent(&rows(Split::Block)), Some(10));
        let own = Split::Weighted {
            weights: vec![1.0, 2.0],
        };
        assert_eq!(shared_extent(&rows(own)), Some(EXTENT_MAX));
        assert_eq!(shared_extent(&cyclic), None);
        let grid = ArraySpec::new(8, [AxisSpec::new(10, Split::Block), AxisSpec::new(10, Split::Block)]);
        assert_eq!(shared_extent(&grid), None);
        assert_eq!(shared_extent(&ArraySpec::new(8, [AxisSpec::whole(3)])), None);
    }

    #[test]
    fn counts_for_another_number_of_ranks_become_equal_blocks() {
        let counts = rows(Split::Counts { counts: vec![9, 1] });
        let with = |ranks| Shares { ranks, weights: &[] }.applied_to(&counts);
        assert_eq!(with(2), counts);
        assert_eq!(with(5), rows(Split::Block));
    }

    #[test]
    fn costs_divide_at_any_number_of_ranks_and_beside_the_weights_of_a_plan() {
        let costs = vec![8, 1, 1, 1, 1, 1, 1, 1, 1, 0];
        let spec = rows(Split::Costs { costs });
        let with = |weights: &[u32], ranks| {
            let spec = Shares { ranks, weights }.applied_to(&spec);
            let partition = Partition::new(&spec, ranks).expect("valid");
            (0..ranks).map(|rank| partition.elements(rank) / 3).collect::<Vec<_>>()
        };
        assert_eq!(with(&[], 2), [1, 9]);
        assert_eq!(with(&[], 4), [1, 0, 4, 5]);
        assert_eq!(with(&[3, 1], 2), [5, 5]);
        assert_eq!(shared_extent(&spec), Some(EXTENT_MAX));
    }

    #[test]
    fn storage_of_a_row_block_lies_where_its_rows_lie_in_the_whole() {
        let partition = Partition::new(&rows(Split::Block), 3).expect("valid");
        let row = 3 * 8;
        let expected = Place {
            span: 12 * row,
            offset: 4 * row,
            length: 5 * row,
        };
        assert_eq!(place(&partition, 1), expected);
        assert_eq!(place(&partition, 2).offset + place(&partition, 2).length, 12 * row);
        let columns = ArraySpec::new(8, [AxisSpec::whole(4), AxisSpec::block(9)]);
        let columns = Partition::new(&columns, 3).expect("valid");
        assert_eq!(place(&columns, 2).span, 4 * 3 * 8);
    }
}
