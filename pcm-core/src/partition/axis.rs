//! One axis divided into parts, and the stripes (regular runs of intervals) that a part owns. Owns the mapping between
//! global and local indices along an axis. Never enumerates elements.

use super::error::PartitionError;
use super::spec::{AxisSpec, Edge, Split};
use super::weights::{cost_bounds, weighted_bounds};

/// `count` intervals of `length` indices each, a fixed distance apart in the global array and in local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// First global index.
    pub start: u64,
    /// Its index in local storage.
    pub local: u64,
    /// Indices of one interval; at least 1.
    pub length: u64,
    /// Number of intervals; at least 1.
    pub count: u64,
    /// Global distance between the starts of two intervals; 0 for a single one.
    pub stride: u64,
    /// The same distance in local storage.
    pub local_stride: u64,
}

impl Stripe {
    fn single(start: u64, end: u64, local: u64) -> Option<Self> {
        (end > start).then(|| Self {
            start,
            local,
            length: end - start,
            count: 1,
            stride: 0,
            local_stride: 0,
        })
    }

    /// One past the last index of the last interval.
    pub fn end(&self) -> u64 {
        self.start + (self.count - 1) * self.stride + self.length
    }
}

/// An axis divided into parts.
///
/// Two index spaces: *global* indices `0..extent`, and *cells*, where the carried margin of `margin` cells precedes
/// index 0 and follows the last (`cell = global + margin`). What moves in a redistribution is cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisParts {
    extent: u64,
    halo: u64,
    margin: u64,
    division: Division,
}

#[derive(Clone, Debug, PartialEq)]
enum Division {
    /// Part `p` owns `bounds[p]..bounds[p + 1]`.
    Intervals { bounds: Vec<u64> },
    /// Part `p` owns blocks `p`, `p + parts`, …
    Cyclic { block: u64, parts: u32 },
}

impl AxisParts {
    /// Divides one axis into the grid's number of parts.
    pub(super) fn new(axis: usize, spec: &AxisSpec, parts: u32) -> Result<Self, PartitionError> {
        let extent = spec.extent;
        if spec.edge == Edge::Periodic && spec.halo > extent {
            return Err(PartitionError::HaloBeyondPeriod {
                axis,
                halo: spec.halo,
                extent,
            });
        }
        let division = match &spec.split {
            Split::Whole => Division::Intervals {
                bounds: vec![0, extent],
            },
            Split::Block => Division::Intervals {
                bounds: block_bounds(extent, parts),
            },
            Split::Cyclic { block: 0 } => return Err(PartitionError::BlockZero { axis }),
            Split::Cyclic { .. } if spec.halo > 0 => {
                return Err(PartitionError::HaloOnCyclicAxis { axis, halo: spec.halo });
            }
            Split::Cyclic { block } => Division::Cyclic {
                block: (*block).min(extent.max(1)),
                parts,
            },
            Split::Weighted { weights } => Division::Intervals {
                bounds: weighted_bounds(axis, extent, weights)?,
            },
            Split::Counts { counts } => Division::Intervals {
                bounds: count_bounds(axis, extent, counts)?,
            },
            Split::Costs { costs } if costs.len() as u64 != extent => {
                let costs = costs.len() as u64;
                return Err(PartitionError::CostsDoNotFit { axis, costs, extent });
            }
            Split::Costs { costs } => Division::Intervals {
                bounds: cost_bounds(costs, &vec![1; parts as usize]),
            },
        };
        Ok(Self {
            extent,
            halo: spec.halo,
            margin: spec.margin(),
            division,
        })
    }

    pub(crate) fn parts(&self) -> u32 {
        match &self.division {
            Division::Intervals { bounds } => (bounds.len() - 1) as u32,
            Division::Cyclic { parts, .. } => *parts,
        }
    }

    /// Local storage of a part that had the whole axis.
    pub(crate) fn local_length_max(&self) -> u64 {
        self.extent + 2 * self.halo
    }

    pub(crate) fn margin(&self) -> u64 {
        self.margin
    }

