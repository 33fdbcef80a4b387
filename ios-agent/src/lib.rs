//! The agent of a node. It may be killed at any moment and must never matter to a job.

pub mod calibration;
pub mod proc_text;
pub mod run;
pub mod sampling;
pub mod window;
