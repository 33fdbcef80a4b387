//! Tails of the distributions that tests of hypotheses need, and the quantiles of the normal one. Pure.

use std::f64::consts::{PI, SQRT_2};

/// Terms of a series or a fraction; they end by themselves much earlier.
const TERMS_MAX: usize = 500;
const PRECISION: f64 = 1e-15;

/// That a normal variable is above `z`.
pub(super) fn normal_above(z: f64) -> f64 {
    let tail = 0.5 * gamma_above(0.5, z * z / 2.0);
    if z < 0.0 { 1.0 - tail } else { tail }
}

/// The value below which a normal variable is with this probability: Newton's steps from Hastings' approximation.
pub(super) fn normal_quantile(probability: f64) -> f64 {
    let tail = probability.min(1.0 - probability);
    let t = (-2.0 * tail.ln()).sqrt();
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let bottom = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = t - top / bottom;
    for _ in 0..4 {
        let density = (-z * z / 2.0).exp() / (PI.sqrt() * SQRT_2);
        z += (normal_above(z) - tail) / density;
    }
    if probability < 0.5 { -z } else { z }
}

/// That a chi-squared variable with so many degrees of freedom is above `x`.
pub(super) fn chi_squared_above(x: f64, freedom: f64) -> f64 {
    gamma_above(freedom / 2.0, x / 2.0)
}

/// That a variable of Student's t with so many degrees of freedom is farther from 0 than `t`.
pub(super) fn student_beyond(t: f64, freedom: f64) -> f64 {
    beta_share(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

fn gamma_ln(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - gamma_ln(1.0 - x);
    }
    let terms = (0..).zip(COEFFICIENTS).map(|(n, c)| c / (x + f64::from(n)));
    let sum = 0.999_999_999_999_809_9 + terms.sum::<f64>();
    let t = x + 6.5;
    (2.0 * PI).ln() / 2.0 + (x - 0.5) * t.ln() - t + sum.ln()
}

/// The upper regularised incomplete gamma function.
fn gamma_above(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let factor = (shape * x.ln() - x - gamma_ln(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum) = (1.0 / shape, 1.0 / shape);
        for n in 1..TERMS_MAX {
            term *= x / (shape + n as f64);
            sum += term;
            if term < sum * PRECISION {
                break;
            }
        }
        return 1.0 - factor * sum;
    }
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1.0 / f64::MIN_POSITIVE, 1.0 / b);
    let mut fraction = d;
    for n in 1..TERMS_MAX {
        let a = -(n as f64) * (n as f64 - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < PRECISION {
            break;
        }
    }
    factor * fraction
}

/// The regularised incomplete beta function.
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_share(1.0 - x, b, a);
    }
    let factor = (a * x.ln() + b * (1.0 - x).ln() + gamma_ln(a + b) - gamma_ln(a) - gamma_ln(b)).exp() / a;
    let (mut c, mut d) = (1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for n in 1..TERMS_MAX {
        let m = n as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for term in [even, odd] {
            d = 1.0 / (1.0 + term * d);
            c = 1.0 + term / c;
            last = c * d;
            fraction *= last;
        }
        if (last - 1.0).abs() < PRECISION {
            break;
        }
    }
    factor * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: f64, published: f64) {
        assert!((value - published).abs() < 1e-4, "{value}, not {published}");
    }

    #[test]
    fn critical_values_are_those_of_printed_tables() {
        is(normal_above(1.644_854), 0.05);
        is(normal_above(-1.959_964), 0.975);
        is(normal_quantile(0.975), 1.959_964);
        is(normal_quantile(0.001), -3.090_232);
        is(chi_squared_above(3.841_459, 1.0), 0.05);
        is(chi_squared_above(18.307_038, 10.0), 0.05);
        is(student_beyond(2.228_139, 10.0), 0.05);
        is(student_beyond(12.706_205, 1.0), 0.05);
        is(student_beyond(-2.763_769, 10.0), 0.02);
    }
}