    /// Elements that a part owns.
    pub(crate) fn owned_length(&self, part: u32) -> u64 {
        self.owned(part).iter().flatten().map(|s| s.length * s.count).sum()
    }

    /// Elements of a part's local storage: owned ones and the halo on both sides.
    pub(crate) fn local_length(&self, part: u32) -> u64 {
        self.owned_length(part) + 2 * self.halo
    }

    /// What a part owns, in global indices, rising.
    pub(crate) fn owned(&self, part: u32) -> [Option<Stripe>; 2] {
        match &self.division {
            Division::Intervals { bounds } => {
                let (lo, hi) = interval(bounds, part);
                [Stripe::single(lo, hi, self.halo), None]
            }
            Division::Cyclic { block, parts } => cyclic_stripes(self.extent, *block, *parts, part),
        }
    }

    /// What a part holds as the only one, in cells: its own elements and, at the ends, the carried margin.
    pub(crate) fn cells(&self, part: u32) -> [Option<Stripe>; 2] {
        match &self.division {
            Division::Intervals { bounds } => {
                let (lo, hi) = interval(bounds, part);
                let (start, end) = (self.cell_bound(lo), self.cell_bound(hi));
                [Stripe::single(start, end, self.cell_to_local(start, lo)), None]
            }
            Division::Cyclic { .. } => self.owned(part),
        }
    }

    /// The cells that a part's halo repeats, below and above its own; each may wrap around a periodic axis once.
    pub(crate) fn halo_cells(&self, part: u32) -> [Option<Stripe>; 4] {
        let Division::Intervals { bounds } = &self.division else {
            return [None; 4];
        };
        let (lo, hi) = interval(bounds, part);
        if lo == hi || self.halo == 0 {
            return [None; 4];
        }
        if self.margin == 0 {
            let (low, high) = (self.halo.min(lo), self.halo.min(self.extent - hi));
            let (low_wrapped, high_wrapped) = (self.halo - low, self.halo - high);
            let high_local = self.halo + (hi - lo);
            return [
                Stripe::single(self.extent - low_wrapped, self.extent, 0),
                Stripe::single(lo - low, lo, low_wrapped),
                Stripe::single(hi, hi + high, high_local),
                Stripe::single(0, high_wrapped, high_local + high),
            ];
        }
        let (start, end) = (self.cell_bound(lo), self.cell_bound(hi));
        [
            Stripe::single(lo, start, 0),
            Stripe::single(end, hi + 2 * self.margin, end - lo),
            None,
            None,
        ]
    }

    /// The parts that may own some of the cells `from..to` (a superset where the axis is cyclic).
    pub(crate) fn parts_touching(&self, from: u64, to: u64) -> Vec<u32> {
        if from >= to {
            return Vec::new();
        }
        match &self.division {
            Division::Intervals { bounds } => {
                let ends = &bounds[1..];
                let first = ends.partition_point(|&end| self.cell_bound(end) <= from);
                let last = bounds[..ends.len()].partition_point(|&start| self.cell_bound(start) < to);
                (first as u32..last as u32)
                    .filter(|&part| interval(bounds, part).0 < interval(bounds, part).1)
                    .collect()
            }
            Division::Cyclic { block, parts } => {
                let (first, last) = (from / block, (to - 1) / block);
                if last - first >= u64::from(*parts) - 1 {
                    return (0..*parts).collect();
                }
                let mut touched: Vec<u32> = (first..=last).map(|b| (b % u64::from(*parts)) as u32).collect();
                touched.sort_unstable();
                touched
            }
        }
    }

    /// The parts that may own some of the cells `from..to`, or have them in their halo.
    pub(crate) fn parts_reaching(&self, from: u64, to: u64) -> Vec<u32> {
        let halo = self.halo;
        let mut parts = self.parts_touching(from.saturating_sub(halo), to + halo);
        if self.margin == 0 && halo > 0 {
            let total = self.extent;
            parts.extend(self.parts_touching(total - halo.saturating_sub(from), total));
            parts.extend(self.parts_touching(0, (to + halo).saturating_sub(total)));
            parts.sort_unstable();
            parts.dedup();
        }
        parts
    }

