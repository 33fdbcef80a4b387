//! `cargo xtask demo`: shows on a local cluster what this software does, and leaves nothing behind.

mod interrupt;
mod progress;
mod story;

pub(crate) use story::{Options, run};
