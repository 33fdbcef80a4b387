//! The data of jobs that a node holds for them: checkpoints in memory, data parked for a relaunch, and the images of
//! both on their way between nodes.

pub mod ahead;
mod arrival;
mod buffer;
mod buffer_pool;
pub mod checkpoint_store;
pub mod effect;
pub mod end;
pub mod fetch;
pub mod image_key;
mod inbound;
pub mod input;
mod machine;
pub mod not_come;
mod outbound;
mod relaunch_store;
pub mod route;
#[cfg(test)]
mod scenarios;
pub mod step;
mod transfer;

pub use machine::Store;
