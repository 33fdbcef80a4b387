//! Raw samples and the figures made of them: what a bench hands back. Pure: must never measure or print.

use crate::statistics;
use pcm_view::lines::Plot;
use serde::{Deserialize, Serialize};

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

/// A figure a bench exists for, with the limit it is held against, if there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub name: String,
    pub value: f64,
    /// As people write it, such as "<= 1.005".
    pub target: Option<String>,
}

impl Ratio {
    /// A figure that is held against nothing.
    pub fn new(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            value,
            target: None,
        }
    }

    /// The same with its limit, if there is one.
    pub fn held_to<'a>(self, target: impl Into<Option<&'a str>>) -> Self {
        Self {
            target: target.into().map(str::to_owned),
            ..self
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
