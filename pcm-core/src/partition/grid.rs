//! The process grid: how many parts each axis has. One rule, the same on every rank. Never looks at extents, so that
//! an application finds the same grid by `MPI_Dims_create`-like reasoning.

use super::error::PartitionError;
use super::spec::{AXES_MAX, ArraySpec, Split};

/// Parts per axis; 1 for axes that are not divided and those the array does not have. The last runs fastest.
pub(super) type Grid = [u32; AXES_MAX];

/// Chooses the grid for a number of positions: axes with weights or counts have as many parts as those, the others
/// share the rest as [`balanced`] says, larger factors first.
pub(super) fn grid(spec: &ArraySpec, positions: u32) -> Result<Grid, PartitionError> {
    let mut grid = [1; AXES_MAX];
    let mut free = Vec::new();
    let mut fixed = 1u64;
    let mut any_divided = false;
    for (axis, (parts, axis_spec)) in grid.iter_mut().zip(&spec.axes).enumerate() {
        let listed = match &axis_spec.split {
            Split::Whole => continue,
            Split::Block | Split::Cyclic { .. } | Split::Costs { .. } => {
                any_divided = true;
                free.push(axis);
                continue;
            }
            Split::Weighted { weights } => weights.len(),
            Split::Counts { counts } => counts.len(),
        };
        any_divided = true;
        fixed = fixed.saturating_mul(listed as u64);
        *parts = u32::try_from(listed).unwrap_or(u32::MAX);
    }
    if !any_divided && positions > 1 {
        return Err(PartitionError::NothingDivided { positions });
    }
    let fits = fixed > 0 && u64::from(positions).is_multiple_of(fixed);
    if !fits || (free.is_empty() && fixed != u64::from(positions)) {
        return Err(PartitionError::PartsDoNotFit {
            fixed,
            positions,
            others_divided: !free.is_empty(),
        });
    }
    let rest = (u64::from(positions) / fixed) as u32;
    for (&axis, factor) in free.iter().zip(balanced(rest, free.len())) {
        grid[axis] = factor;
    }
    Ok(grid)
}

/// Factors of `n`, in falling order, with the smallest possible largest factor and then the smallest possible second.
fn balanced(n: u32, factors: usize) -> Vec<u32> {
    match factors {
        0 => Vec::new(),
        1 => vec![n],
        2 => {
            let small = largest_divisor_up_to_root(n);
            vec![n / small, small]
        }
        _ => {
            let best = divisors(n)
                .filter_map(|largest| {
                    let rest = largest_divisor_up_to_root(n / largest);
                    let second = n / largest / rest;
                    (second <= largest).then_some([largest, second, rest])
                })
                .min()
                .unwrap_or([n, 1, 1]);
            best.to_vec()
        }
    }
}

fn largest_divisor_up_to_root(n: u32) -> u32 {
    (1..=n.isqrt()).rev().find(|d| n.is_multiple_of(*d)).unwrap_or(1)
}

fn divisors(n: u32) -> impl Iterator<Item = u32> {
    (1..=n.isqrt())
        .filter(move |d| n.is_multiple_of(*d))
        .flat_map(move |d| [d, n / d])
}

#[cfg(test)]
mod tests {
    use super::super::spec::AxisSpec;
    use super::*;

    #[test]
    fn factors_are_as_close_as_they_can_be_and_fall() {
        assert_eq!(balanced(12, 2), [4, 3]);
        assert_eq!(balanced(7, 2), [7, 1]);
        assert_eq!(balanced(24, 3), [4, 3, 2]);
        assert_eq!(balanced(64, 3), [4, 4, 4]);
        assert_eq!(balanced(1024, 3), [16, 8, 8]);
        assert_eq!(balanced(30, 3), [5, 3, 2]);
        assert_eq!(balanced(1, 3), [1, 1, 1]);
    }

    #[test]
    fn every_factorisation_multiplies_to_the_number_and_none_is_better() {
        for n in 1..=300u32 {
            let found = balanced(n, 3);
            assert_eq!(found.iter().product::<u32>(), n);
            let best = (1..=n)
                .flat_map(|a| (1..=a).map(move |b| (a, b)))
                .filter(|(a, b)| n.is_multiple_of(a * b) && n / (a * b) <= *b)
                .map(|(a, b)| vec![a, b, n / (a * b)])
                .min();
            assert_eq!(Some(found), best);
        }
    }

    #[test]
    fn weights_and_counts_fix_their_axis_and_the_rest_is_shared() {
        let weighted = AxisSpec::new(
            10,
            Split::Weighted {
                weights: vec![1.0, 2.0],
            },
        );
        let spec = ArraySpec::new(8, [weighted, AxisSpec::block(9), AxisSpec::block(9)]);
        assert_eq!(grid(&spec, 12), Ok([2, 3, 2]));
        assert_eq!(
            grid(&spec, 9),
            Err(PartitionError::PartsDoNotFit {
                fixed: 2,
                positions: 9,
                others_divided: true
            })
        );
    }

    #[test]
    fn an_array_that_nothing_divides_needs_a_single_rank() {
        let spec = ArraySpec::new(8, [AxisSpec::whole(5)]);
        assert_eq!(grid(&spec, 1), Ok([1, 1, 1]));
        assert_eq!(grid(&spec, 2), Err(PartitionError::NothingDivided { positions: 2 }));
    }
}
