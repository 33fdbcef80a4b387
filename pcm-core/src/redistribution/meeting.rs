//! Where the stripes of one part meet those of another along one axis. Owns the arithmetic of intervals and periodic
//! intervals; its cost follows the number of runs found, never the number of elements.

use crate::partition::Stripe;

/// `count` intervals of `length` cells along one axis that both sides share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AxisRun {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) count: u64,
    pub(super) stride: u64,
    /// Local index and stride on the side that has the data.
    pub(super) source: u64,
    pub(super) source_stride: u64,
    /// Local index and stride on the side that gets it.
    pub(super) target: u64,
    pub(super) target_stride: u64,
}

/// Steps that the meetings of one question may still take; a step is at most three runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps(pub(super) u64);

/// Two stripes meet in more separate ways than steps are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooIrregular;

impl Steps {
    fn take(&mut self, steps: u64) -> Result<(), TooIrregular> {
        self.0 = self.0.checked_sub(steps).ok_or(TooIrregular)?;
        Ok(())
    }
}

/// Appends what two stripes share. Both ends of a transfer call it with the same arguments, so they find the same
/// runs in the same order.
pub(super) fn meet(
    source: &Stripe,
    target: &Stripe,
    steps: &mut Steps,
    runs: &mut Vec<AxisRun>,
) -> Result<(), TooIrregular> {
    steps.take(1)?;
    if target.count == 1 {
        clip(source, target, runs, |at, of_source, of_target| AxisRun {
            source: of_source,
            target: of_target,
            ..at
        });
    } else if source.count == 1 {
        clip(target, source, runs, |at, of_target, of_source| AxisRun {
            source: of_source,
            source_stride: at.target_stride,
            target: of_target,
            target_stride: at.source_stride,
            ..at
        });
    } else {
        return meet_periodic(source, target, steps, runs);
    }
    Ok(())
}

/// The parts of `striped` inside the single interval of `window`: at most a cut first interval, whole ones, a cut
/// last one. `place` gets a run with the strides of `striped` as source, and the local indices of both.
fn clip(striped: &Stripe, window: &Stripe, runs: &mut Vec<AxisRun>, place: impl Fn(AxisRun, u64, u64) -> AxisRun) {
    let (lo, hi) = (window.start, window.start + window.length);
    if hi <= striped.start || lo >= striped.end() {
        return;
    }
    let interval = |k: u64| striped.start + k * striped.stride;
    let step = striped.stride.max(1);
    let first_end = striped.start + striped.length;
    let first = if lo < first_end { 0 } else { (lo - first_end) / step + 1 };
    let last = ((hi - 1 - striped.start) / step).min(striped.count - 1);
    if first > last || interval(first) >= hi {
        return;
    }
    let mut push = |k: u64, count: u64, from: u64, to: u64| {
        let many = count > 1;
        let at = AxisRun {
            start: from,
            length: to - from,
            count,
            stride: if many { striped.stride } else { 0 },
            source: 0,
            source_stride: if many { striped.local_stride } else { 0 },
            target: 0,
            target_stride: if many { striped.stride } else { 0 },
        };
        runs.push(place(
            at,
            striped.local + k * striped.local_stride + (from - interval(k)),
            window.local + (from - lo),
        ));
    };
    let is_cut = |k: u64| interval(k) < lo || interval(k) + striped.length > hi;
    if first == last {
        push(
            first,
            1,
            interval(first).max(lo),
            (interval(first) + striped.length).min(hi),
        );
        return;
    }
    let whole_first = first + u64::from(is_cut(first));
    let whole_last = last - u64::from(is_cut(last));
    if is_cut(first) {
        push(first, 1, interval(first).max(lo), interval(first) + striped.length);
    }
    if whole_first <= whole_last {
        let from = interval(whole_first);
        push(whole_first, whole_last - whole_first + 1, from, from + striped.length);
    }
    if is_cut(last) {
        push(last, 1, interval(last), hi);
    }
}

/// Two stripes of several intervals each. Intervals `i` and `j` overlap when the distance of their starts is some
/// `shift` between the lengths; for each such shift the pairs form one arithmetic series (Chinese remainders).
fn meet_periodic(
    source: &Stripe,
    target: &Stripe,
    steps: &mut Steps,
    runs: &mut Vec<AxisRun>,
) -> Result<(), TooIrregular> {
    let gcd = gcd(source.stride, target.stride);
    let shifts = (source.length + target.length) / gcd;
    let blocks = source.count.min(target.count);
    steps.take(shifts.min(blocks))?;
    if shifts > blocks {
        return meet_one_by_one(source, target, steps, runs);
    }
    let distance = i128::from(target.start) - i128::from(source.start);
    let lowest = 1 - i128::from(target.length);
    let first = lowest + (distance - lowest).rem_euclid(i128::from(gcd));
    let (source_period, target_period) = (target.stride / gcd, source.stride / gcd);
    let inverse = inverse(target_period % source_period, source_period);
    for shift in (first..i128::from(source.length)).step_by(gcd as usize) {
        let quotient = ((distance - shift) / i128::from(gcd)).rem_euclid(i128::from(source_period)) as u128;
        let mut i = (quotient * u128::from(inverse) % u128::from(source_period)) as i128;
        let mut j = (i128::from(source.start) + i * i128::from(source.stride) + shift - i128::from(target.start))
            / i128::from(target.stride);
        if j < 0 {
            let periods = (-j + i128::from(target_period) - 1) / i128::from(target_period);
            i += periods * i128::from(source_period);
            j += periods * i128::from(target_period);
        }
        if i >= i128::from(source.count) || j >= i128::from(target.count) {
            continue;
        }
        let (i, j) = (i as u64, j as u64);
        let count = ((source.count - 1 - i) / source_period).min((target.count - 1 - j) / target_period) + 1;
        let from = shift.max(0) as u64;
        let to = i128::from(source.length).min(shift + i128::from(target.length)) as u64;
        let many = count > 1;
        runs.push(AxisRun {
            start: source.start + i * source.stride + from,
            length: to - from,
            count,
            stride: if many { source_period * source.stride } else { 0 },
            source: source.local + i * source.local_stride + from,
            source_stride: if many { source_period * source.local_stride } else { 0 },
            target: target.local + j * target.local_stride + (i128::from(from) - shift) as u64,
            target_stride: if many { target_period * target.local_stride } else { 0 },
        });
    }
    Ok(())
}

