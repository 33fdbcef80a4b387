//! What `pcmctl bench` measures on a running cluster: a job of its own, changed by every method of reconfiguration.

mod best_map;
mod cell;
mod distributions;
mod job;
pub(crate) mod plan;
mod record;
mod redistribute;
mod statistics;
mod verdict;

pub(crate) use redistribute::redistribute;
