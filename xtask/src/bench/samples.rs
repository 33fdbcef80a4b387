//! Raw samples and what is computed from them. Pure: must never measure or print.

use pcm_view::lines::Plot;

/// Everything one variant measured, in the order it was measured.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<f64>,
}

impl Samples {
    pub(super) fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            unit,
            values: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// NaN without samples.
    pub(super) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Linear between neighbours; NaN without samples.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return f64::NAN;
        };
        let place = part.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
    }

    /// Median of the ratios of runs made side by side: what disturbed both runs of a round cancels.
    pub(super) fn paired_ratio(&self, base: &Self) -> f64 {
        let mut ratios = Self::new("", "");
        ratios.values = self
            .values
            .iter()
            .zip(&base.values)
            .map(|(value, base)| value / base)
            .collect();
        ratios.median()
    }
}

/// A figure a bench exists for, with the limit it is held against, if there is one.
#[derive(Debug, Clone)]
pub(super) struct Ratio {
    pub(super) name: String,
    pub(super) value: f64,
    /// As people write it, such as "<= 1.005".
    pub(super) target: Option<&'static str>,
}

/// What a bench hands back.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    pub(super) series: Vec<Samples>,
    pub(super) ratios: Vec<Ratio>,
    /// What a reader must know to judge the figures.
    pub(super) remarks: Vec<String>,
    /// Written beside the record.
    pub(super) plots: Vec<Plot>,
    /// Texts to be written beside the record, with what their names end in.
    pub(super) beside: Vec<(&'static str, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Samples {
        Samples {
            name: "x".into(),
            unit: "s",
            values: values.to_vec(),
        }
    }

    #[test]
    fn the_median_ignores_order_and_halves_even_counts() {
        assert_eq!(of(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(of(&[]).median().is_nan());
    }

    #[test]
    fn a_paired_ratio_cancels_what_disturbs_both_runs_of_a_round() {
        let (base, double) = (of(&[1.0, 10.0, 1.0]), of(&[2.0, 20.0, 2.0]));
        assert_eq!(double.paired_ratio(&base), 2.0);
    }
}
