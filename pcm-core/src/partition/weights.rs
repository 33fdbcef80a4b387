//! Bounds of the intervals that weights of parts or costs of elements ask for. Integer arithmetic after one rounding of
//! each number, so that every machine finds the same bounds.

use super::error::PartitionError;
use super::spec::COSTS_MAX;

/// Resolution of a weight against the largest one; with up to 2^20 parts and extents below 2^63 the products stay
/// below 2^128.
const WEIGHT_BITS: u32 = 32;

/// The bounds (one more than parts) that divide `extent` in proportion to the weights, each rounded to the
/// nearest element.
pub(super) fn weighted_bounds(axis: usize, extent: u64, weights: &[f64]) -> Result<Vec<u64>, PartitionError> {
    let mut largest = 0.0f64;
    for (part, &weight) in weights.iter().enumerate() {
        if !weight.is_finite() || weight <= 0.0 {
            return Err(PartitionError::WeightNotPositive { axis, part, weight });
        }
        largest = largest.max(weight);
    }
    let scale = (1u64 << WEIGHT_BITS) as f64;
    let rounded: Vec<u64> = weights
        .iter()
        .map(|weight| ((weight / largest * scale).round() as u64).max(1))
        .collect();
    let total: u128 = rounded.iter().map(|&w| u128::from(w)).sum();
    let mut bounds = Vec::with_capacity(weights.len() + 1);
    let mut before = 0u128;
    bounds.push(0);
    for weight in rounded {
        before += u128::from(weight);
        bounds.push(((2 * u128::from(extent) * before + total) / (2 * total)) as u64);
    }
    Ok(bounds)
}

/// Costs as whole numbers, the largest as large as can be.
pub fn whole_costs(costs: &[f64]) -> Result<Vec<u32>, PartitionError> {
    if costs.len() > COSTS_MAX {
        return Err(PartitionError::TooManyCosts { costs: costs.len() });
    }
    let is_bad = |cost: &f64| !cost.is_finite() || *cost < 0.0;
    if let Some(element) = costs.iter().position(is_bad) {
        let cost = costs[element];
        return Err(PartitionError::CostNotValid { element, cost });
    }
    let largest = costs.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let whole = |cost: &f64| (cost / largest * f64::from(u32::MAX)).round() as u32;
    Ok(costs.iter().map(whole).collect())
}

/// How many elements each part has if the parts' costs are to be in proportion to their shares.
pub fn counts_by_costs(costs: &[u32], shares: &[u32]) -> Vec<u64> {
    let bounds = cost_bounds(costs, shares);
    bounds.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The bounds that divide elements by their costs: each lies where the sum of the costs below it is nearest to the
/// share of the parts below it. If all costs are 0, all count alike.
pub(super) fn cost_bounds(costs: &[u32], shares: &[u32]) -> Vec<u64> {
    let equal = u32::from(costs.iter().all(|cost| *cost == 0));
    let sum: u128 = costs.iter().map(|cost| u128::from(cost + equal)).sum();
    let all_shares: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    let mut bounds = vec![0];
    let (mut shares_below, mut costs_below, mut bound) = (0_u128, 0_u128, 0_usize);
    for share in shares {
        shares_below += u128::from(*share);
        while let Some(cost) = costs.get(bound).map(|cost| u128::from(cost + equal)) {
            let is_nearer = (2 * costs_below + cost) * all_shares <= 2 * sum * shares_below;
            if !is_nearer && shares_below < all_shares {
                break;
            }
            costs_below += cost;
            bound += 1;
        }
        bounds.push(bound as u64);
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_the_weights_and_end_at_the_extent() {
        assert_eq!(weighted_bounds(0, 100, &[1.0, 3.0]), Ok(vec![0, 25, 100]));
        assert_eq!(weighted_bounds(0, 10, &[1.0, 1.0, 1.0]), Ok(vec![0, 3, 7, 10]));
        let huge = i64::MAX as u64;
        let bounds = weighted_bounds(0, huge, &[1e-300, 1e300]).expect("both are positive");
        assert_eq!(bounds[1].ilog2(), i64::MAX.ilog2() - WEIGHT_BITS);
        assert_eq!(bounds[2], huge);
    }

    #[test]
    fn a_weight_that_is_not_positive_and_finite_is_named() {
        for weight in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let refused = weighted_bounds(2, 10, &[1.0, weight]);
            assert!(matches!(
                refused,
                Err(PartitionError::WeightNotPositive { axis: 2, part: 1, .. })
            ));
        }
    }

    /// Small costs, large ones and many of 0, without order.
    fn costs(random: &mut pcm_proto::random::Random, rows: usize) -> Vec<u32> {
        let cost = |random: &mut pcm_proto::random::Random| match random.below(4) {
            0 => 0,
            1 => u32::MAX - random.below(9) as u32,
            _ => random.below(1000) as u32,
        };
        (0..rows).map(|_| cost(random)).collect()
    }

    #[test]
    fn each_part_costs_its_share_but_for_one_element_and_no_element_is_lost() {
        let mut random = pcm_proto::random::Random::new(25);
        for _ in 0..2_000 {
            let rows = random.below(60) as usize;
            let costs = costs(&mut random, rows);
            let shares: Vec<u32> = (0..=random.below(12)).map(|_| 1 + random.below(5) as u32).collect();
            let counts = counts_by_costs(&costs, &shares);
            assert_eq!((counts.len(), counts.iter().sum()), (shares.len(), rows as u64));
            let of = |costs: &[u32]| costs.iter().map(|cost| f64::from(*cost)).sum::<f64>();
            let (sum, all_shares) = (of(&costs), of(&shares));
            let largest = of(costs.iter().max().map_or(&[], std::slice::from_ref));
            let mut first = 0;
            for (count, share) in counts.iter().zip(&shares) {
                let part = of(&costs[first..first + *count as usize]);
                let ideal = sum * f64::from(*share) / all_shares;
                assert!(
                    (part - ideal).abs() <= largest * (1.0 + 1e-9),
                    "{part} for {ideal}, {costs:?} {shares:?}"
                );
                first += *count as usize;
            }
        }
    }

    #[test]
    fn equal_costs_and_costs_of_0_are_near_equal_blocks() {
        assert_eq!(counts_by_costs(&[7; 10], &[1, 1, 1]), [3, 4, 3]);
        assert_eq!(counts_by_costs(&[0; 10], &[1, 1, 1]), [3, 4, 3]);
        assert_eq!(counts_by_costs(&[9, 1, 1, 1, 1, 1, 4], &[1, 1]), [1, 6]);
        assert_eq!(counts_by_costs(&[], &[1, 1]), [0, 0]);
        assert_eq!(counts_by_costs(&[1], &[1, 1, 1]), [0, 1, 0]);
    }

    #[test]
    fn costs_keep_their_ratios_and_those_that_are_none_are_named() {
        assert_eq!(whole_costs(&[0.0, 1e-300, 2e-300]), Ok(vec![0, 1 << 31, u32::MAX]));
        assert_eq!(whole_costs(&[0.0]), Ok(vec![0]));
        for cost in [-1.0, f64::INFINITY, f64::NAN] {
            let refused = whole_costs(&[1.0, cost]);
            assert!(matches!(refused, Err(PartitionError::CostNotValid { element: 1, .. })));
        }
        let many = vec![1.0; COSTS_MAX + 1];
        assert!(matches!(whole_costs(&many), Err(PartitionError::TooManyCosts { .. })));
    }
}
