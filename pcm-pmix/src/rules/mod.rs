//! What a PMIx server must answer, as a machine that takes events and returns effects: pure, with the time since some
//! origin as an argument.
//! Must never know libpmix, threads or files.

mod asked;
mod collective;
mod directory;
mod event;
mod machine;
mod mail;
mod namespaces;

pub use event::{
    Answer, Collected, CollectiveCall, Effect, Event, Group, Kind, NodeMessage, Reply, Request, Ticket, Upcall,
};
pub use machine::Machine;
pub(crate) use mail::{Arrival, Mail};
