//! Serves PMIx to the ranks of one node through the libpmix of the job's Open MPI, which is loaded at run time. A
//! process of its own does it, because libpmix has threads of its own and may end the process that it is in. Four
//! parts: `bindings` of libpmix; `rules`, which are pure; `orders`, the messages of the parent; `server`, the process.
//! Must never start or end a rank: its parent does.

#[expect(nonstandard_style, missing_debug_implementations, reason = "the names of the header")]
pub mod bindings;
mod names;
mod orders;
mod rules;
mod server;

pub use names::{Process, Published, Status, Value};
pub use orders::{Environment, Namespace, Order, Place, Report, Serve, SpawnCommand};
pub use rules::{
    Answer, Collected, CollectiveCall, Effect, Event, Kind, Machine, NodeMessage, Reply, Request, Ticket, Upcall,
};
pub use server::run;
