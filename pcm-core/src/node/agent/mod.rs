//! The node's agent as the daemon sees it: its process, its link, its limits, and what it reads of the node's jobs.

pub mod allowance;
pub mod link;
pub mod samples;

pub use link::{AgentEffect, AgentFact, AgentLink, AgentView};