    /// The part that owns a global index.
    pub(crate) fn owner(&self, index: u64) -> Option<u32> {
        if index >= self.extent {
            return None;
        }
        match &self.division {
            Division::Intervals { bounds } => Some(bounds[1..].partition_point(|&end| end <= index) as u32),
            Division::Cyclic { block, parts } => Some((index / block % u64::from(*parts)) as u32),
        }
    }

    /// Where a part stores a global index it owns.
    pub(crate) fn local_index(&self, part: u32, index: u64) -> Option<u64> {
        if self.owner(index)? != part {
            return None;
        }
        match &self.division {
            Division::Intervals { bounds } => Some(index - interval(bounds, part).0 + self.halo),
            Division::Cyclic { block, parts } => Some(index / block / u64::from(*parts) * block + index % block),
        }
    }

    /// The interval of a part, where its division is one of intervals.
    pub(crate) fn interval(&self, part: u32) -> Option<(u64, u64)> {
        match &self.division {
            Division::Intervals { bounds } => Some(interval(bounds, part)),
            Division::Cyclic { .. } => None,
        }
    }

    /// The cell where the part above a global bound begins: margins belong to the parts at the ends.
    fn cell_bound(&self, bound: u64) -> u64 {
        match bound {
            0 => 0,
            bound if bound == self.extent => bound + 2 * self.margin,
            bound => bound + self.margin,
        }
    }

    /// Local storage begins `halo` indices before the part's first element.
    fn cell_to_local(&self, cell: u64, lo: u64) -> u64 {
        cell + (self.halo - self.margin) - lo
    }
}

fn interval(bounds: &[u64], part: u32) -> (u64, u64) {
    (bounds[part as usize], bounds[part as usize + 1])
}

/// The bounds by shares of ranks; without shares, or with another number of them, the blocks are equal. None where
/// there is no rank.
pub fn bounds_by_shares(extent: u64, ranks: u32, shares: &[u32]) -> Option<Vec<u64>> {
    if ranks == 0 {
        return None;
    }
    let weights: Vec<f64> = shares.iter().map(|share| f64::from(*share)).collect();
    let by_weights = Some(weights).filter(|weights| weights.len() == ranks as usize);
    let bounds = by_weights.and_then(|weights| weighted_bounds(0, extent, &weights).ok());
    bounds.or_else(|| Some(block_bounds(extent, ranks)))
}

fn block_bounds(extent: u64, parts: u32) -> Vec<u64> {
    let (each, longer) = (extent / u64::from(parts), extent % u64::from(parts));
    (0..=u64::from(parts)).map(|p| p * each + p.min(longer)).collect()
}

fn count_bounds(axis: usize, extent: u64, counts: &[u64]) -> Result<Vec<u64>, PartitionError> {
    let mut bounds = vec![0u64];
    let mut sum = 0u64;
    for count in counts {
        sum = sum.saturating_add(*count);
        bounds.push(sum);
    }
    if sum != extent {
        return Err(PartitionError::CountsDoNotSum { axis, sum, extent });
    }
    Ok(bounds)
}

/// The whole blocks of a part, and the shorter last block of the axis where it is this part's.
fn cyclic_stripes(extent: u64, block: u64, parts: u32, part: u32) -> [Option<Stripe>; 2] {
    let (parts, part) = (u64::from(parts), u64::from(part));
    let (whole_blocks, tail) = (extent / block, extent % block);
    let count = if part < whole_blocks {
        (whole_blocks - part - 1) / parts + 1
    } else {
        0
    };
    let whole = (count > 0).then(|| Stripe {
        start: part * block,
        local: 0,
        length: block,
        count,
        stride: if count > 1 { block * parts } else { 0 },
        local_stride: if count > 1 { block } else { 0 },
    });
    let tail = (whole_blocks % parts == part)
        .then(|| Stripe::single(whole_blocks * block, whole_blocks * block + tail, count * block))
        .flatten();
    [whole, tail]
}
