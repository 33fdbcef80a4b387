//! What measures the project: statistics, samples and their record, clusters of its own, runs with a deadline, and the
//! comparison of methods of reconfiguration that `pcmctl bench` makes too. The cases are in `cases`, beside `main.rs`.
//! Must never change what it measures to look better.

pub mod environment;
mod failure;
pub mod heat2d;
pub mod own_cluster;
pub mod pace;
pub mod progress;
pub mod record;
pub mod redistribution;
pub mod running;
mod samples;
pub mod statistics;
pub mod trial;

pub use failure::{Failure, OnPath};
pub use own_cluster::OwnCluster;
pub use samples::{Ratio, Report, Samples, push_each};
