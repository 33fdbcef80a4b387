//! How many bytes each old rank holds of what each new rank will hold, summed over all regions. Never knows processes.

use crate::partition::{AXES_MAX, Partition};
use crate::redistribution::change::RankChange;
use crate::redistribution::intersection::axis_overlap;
use crate::redistribution::meeting::{Steps, TooIrregular};
use pcm_proto::ids::{Bytes, Rank};

/// Most pairs of ranks with bytes in common: about 64 MiB. Beyond (several thousand ranks, cyclic) next to nothing can
/// stay in place whatever the order.
pub const OVERLAP_ENTRIES_MAX: usize = 1 << 22;

/// Most meetings of intervals looked at for one array: some seconds.
const STEPS_MAX: u64 = 1 << 25;

/// Bytes in common between old and new ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    before: u32,
    /// By new rank: old ranks, rising, and the bytes in common, never 0.
    rows: Vec<Vec<(u32, u64)>>,
}

/// Why an array was not added; the overlap is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlapError {
    /// The partitions are for other numbers of ranks.
    #[error("partitions for {} and {} ranks in a change from {} to {}", .positions.0, .positions.1, .ranks.0, .ranks.1)]
    RanksDiffer {
        /// Positions of the partitions.
        positions: (u32, u32),
        /// Ranks of the overlap.
        ranks: (u32, u32),
    },
    /// The partitions are of different arrays.
    #[error("the partitions are of arrays with different extents or element sizes")]
    ArraysDiffer,
    /// More than [`OVERLAP_ENTRIES_MAX`] pairs of ranks have bytes in common, or cyclic blocks meet in endless ways;
    /// choose the order without this array.
    #[error("too many pairs of ranks or of cyclic blocks share data; choose the order without this array")]
    TooDense,
}

impl Overlap {
    /// No bytes in common, for these numbers of ranks.
    pub fn new(before: u32, after: u32) -> Self {
        Self {
            before,
            rows: vec![Vec::new(); after as usize],
        }
    }

    /// Adds the cells of an array. Copies for halos are not counted: their volume hardly depends on the order.
    pub fn add_array(&mut self, before: &Partition, after: &Partition) -> Result<(), OverlapError> {
        let positions = (before.positions(), after.positions());
        if positions != self.ranks() {
            return Err(OverlapError::RanksDiffer {
                positions,
                ranks: self.ranks(),
            });
        }
        if !before.spec().has_same_cells(after.spec()) {
            return Err(OverlapError::ArraysDiffer);
        }
        let mut tables: [Vec<Vec<(u32, u64)>>; AXES_MAX] = Default::default();
        let mut steps = Steps(STEPS_MAX);
        for (axis, table) in tables.iter_mut().enumerate() {
            *table = axis_overlap(&before.axes()[axis], &after.axes()[axis], &mut steps)
                .map_err(|TooIrregular| OverlapError::TooDense)?;
        }
        let places: Vec<[u32; AXES_MAX]> = (0..positions.1).map(|position| after.coordinates(position)).collect();
        let row_of = |place: &[u32; AXES_MAX]| [0, 1, 2].map(|axis| &tables[axis][place[axis] as usize]);
        let entries: usize = places
            .iter()
            .map(|place| row_of(place).iter().map(|row| row.len()).product::<usize>())
            .sum();
        if entries > OVERLAP_ENTRIES_MAX {
            return Err(OverlapError::TooDense);
        }
        let element_size = u64::from(before.spec().element_size);
        for (to, place) in places.iter().enumerate() {
            let [a, b, c] = row_of(place);
            for (x, cells_x) in a {
                for (y, cells_y) in b {
                    for (z, cells_z) in c {
                        let from = before.position([*x, *y, *z]);
                        self.rows[to].push((from, cells_x * cells_y * cells_z * element_size));
                    }
                }
            }
            self.join_row(to);
        }
        Ok(())
    }

    /// Adds bytes that go from an old rank to a new one: a rank's values, an estimate for a custom region.
    pub fn add(&mut self, from: Rank, to: Rank, bytes: Bytes) {
        if bytes.0 > 0 {
            self.rows[to.0 as usize].push((from.0, bytes.0));
            self.join_row(to.0 as usize);
        }
    }

    /// Numbers of ranks before and after.
    pub fn ranks(&self) -> (u32, u32) {
        (self.before, self.rows.len() as u32)
    }

    /// The old ranks that hold bytes of a new rank, rising, and how many.
    pub fn sources(&self, to: Rank) -> &[(u32, u64)] {
        &self.rows[to.0 as usize]
    }

    /// Bytes an old rank holds of a new one.
    pub fn bytes(&self, from: Rank, to: Rank) -> u64 {
        let row = self.sources(to);
        row.binary_search_by_key(&from.0, |(from, _)| *from)
            .map_or(0, |at| row[at].1)
    }

    /// Bytes that change their process under a rank change.
    pub fn bytes_moved(&self, change: &RankChange) -> Bytes {
        let entries = self.rows.iter().zip(change.after());
        let moved = entries.flat_map(|(row, &to)| {
            row.iter()
                .filter(move |(from, _)| change.before()[*from as usize] != to)
                .map(|(_, bytes)| bytes)
        });
        Bytes(moved.sum())
    }

    /// All entries as (old rank, new rank, bytes), by new rank, then old.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let rows = (0..).zip(&self.rows);
        rows.flat_map(|(to, row)| row.iter().map(move |(from, bytes)| (*from, to, *bytes)))
    }

    fn join_row(&mut self, to: usize) {
        let row = &mut self.rows[to];
        row.sort_unstable_by_key(|(from, _)| *from);
        row.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
    }
}
