//! A node of the cluster as one pure machine: everything a daemon decides. It takes events and the time, and fills an
//! [`outbox::Outbox`] with effects; the daemon's shell and the simulator carry these out in their order.

pub mod agent;
mod answers;
mod between_parts;
pub mod cluster;
mod context;
pub mod cost_file;
mod desk;
mod ending;
pub mod event;
mod heritage;
mod jobs;
pub mod layout_request;
pub mod links;
mod machine;
pub mod memory;
pub mod methods;
pub mod numbers;
pub mod outbox;
pub mod pmix;
pub mod program_requests;
pub mod queries;
pub mod ranks;
pub mod reach;
pub mod record;
pub mod requester;
mod requests;
mod settings;
pub mod store;
pub mod streams;
mod surroundings;
pub mod timer;

pub use heritage::Heritage;
pub use machine::{Beginnings, Node};
