//! Whether variants differ: the tests that the reference study of redistribution methods used. Pure.
//!
//! Shapiro-Wilk (Royston 1995) says whether samples may be normal, Kruskal-Wallis whether any of several groups
//! differs, Conover-Iman (with Holm's correction) which two do.

use super::distributions::{chi_squared_above, normal_above, normal_quantile, student_beyond};
use std::f64::consts::{FRAC_PI_6, PI};

/// What a test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    pub statistic: f64,
    pub p: f64,
}

/// Of 3 to 5000 samples that are not all the same.
pub fn shapiro_wilk(samples: &[f64]) -> Option<Finding> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let spread: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
    if !(3..=5000).contains(&n) || spread <= 0.0 {
        return None;
    }
    let weights = shapiro_weights(n);
    let sum: f64 = weights.iter().zip(&sorted).map(|(a, x)| a * x).sum();
    let w = (sum * sum / spread).min(1.0);
    let count = n as f64;
    let p = if n == 3 {
        (6.0 / PI * (w.sqrt().asin() - 2.0 * FRAC_PI_6)).max(0.0)
    } else {
        let (score, mean, deviation) = if n <= 11 {
            let bound = -2.273 + 0.459 * count;
            let score = -(bound - (1.0 - w).ln()).ln();
            let mean = polynomial(count, &[0.5440, -0.39978, 0.025_054, -0.000_671_4]);
            let deviation = polynomial(count, &[1.3822, -0.77857, 0.062_767, -0.002_032_2]);
            (score, mean, deviation.exp())
        } else {
            let log = count.ln();
            let mean = polynomial(log, &[-1.5861, -0.31082, -0.083_751, 0.003_891_5]);
            let deviation = polynomial(log, &[-0.4803, -0.082_676, 0.003_030_2]);
            ((1.0 - w).ln(), mean, deviation.exp())
        };
        normal_above((score - mean) / deviation)
    };
    Some(Finding { statistic: w, p })
}

/// Royston's approximation of the best weights of ordered samples.
fn shapiro_weights(n: usize) -> Vec<f64> {
    if n == 3 {
        return vec![-0.5_f64.sqrt(), 0.0, 0.5_f64.sqrt()];
    }
    let count = n as f64;
    let expected = (1..=n).map(|i| normal_quantile((i as f64 - 0.375) / (count + 0.25)));
    let mut weights: Vec<f64> = expected.collect();
    let squares: f64 = weights.iter().map(|m| m * m).sum();
    let u = 1.0 / count.sqrt();
    let (last, before) = (weights[n - 1], weights[n - 2]);
    let outer = polynomial(
        u,
        &[
            last / squares.sqrt(),
            0.221_157,
            -0.147_981,
            -2.071_190,
            4.434_685,
            -2.706_056,
        ],
    );
    let inner = polynomial(
        u,
        &[
            before / squares.sqrt(),
            0.042_981,
            -0.293_762,
            -1.752_461,
            5.682_633,
            -3.582_633,
        ],
    );
    let rest = if n > 5 {
        (squares - 2.0 * last * last - 2.0 * before * before) / (1.0 - 2.0 * outer * outer - 2.0 * inner * inner)
    } else {
        (squares - 2.0 * last * last) / (1.0 - 2.0 * outer * outer)
    };
    weights.iter_mut().for_each(|m| *m /= rest.sqrt());
    (weights[0], weights[n - 1]) = (-outer, outer);
    if n > 5 {
        (weights[1], weights[n - 2]) = (-inner, inner);
    }
    weights
}

fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Groups by the ranks of their samples among all.
struct Ranked {
    means: Vec<f64>,
    sizes: Vec<f64>,
    count: f64,
    /// Variance of all ranks, which ties make smaller.
    variance: f64,
    statistic: f64,
}

impl Ranked {
    /// None unless two groups or more have samples, not all the same.
    fn new(groups: &[&[f64]]) -> Option<Self> {
        let mut all: Vec<(f64, usize)> = Vec::new();
        for (group, samples) in groups.iter().enumerate() {
            all.extend(samples.iter().map(|sample| (*sample, group)));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = all.len() as f64;
        let (mut sums, mut squares, mut at) = (vec![0.0; groups.len()], 0.0, 0);
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let rank = at as f64 + (same.len() as f64 + 1.0) / 2.0;
            at += same.len();
            same.iter().for_each(|(_, group)| sums[*group] += rank);
            squares += rank * rank * same.len() as f64;
        }
        let variance = (squares - count * (count + 1.0).powi(2) / 4.0) / (count - 1.0);
        let sizes: Vec<f64> = groups.iter().map(|samples| samples.len() as f64).collect();
        if groups.len() < 2 || sizes.contains(&0.0) || variance.is_nan() || variance <= 0.0 {
            return None;
        }
        let between: f64 = sums.iter().zip(&sizes).map(|(sum, size)| sum * sum / size).sum();
        let statistic = (between - count * (count + 1.0).powi(2) / 4.0) / variance;
        let means = sums.iter().zip(&sizes).map(|(sum, size)| sum / size).collect();
        Some(Self {
            means,
            sizes,
            count,
            variance,
            statistic,
        })
    }
}

