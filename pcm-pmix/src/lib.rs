//! Serves PMIx to the ranks of one node through the libpmix of the job's Open MPI, which is loaded at run time. A
//! process of its own does it, because libpmix has threads of its own and may end the process that it is in. Three
//! parts: `bindings` of libpmix; `rules`, which are pure; `server`, the process; the parent's
//! messages are [`pcm_proto::pmix`]. Must never start or end a rank: its parent does.

#[expect(nonstandard_style, missing_debug_implementations, reason = "the names of the header")]
pub mod bindings;
mod names;
mod rules;
mod server;

pub use names::{Published, Value};
pub use pcm_proto::pmix::{Environment, Namespace, Order, Place, Process, Report, Serve, SpawnCommand, Status};
pub use rules::{
    Answer, Collected, CollectiveCall, Effect, Event, Group, Kind, Machine, NodeMessage, Reply, Request, Ticket, Upcall,
};
pub use server::run;
