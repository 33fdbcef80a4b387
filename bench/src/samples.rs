//! Raw samples and the figures made of them: what a bench hands back. Pure: must never measure or print.

use crate::statistics;
use pcm_view::lines::Plot;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Everything one variant measured, in the order it was measured.
#[derive(Debug, Clone)]
pub struct Samples {
    pub name: String,
    pub unit: &'static str,
    pub values: Vec<f64>,
}

impl Samples {
    pub fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self::of(name, unit, Vec::new())
    }

    /// Samples that are there already.
    pub fn of(name: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            unit,
            values,
        }
    }

    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    pub fn median(&self) -> f64 {
        statistics::median(&self.values)
    }

    pub fn mean(&self) -> f64 {
        statistics::mean(&self.values)
    }

    pub fn quantile(&self, part: f64) -> f64 {
        statistics::quantile(&self.values, part)
    }

    /// Of runs made side by side.
    pub fn paired_ratio(&self, base: &Self) -> f64 {
        statistics::paired_ratio(&self.values, &base.values)
    }
}

/// Adds what one round measured: a value to each series.
pub fn push_each<const N: usize>(series: &mut [Samples; N], values: [f64; N]) {
    for (samples, value) in series.iter_mut().zip(values) {
        samples.push(value);
    }
}

/// A figure a bench exists for, with the limit it is held against, if there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub name: String,
    pub value: f64,
    /// As people write it, such as "<= 1.005".
    pub target: Option<String>,
}

impl Ratio {
    /// A figure and the limit it is held to, if there is one.
    pub fn new<'a>(name: impl Into<String>, value: f64, target: impl Into<Option<&'a str>>) -> Self {
        Self {
            name: name.into(),
            value,
            target: target.into().map(str::to_owned),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.4}", self.name, self.value)?;
        match &self.target {
            Some(target) => write!(f, "  (target {target})"),
            None => Ok(()),
        }
    }
}

/// What a bench hands back.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub series: Vec<Samples>,
    pub ratios: Vec<Ratio>,
    /// What a reader must know to judge the figures.
    pub remarks: Vec<String>,
    /// Written beside the record.
    pub plots: Vec<Plot>,
    /// Texts to be written beside the record, with what their names end in.
    pub beside: Vec<(&'static str, String)>,
}

impl Report {
    pub fn ratio<'a>(&mut self, name: impl Into<String>, value: f64, target: impl Into<Option<&'a str>>) {
        self.ratios.push(Ratio::new(name, value, target));
    }

    /// Another report behind this one.
    pub fn extend(&mut self, other: Self) {
        self.series.extend(other.series);
        self.ratios.extend(other.ratios);
        self.remarks.extend(other.remarks);
        self.plots.extend(other.plots);
        self.beside.extend(other.beside);
    }

    /// A series by its name.
    pub fn series_named(&self, name: &str) -> Option<&Samples> {
        self.series.iter().find(|series| series.name == name)
    }
}
