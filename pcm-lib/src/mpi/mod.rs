//! The checked layer over mpi-abi: every return code becomes a `Result`, handles are types of their own. It calls
//! PMPI, so the library's own traffic is not counted as the application's.

mod all_to_all;
mod bytes;
mod collective;
mod communicator;
mod error;
mod errors_returned;
mod first_contact;
pub mod handle;
mod info;
mod phase;
mod port;
mod request;
mod request_set;
mod separate_groups;
mod transport;

pub use all_to_all::{AllToAll, Stretch};
pub use communicator::{Communicator, InterCommunicator};
pub use error::MpiError;
pub use errors_returned::ErrorsReturned;
pub use info::Info;
pub use phase::{Phase, phase};
pub use port::Port;
pub use request::{Received, Request, Waited};
pub use request_set::{Completed, RequestSet};
pub use separate_groups::SeparateGroups;
pub use transport::{Transport, are_complete};
