//! Scenarios of the whole store, without sockets, files or clock.

mod checkpoints;
mod inbound;
mod relaunch;
mod world;
