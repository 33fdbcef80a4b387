//! Runs variants alternately, so that a slow minute of the machine hits all of them. Must never drop a sample.

use pcm_bench::{Failure, Samples, progress::Progress};

/// One way of doing what is compared.
pub(super) struct Variant<'a> {
    pub(super) name: String,
    pub(super) measure: Box<dyn FnMut() -> Result<f64, Failure> + 'a>,
}

impl<'a> Variant<'a> {
    pub(super) fn new(name: impl Into<String>, measure: impl FnMut() -> Result<f64, Failure> + 'a) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
        }
    }
}

/// Measures each variant once a round; every other round goes backwards, so that no variant is always the warm one.
/// One round before the first is thrown away.
pub(super) fn rounds(variants: &mut [Variant<'_>], rounds: usize, unit: &'static str) -> Result<Vec<Samples>, Failure> {
    for variant in variants.iter_mut() {
        (variant.measure)()?;
    }
    let mut series: Vec<Samples> = variants
        .iter()
        .map(|variant| Samples::new(&variant.name, unit))
        .collect();
    let mut progress = Progress::begin("rounds");
    for round in 0..rounds {
        let forward = 0..variants.len();
        let order: Vec<usize> = if round % 2 == 0 {
            forward.collect()
        } else {
            forward.rev().collect()
        };
        for index in order {
            series[index].push((variants[index].measure)()?);
        }
        progress.at(round as u64 + 1, rounds as u64);
    }
    progress.clear();
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn variants_alternate_and_change_places() {
        let order = RefCell::new(String::new());
        let variant = |name: &'static str| {
            let order = &order;
            Variant::new(name, move || {
                order.borrow_mut().push_str(name);
                Ok(1.0)
            })
        };
        let series = rounds(&mut [variant("a"), variant("b")], 2, "s").unwrap();
        assert_eq!(*order.borrow(), "ababba");
        assert_eq!(series[1].values.len(), 2);
    }
}
