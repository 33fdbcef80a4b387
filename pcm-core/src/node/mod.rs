//! A node of the cluster as one pure machine: everything a daemon decides. It takes events and the time, and fills an
//! [`outbox::Outbox`] with effects; the daemon's shell and the simulator carry these out in their order.

pub mod agent;
pub mod cluster;
pub mod event;
pub mod layout_request;
pub mod links;
pub mod memory;
pub mod methods;
pub mod outbox;
pub mod program_requests;
pub mod queries;
pub mod ranks;
pub mod record;
pub mod requester;
pub mod store;
pub mod streams;
pub mod timer;
