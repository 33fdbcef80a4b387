//! The assignment of least cost between as many workers as places: Hungarian method with potentials, O(n³). Exact, and
//! the same result for the same input everywhere.

use std::ops::{Add, Sub};

/// A cost with a tie-breaker that only counts between equal costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    pub(super) price: i128,
    pub(super) tie: i64,
}

impl Cost {
    /// Above every sum of real costs, and far enough from the type's end to be added to.
    const HIGHEST: Self = Self {
        price: i128::MAX / 4,
        tie: 0,
    };
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            price: self.price + other.price,
            tie: self.tie + other.tie,
        }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            price: self.price - other.price,
            tie: self.tie - other.tie,
        }
    }
}

/// The worker of each place, for a square matrix of costs in rows by worker.
pub(super) fn assign(costs: &[Cost], size: usize) -> Vec<usize> {
    let mut worker_potential = vec![Cost::default(); size];
    let mut place_potential = vec![Cost::default(); size + 1];
    // Place `size` stands for "not placed yet": each new worker begins there.
    let mut worker_at: Vec<Option<usize>> = vec![None; size + 1];
    for worker in 0..size {
        worker_at[size] = Some(worker);
        let mut nearest = vec![Cost::HIGHEST; size];
        let mut previous = vec![size; size];
        let mut is_used = vec![false; size + 1];
        let mut place = size;
        while let Some(current) = worker_at[place] {
            is_used[place] = true;
            let row = &costs[current * size..(current + 1) * size];
            let mut step = Cost::HIGHEST;
            let mut next = size;
            for candidate in 0..size {
                if is_used[candidate] {
                    continue;
                }
                let reduced = row[candidate] - worker_potential[current] - place_potential[candidate];
                if reduced < nearest[candidate] {
                    nearest[candidate] = reduced;
                    previous[candidate] = place;
                }
                if nearest[candidate] < step {
                    step = nearest[candidate];
                    next = candidate;
                }
            }
            for used in (0..=size).filter(|&at| is_used[at]) {
                if let Some(worker) = worker_at[used] {
                    worker_potential[worker] = worker_potential[worker] + step;
                    place_potential[used] = place_potential[used] - step;
                }
            }
            for candidate in (0..size).filter(|&at| !is_used[at]) {
                nearest[candidate] = nearest[candidate] - step;
            }
            place = next;
        }
        while place != size {
            let before = previous[place];
            worker_at[place] = worker_at[before];
            place = before;
        }
    }
    worker_at.truncate(size);
    worker_at
        .into_iter()
        .map(|worker| worker.expect("every worker was placed, and there are as many places"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(prices: &[i128]) -> Vec<Cost> {
        prices.iter().map(|&price| Cost { price, tie: 0 }).collect()
    }

    #[test]
    fn the_cheapest_assignment_is_found_where_greed_fails() {
        let matrix = costs(&[1, 2, 2, 100]);
        assert_eq!(assign(&matrix, 2), [1, 0]);
        let matrix = costs(&[4, 1, 3, 2, 0, 5, 3, 2, 2]);
        assert_eq!(assign(&matrix, 3), [1, 0, 2]);
    }

    #[test]
    fn ties_are_broken_only_between_equal_prices() {
        let mut matrix = costs(&[5, 5, 5, 5]);
        matrix[0].tie = 1;
        matrix[3].tie = 1;
        assert_eq!(assign(&matrix, 2), [1, 0]);
        matrix[1].price = 6;
        assert_eq!(assign(&matrix, 2), [0, 1]);
    }
}
