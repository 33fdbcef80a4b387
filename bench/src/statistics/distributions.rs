//! Tails of the distributions that the tests need: how probable a value at least as extreme is. Pure.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

/// That a standard normal variable is above `z`.
pub(super) fn normal_above(z: f64) -> f64 {
    Normal::standard().sf(z)
}

/// Where a standard normal variable is below with probability `p`.
pub(super) fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// That a chi-squared variable with so many degrees of freedom is above `x`; NaN without any freedom.
pub(super) fn chi_squared_above(x: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).map_or(f64::NAN, |of| of.sf(x))
}

/// That a variable of Student's t with so many degrees of freedom is farther from 0 than `t`; NaN without any freedom.
pub(super) fn student_beyond(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |of| 2.0 * of.sf(t.abs()))
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
