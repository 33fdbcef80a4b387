//! The whole cluster under one seeded scheduler: real [`pcm_core::node::Node`]s; everything else is simulated. A seed
//! names one history; the same seed gives the same history. See `README.md` beside this file.

mod acts;
mod agent;
mod calls;
mod checkpointing;
mod daemon;
mod disk;
mod effects;
mod faults;
mod files;
mod groups;
mod happening;
mod image;
mod keeper;
mod keeper_orders;
mod ledger;
mod liveness;
mod loops;
mod machine;
mod meeting;
mod memory;
mod network;
mod output;
mod pages;
mod peers;
mod person;
mod pmi;
mod queue;
mod rank;
mod requests;
mod restoring;
mod rules;
mod rules_of_data;
mod rules_of_layouts;
pub mod runner;
pub mod scenario;
mod seen;
mod shell;
mod simulation;
mod store_effects;
mod story;
pub mod tally;
mod violation;
mod wires;

pub use violation::Violation;
