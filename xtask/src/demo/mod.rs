//! `cargo xtask demo`: shows on a local cluster what this software does, and leaves nothing behind.

mod acts;
mod interrupt;
mod job;
mod pace;
mod show;
mod story;

pub(crate) use story::{Options, run};
