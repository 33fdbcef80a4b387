//! Simulated clusters whose nodes run the real agents: a virtual clock, node speeds, loads of others, links that lose
//! messages, jobs that iterate. Everything follows from a seed.

pub mod central;
mod changes;
mod churn;
mod links;
pub mod measure;
mod queue;
pub mod scenario;
pub mod world;
