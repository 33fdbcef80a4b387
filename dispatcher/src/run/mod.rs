//! What `run` does while it is attached to a job.

pub(crate) mod attached;
pub(crate) mod input;
pub(crate) mod programs;
pub(crate) mod signals;
pub(crate) mod watching;
pub(crate) mod writer;
