//! Bench `adapt` and its parts: jobs that their agents look after, on nodes with CPU time of their own, against the
//! same program under plain mpiexec with the same load at the same moment.

mod cost;
mod experiments;
mod field;
mod race;
mod spikes;
mod steady;
mod unequal;

use super::bench::{Bench, run_all};

/// The parts; each takes less than four minutes.
pub(super) const PARTS: [Bench; 8] = [
    experiments::JOINS,
    experiments::OWN,
    experiments::SLOW,
    spikes::BENCH,
    steady::QUIET,
    steady::TURNS,
    unequal::BENCH,
    cost::BENCH,
];

pub(super) const BENCH: Bench = Bench {
    name: "adapt",
    about: "all benches adapt-*, one after the other",
    run: |context| run_all(&PARTS, context),
};