/// Whether any group differs from the others.
pub fn kruskal_wallis(groups: &[&[f64]]) -> Option<Finding> {
    let ranked = Ranked::new(groups)?;
    Some(Finding {
        statistic: ranked.statistic,
        p: chi_squared_above(ranked.statistic, groups.len() as f64 - 1.0),
    })
}

/// Which groups differ: for each pair (lower index first) the probability, by Holm's correction for many comparisons.
pub fn conover_iman(groups: &[&[f64]]) -> Option<Vec<(usize, usize, f64)>> {
    let ranked = Ranked::new(groups)?;
    let freedom = ranked.count - groups.len() as f64;
    if freedom <= 0.0 {
        return None;
    }
    let within = ranked.variance * (ranked.count - 1.0 - ranked.statistic).max(0.0) / freedom;
    let mut pairs = Vec::new();
    for one in 0..groups.len() {
        for other in one + 1..groups.len() {
            let error = (within * (1.0 / ranked.sizes[one] + 1.0 / ranked.sizes[other])).sqrt();
            let distance = (ranked.means[one] - ranked.means[other]).abs();
            let p = if error > 0.0 {
                student_beyond(distance / error, freedom)
            } else {
                f64::from(u8::from(distance == 0.0))
            };
            pairs.push((one, other, p));
        }
    }
    holm(&mut pairs);
    Some(pairs)
}

fn holm(pairs: &mut [(usize, usize, f64)]) {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|a, b| pairs[*a].2.total_cmp(&pairs[*b].2));
    let mut least: f64 = 0.0;
    for (place, pair) in order.iter().enumerate() {
        let left = (pairs.len() - place) as f64;
        least = least.max((pairs[*pair].2 * left).min(1.0));
        pairs[*pair].2 = least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: f64, published: f64, digits: i32) {
        let error = (value - published).abs();
        assert!(
            error < published.abs() * 10_f64.powi(-digits),
            "{value}, not {published}"
        );
    }

    #[test]
    fn shapiro_and_wilks_eleven_men_are_not_normal() {
        let weights = [
            148.0, 154.0, 158.0, 160.0, 161.0, 162.0, 166.0, 170.0, 182.0, 195.0, 236.0,
        ];
        let found = shapiro_wilk(&weights).unwrap();
        is(found.statistic, 0.788_81, 4);
        is(found.p, 0.006_704, 3);
        assert_eq!(shapiro_wilk(&[1.0, 1.0, 1.0]), None);
        assert_eq!(shapiro_wilk(&[1.0, 2.0]), None);
    }

    #[test]
    fn evenly_spread_normal_scores_are_normal() {
        for n in [3, 5, 9, 40] {
            let scores: Vec<f64> = (1..=n)
                .map(|i| normal_quantile((f64::from(i) - 0.5) / f64::from(n)))
                .collect();
            let found = shapiro_wilk(&scores).unwrap();
            assert!(found.statistic > 0.97 && found.p > 0.5, "{n}: {found:?}");
        }
    }

    #[test]
    fn kruskal_and_wallis_find_that_insect_sprays_differ() {
        let sprays: [&[f64]; 6] = [
            &[10.0, 7.0, 20.0, 14.0, 14.0, 12.0, 10.0, 23.0, 17.0, 20.0, 14.0, 13.0],
            &[11.0, 17.0, 21.0, 11.0, 16.0, 14.0, 17.0, 17.0, 19.0, 21.0, 7.0, 13.0],
            &[0.0, 1.0, 7.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 0.0, 1.0, 4.0],
            &[3.0, 5.0, 12.0, 6.0, 4.0, 3.0, 5.0, 5.0, 5.0, 5.0, 2.0, 4.0],
            &[3.0, 5.0, 3.0, 5.0, 3.0, 6.0, 1.0, 1.0, 3.0, 2.0, 6.0, 4.0],
            &[11.0, 9.0, 15.0, 22.0, 15.0, 16.0, 13.0, 10.0, 26.0, 26.0, 24.0, 13.0],
        ];
        let found = kruskal_wallis(&sprays).unwrap();
        is(found.statistic, 54.691, 4);
        is(found.p, 1.511e-10, 3);
        assert_eq!(kruskal_wallis(&[&[1.0], &[1.0]]), None);
    }

    #[test]
    fn conover_and_iman_find_the_group_that_differs() {
        // The example of scikit-posthocs' documentation, with Holm's correction.
        let groups: [&[f64]; 3] = [
            &[1.0, 2.0, 3.0, 5.0, 1.0],
            &[12.0, 31.0, 54.0],
            &[10.0, 12.0, 6.0, 74.0, 11.0],
        ];
        let found = conover_iman(&groups).unwrap();
        let published = [(0, 1, 0.001_195_17), (0, 2, 0.002_783_29), (1, 2, 0.186_722_27)];
        for (found, published) in found.iter().zip(published) {
            assert_eq!((found.0, found.1), (published.0, published.1));
            is(found.2, published.2, 4);
        }
    }
}
