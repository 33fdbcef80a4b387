//! The node's agent as the daemon sees it: its process, its link, its limits, and what it reads of the node's jobs.

pub mod allowance;
pub mod effect;
pub mod samples;
pub mod supervision;
pub(in crate::node) mod words;

pub use effect::{AgentEffect, AgentFact};
pub use supervision::{AgentLink, AgentView, OwnState};
