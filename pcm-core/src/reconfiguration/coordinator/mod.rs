//! The part of the daemon that holds a job's lease: it plans, asks, decides once, and sees its decision carried out.

mod burial;
mod closing;
mod run;
mod state;
mod takeover;

pub(super) use state::Coordinator;
