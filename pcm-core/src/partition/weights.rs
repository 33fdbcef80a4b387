//! Bounds of the intervals that weights ask for. Integer arithmetic after one rounding of each weight, so that every
//! machine finds the same bounds.

use super::error::PartitionError;

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
}
