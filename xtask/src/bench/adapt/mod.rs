//! Bench `adapt` and its parts: jobs that their agents look after, on nodes with CPU time of their own, against the same
//! program under plain mpiexec with the same load at the same moment.

mod experiments;
mod field;
mod race;
mod spikes;
mod steady;
mod unequal;

use super::registry::{Bench, Context, Report};
use crate::failure::Failure;

/// The parts; each takes less than four minutes.
pub(super) const PARTS: [Bench; 7] = [
    experiments::JOINS,
    experiments::OWN,
    experiments::SLOW,
    spikes::BENCH,
    steady::QUIET,
    steady::TURNS,
    unequal::BENCH,
];

pub(super) const BENCH: Bench = Bench {
    name: "adapt",
    about: "all benches adapt-*, one after the other",
    run,
};

fn run(context: &Context) -> Result<Report, Failure> {
    let mut all = Report::default();
    for part in &PARTS {
        eprintln!("{}", part.name);
        let report = (part.run)(context)?;
        all.series.extend(report.series);
        all.ratios.extend(report.ratios);
        all.remarks.extend(report.remarks);
        all.plots.extend(report.plots);
    }
    Ok(all)
}
