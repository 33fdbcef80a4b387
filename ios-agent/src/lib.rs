//! The agent of a node. It may be killed at any moment and must never matter to a job.

pub mod calibration;
pub mod cpu_limit;
pub mod decide;
pub mod own_node;
pub mod policy;
pub mod proc_text;
pub mod protocol;
pub mod rank_window;
pub mod run;
pub mod sampling;
mod shell;
pub mod window;