/// Long blocks of nearly equal length meet in more ways than there are blocks: then going through the blocks is
/// shorter.
fn meet_one_by_one(
    source: &Stripe,
    target: &Stripe,
    steps: &mut Steps,
    runs: &mut Vec<AxisRun>,
) -> Result<(), TooIrregular> {
    let nth = |stripe: &Stripe, k: u64| Stripe {
        start: stripe.start + k * stripe.stride,
        local: stripe.local + k * stripe.local_stride,
        count: 1,
        stride: 0,
        local_stride: 0,
        ..*stripe
    };
    if source.count <= target.count {
        (0..source.count).try_for_each(|k| meet(&nth(source, k), target, steps, runs))
    } else {
        (0..target.count).try_for_each(|k| meet(source, &nth(target, k), steps, runs))
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The inverse of `a` modulo `modulus`, to which it has no common divisor.
fn inverse(a: u64, modulus: u64) -> u64 {
    let (mut r, mut next_r) = (i128::from(modulus), i128::from(a));
    let (mut t, mut next_t) = (0i128, 1i128);
    while next_r != 0 {
        let quotient = r / next_r;
        (r, next_r) = (next_r, r - quotient * next_r);
        (t, next_t) = (next_t, t - quotient * next_t);
    }
    t.rem_euclid(i128::from(modulus)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn stripe() -> impl Strategy<Value = Stripe> {
        (0u64..40, 0u64..20, 1u64..9, 1u64..9, 0u64..12).prop_map(|(start, local, length, count, gap)| {
            let many = count > 1;
            Stripe {
                start,
                local,
                length,
                count,
                stride: if many { length + gap } else { 0 },
                local_stride: if many { length } else { 0 },
            }
        })
    }

    fn cells(stripe: &Stripe) -> BTreeMap<u64, u64> {
        (0..stripe.count)
            .flat_map(|k| (0..stripe.length).map(move |i| (k, i)))
            .map(|(k, i)| {
                (
                    stripe.start + k * stripe.stride + i,
                    stripe.local + k * stripe.local_stride + i,
                )
            })
            .collect()
    }

    proptest! {
        #[test]
        fn runs_are_exactly_the_shared_cells_with_both_local_indices(a in stripe(), b in stripe()) {
            let (in_a, in_b) = (cells(&a), cells(&b));
            let wanted: Vec<_> = in_a.iter().filter_map(|(cell, at)| Some((*cell, *at, *in_b.get(cell)?))).collect();
            let mut runs = Vec::new();
            prop_assert_eq!(meet(&a, &b, &mut Steps(1000), &mut runs), Ok(()));
            let mut found: Vec<_> = runs
                .iter()
                .flat_map(|r| (0..r.count).flat_map(move |k| (0..r.length).map(move |i| (
                    r.start + k * r.stride + i,
                    r.source + k * r.source_stride + i,
                    r.target + k * r.target_stride + i,
                ))))
                .collect();
            found.sort_unstable();
            prop_assert_eq!(found, wanted);
        }
    }

    fn huge(length: u64, stride: u64) -> Stripe {
        Stripe {
            start: 0,
            local: 0,
            length,
            count: (1 << 60) / stride,
            stride,
            local_stride: length,
        }
    }

    #[test]
    fn cyclic_blocks_of_huge_axes_meet_in_few_runs() {
        let mut runs = Vec::new();
        assert_eq!(
            meet(&huge(64, 64_000), &huge(64, 65_536), &mut Steps(3), &mut runs),
            Ok(())
        );
        assert!(!runs.is_empty() && runs.len() <= 2, "{} runs", runs.len());
    }

    #[test]
    fn long_blocks_of_nearly_equal_length_are_refused_at_once() {
        let mut runs = Vec::new();
        let odd = huge(1_000_000_007, 2_000_000_014);
        assert_eq!(
            meet(
                &huge(1_000_000_000, 2_000_000_000),
                &odd,
                &mut Steps(1 << 20),
                &mut runs
            ),
            Err(TooIrregular)
        );
        assert!(runs.is_empty());
    }
}
