//! State machines of the middleware: they take events and return effects, and know no clock, socket, disk,
//! randomness or thread. The daemon and the simulator drive the same code.

pub mod between_worlds;
pub mod checkpoint;
#[cfg(test)]
mod golden;
pub mod job;
pub mod link_window;
pub mod membership;
pub mod moment;
pub mod mpi_settings;
pub mod node;
pub mod parked;
pub mod partition;
pub mod pmi;
pub mod reconfiguration;
pub mod redistribution;
pub mod stacks;
pub mod stuck;
pub mod wide;
